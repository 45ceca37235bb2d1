"""Plans the next batch while the tasks of the last one run. Stream reader process.

Only after a full batch: more is there for certain, and nothing is gained by planning less of it later. And not when it
is time to look for new partitions, which would not be found as long as much is there. What was planned ahead counts
once it is asked for, from exactly where it begins. Nothing is written meanwhile: a process that is about to end has no
say in what the one after it finds.
"""

from __future__ import annotations

import threading

from cdc.retry import RetryPolicy
from cdc.source import Limits
from connectors.kafka.client import KafkaCluster
from connectors.kafka.read.history import TopicHistory
from connectors.kafka.read.offset import KafkaOffset
from connectors.kafka.read.planner import TopicPlanner
from connectors.kafka.source_options import KafkaSourceOptions


class _Plan:
    """A batch that a thread is planning. `end` is `start` when there is none; `error` is what it met instead."""

    def __init__(self, planner: TopicPlanner, start: KafkaOffset, limits: Limits | None, wait_s: float) -> None:
        self.start, self.limits, self.end = start, limits, start
        self.error: Exception | None = None
        self._arguments = planner, start, limits, wait_s
        self._thread = threading.Thread(target=self._run, name="plan-ahead", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until it is planned."""
        self._thread.join()

    def _run(self) -> None:
        planner, start, limits, wait_s = self._arguments
        try:
            self.end = planner.plan_ahead(start, limits, wait_s)
        except Exception as error:  # noqa: BLE001 - kept, and raised to who asks for this batch
            self.error = error


class Ahead:
    """Stands before the planner, which it alone asks. Not for use by two threads, but for `stop` and `lag`."""

    def __init__(self, planner: TopicPlanner) -> None:
        self._planner = planner
        self._plan: _Plan | None = None

    @classmethod
    def of(
        cls,
        cluster: KafkaCluster,
        policy: RetryPolicy,
        options: KafkaSourceOptions,
        history: TopicHistory,
        pipeline: str,
        notices: list[str],
    ) -> Ahead:
        """Before a planner that has these."""
        return cls(TopicPlanner(cluster, policy, options, history, pipeline, notices))

    def next(self, start: KafkaOffset, limits: Limits | None, wait_s: float) -> KafkaOffset:
        """The next batch of `TopicPlanner.next`; errors of the planning ahead are raised here."""
        plan = self._await_plan()
        end = start
        if plan is not None and (plan.start, plan.limits) == (start, limits):
            if plan.error is not None:
                raise plan.error
            end = plan.end
        if end == start:
            end = self._planner.next(start, limits, wait_s)
        planner = self._planner
        if end != start and planner.full and not planner.looks and not planner.stopped:
            self._plan = _Plan(planner, end, limits, wait_s)
        return end

    def bound(self) -> None:
        """Bound the run as `TopicPlanner.bound`; it counts from the batch on that is asked for next."""
        self._await_plan()
        self._planner.bound()

    def lag(self) -> int:
        """The lag of `TopicPlanner.lag`: a batch that is planned ahead counts until it is asked for."""
        return self._planner.lag(last=self._plan is not None)

    def stop(self) -> None:
        """Close the connection; what is being planned ends without a batch."""
        self._planner.stop()

    def _await_plan(self) -> _Plan | None:
        """The batch that is planned ahead, once nobody works with the planner."""
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.wait()
        return plan

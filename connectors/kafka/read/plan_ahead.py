"""Plan the next batch while the tasks of the last one run. Stream reader process.

Plans ahead only after a full batch, when there is certainly more to read; and not when it is time to look for new
partitions, which would otherwise not be found as long as there is much to read. A batch planned ahead only counts once
it is asked for, from exactly the offset where it begins. Nothing is written before that, so a process that ends has no
influence on what the next one finds.
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
    """A batch that a thread is planning. `end` equals `start` when there is no batch; `error` is its failure."""

    def __init__(self, planner: TopicPlanner, start: KafkaOffset, limits: Limits | None, wait_s: float) -> None:
        self.start, self.limits, self.end = start, limits, start
        self.error: Exception | None = None
        self._arguments = planner, start, limits, wait_s
        self._thread = threading.Thread(target=self._run, name="plan-ahead", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the batch is planned."""
        self._thread.join()

    def _run(self) -> None:
        planner, start, limits, wait_s = self._arguments
        try:
            self.end = planner.plan_ahead(start, limits, wait_s)
        except Exception as error:  # noqa: BLE001 - kept, and raised when this batch is asked for
            self.error = error


class PlanAhead:
    """Wraps the planner, which nobody else calls. Not thread safe, except for `stop` and `lag`."""

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
    ) -> PlanAhead:
        """Wrap a new planner with these arguments."""
        return cls(TopicPlanner(cluster, policy, options, history, pipeline, notices))

    def next(self, start: KafkaOffset, limits: Limits | None, wait_s: float) -> KafkaOffset:
        """The next batch, as `TopicPlanner.next`; raises the errors of planning ahead."""
        plan = self._await_plan()
        end = start
        if plan is not None and (plan.start, plan.limits) == (start, limits):
            if plan.error is not None:
                raise plan.error
            end = plan.end
        if end == start:
            end = self._planner.next(start, limits, wait_s)
        planner = self._planner
        if end != start and planner.full and not planner.is_search_due and not planner.stopped:
            self._plan = _Plan(planner, end, limits, wait_s)
        return end

    def bound(self) -> None:
        """Bound the run as `TopicPlanner.bound`, beginning with the batch that is asked for next."""
        self._await_plan()
        self._planner.bound()

    def lag(self) -> int:
        """The lag, as `TopicPlanner.lag`; includes a batch planned ahead until it is asked for."""
        return self._planner.lag(last=self._plan is not None)

    def stop(self) -> None:
        """Close the connection; a planning that is under way ends without a batch."""
        self._planner.stop()

    def _await_plan(self) -> _Plan | None:
        """The batch planned ahead, if any; waits until the thread is done with the planner."""
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.wait()
        return plan

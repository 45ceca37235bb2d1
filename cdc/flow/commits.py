"""Commits of decided batches, beside the reading: while one is under way the next batch is read and prepared.

A decided batch will be committed whatever happens, so it may count as done at once. What was decided and not yet
noted as committed when a run ended is committed when the next one starts, before anything is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context

from cdc.errors import CdcError, CommitUnknown, EngineError, LoadsLost
from cdc.flow.lost import LostLoads
from cdc.flow.task import PrepareTask
from cdc.process.faults import crash_point
from cdc.retry import Backoff, RetryPolicy
from cdc.sink import Sink
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir

Then = Callable[[Mapping[str, int], float], None]
"""Gets what a commit has counted, and how many seconds it took."""

_MOST_GENERATIONS = 3
"""A sink that gives up the rows of a batch more often in one run is not helped by reading them again."""


def as_cdc_error(error: Exception) -> CdcError:
    """The error itself, or what stands for one that nobody foresaw."""
    if isinstance(error, CdcError):
        return error
    return EngineError(
        f"{type(error).__name__}: {error}"[:500],
        hint="CDC_DEBUG=1 shows the whole trace; a run after this one continues at the last committed batch",
    )


class Commits:
    """Commits one decision at a time, in order, each in a thread of its own. Driver.

    `error` is what stopped it; nothing is committed after that. `took_s` is how long the last commit was under way.
    """

    def __init__(
        self,
        sink: Sink,
        state: StateDir,
        retry: RetryPolicy,
        task: PrepareTask,
        explain: Callable[[CdcError], CdcError],
    ) -> None:
        """`task` reads rows again that the sink has given up; `explain` gives an error the words that users know."""
        self._explain = explain
        self._sink, self._log, self._retry = sink, CommitLog(state.commits), retry
        self._lost = LostLoads(task, state, retry)
        self._pending: Future[None] | None = None
        self.error: CdcError | None = None
        self.took_s = 0.0

    def start(self, decision: Decision, then: Then) -> None:
        """Begin to commit a decision once the one before is through; `then` runs behind it, in the thread.

        Raises what the commit before failed with.
        """
        self.finish()
        thread = ThreadPoolExecutor(1, "commit")
        self._pending = thread.submit(copy_context().run, self._run, decision, then)  # whose log lines are its own
        thread.shutdown(wait=False)  # it ends with this commit

    def finish(self) -> None:
        """Wait until nothing is being committed. Raises the error that stopped a commit, every time it is asked."""
        self.wait()
        if self.error is not None:
            raise self.error

    def wait(self) -> None:
        """Wait until nothing is being committed; what a commit failed with is in `error`."""
        if self._pending is not None:
            wait([self._pending])

    def _run(self, decision: Decision, then: Then) -> None:
        try:
            counts = self.commit(decision)
            then(counts, self.took_s)
        except Exception as error:  # noqa: BLE001 - kept, and raised to the run by whoever waits for the commit
            self.error = self._explain(as_cdc_error(error))

    def commit(self, decision: Decision) -> Mapping[str, int]:
        """Commit here and now, again after what may pass; what the sink counted.

        Also after CommitUnknown: a commit is idempotent, and begins with what the sink says of it. Raises the last
        error once the policy's time is up or the run is to stop; the next run then goes on with it. Rows that the sink
        has given up are prepared again, or let go (`cdc.flow.lost`).
        """
        generations, started = 0, time.monotonic()
        backoff = Backoff(self._retry, f"commit of batch {decision.batch}")
        while True:
            try:
                self._log.check_held()
                counts = self._sink.commit(decision.batch, decision.prepared)
                break
            except LoadsLost as error:
                generations += 1
                if generations > _MOST_GENERATIONS:
                    raise
                decision = self._lost.decide_without(decision, error)
            except CdcError as error:
                passing = error.retryable or isinstance(error, CommitUnknown)
                if not passing or not backoff.pause(str(error)):
                    raise
        crash_point("after-commit", decision.batch)
        self._log.note_committed(decision.batch)
        self.took_s = time.monotonic() - started
        return counts or {}

"""Commits decided batches in a thread, while the next batch is read and prepared.

A decided batch is always committed eventually, so it counts as done at once. If a run ends between decision and commit,
the next run commits the batch before it reads anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context

from cdc.errors import CdcError, CommitUnknown, EngineError, LoadsLost, out_of_memory
from cdc.flow.lost import LostLoads
from cdc.flow.task import PrepareTask
from cdc.process.faults import crash_point
from cdc.retry import Backoff, RetryPolicy
from cdc.sink import Sink
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir

Then = Callable[[Mapping[str, int], float], None]
"""Called with the counts of a commit and its duration in seconds."""

_MOST_GENERATIONS = 3
"""How often a run prepares the lost rows of one batch again before it fails."""


def as_cdc_error(error: Exception) -> CdcError:
    """Return a CdcError as it is; wrap any other exception in an EngineError."""
    if isinstance(error, CdcError):
        return error
    if isinstance(error, MemoryError):
        return out_of_memory(str(error))
    return EngineError(
        f"{type(error).__name__}: {error}"[:500],
        hint="CDC_DEBUG=1 shows the stack trace; the next run continues after the last committed batch",
    )


class Commits:
    """Commits one decision at a time, in order, each in a thread of its own. Driver.

    `error` is the error of a failed commit; nothing is committed after it. `took_s` is the duration of the last commit.
    """

    def __init__(
        self,
        sink: Sink,
        state: StateDir,
        retry: RetryPolicy,
        task: PrepareTask,
        explain: Callable[[CdcError], CdcError],
    ) -> None:
        """`task` reads rows again that the sink has lost; `explain` adds to an error which shadow tables it names."""
        self._explain = explain
        self._sink, self._log, self._retry = sink, CommitLog(state.commits), retry
        self._lost = LostLoads(task, state, retry)
        self._pending: Future[None] | None = None
        self.error: CdcError | None = None
        self.took_s = 0.0

    def start(self, decision: Decision, then: Then) -> None:
        """Start to commit a decision after the previous commit has finished; `then` runs after it, in the same thread.

        Raises the error of the previous commit.
        """
        self.finish()
        thread = ThreadPoolExecutor(1, "commit")
        self._pending = thread.submit(copy_context().run, self._run, decision, then)  # whose log lines are its own
        thread.shutdown(wait=False)  # the thread ends with this commit

    def finish(self) -> None:
        """Wait for the commit in flight. Raises the error of a failed commit, on every call."""
        self.wait()
        if self.error is not None:
            raise self.error

    def wait(self) -> None:
        """Wait for the commit in flight; its failure is in `error`."""
        if self._pending is not None:
            wait([self._pending])

    def _run(self, decision: Decision, then: Then) -> None:
        try:
            counts = self.commit(decision)
            then(counts, self.took_s)
        except Exception as error:  # noqa: BLE001 - stored; `finish` raises it in the run
            self.error = self._explain(as_cdc_error(error))

    def commit(self, decision: Decision) -> Mapping[str, int]:
        """Commit in this thread and return the sink's counts; retryable errors are retried.

        CommitUnknown is retried too: a commit is idempotent and first asks the sink for its outcome. Raises the last
        error when the retry policy times out or the run stops; the next run then repeats the commit. Rows that the sink
        has lost are prepared again, or dropped (`cdc.flow.lost`).
        """
        generations, started = 0, time.monotonic()
        backoff = Backoff(self._retry, f"commit of batch {decision.batch}")
        while True:
            try:
                self._log.check_lease()
                counts = self._sink.commit(decision.batch, decision.prepared)
                break
            except LoadsLost as error:
                generations += 1
                if generations > _MOST_GENERATIONS:
                    raise
                decision = self._lost.decide_without(decision, error)
            except CdcError as error:
                passing = error.retryable or isinstance(error, CommitUnknown)
                if not passing or not backoff.pause(error):
                    raise
        crash_point("after-commit", decision.batch)
        self._log.note_committed(decision.batch)
        self.took_s = time.monotonic() - started
        return counts or {}

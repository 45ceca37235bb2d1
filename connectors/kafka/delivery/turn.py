"""The turns of tasks: each writes its records after the task before it, so that every key keeps its order.

The splits of a batch are in log order, but tasks run in parallel. A task reads and encodes ahead, up to a limit, and
writes once the fence shows that the task before it has written.
"""

from __future__ import annotations

from cdc.errors import CdcError, SinkUnavailable, StateError, StateUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.state.store import Store
from connectors.kafka.delivery.fences import Fences, part_of

_EVERY = RetryPolicy(first_pause_s=0.01, longest_pause_s=0.02)
"""Nobody writes between the end of one task and the moment the next notices its turn. With pauses of 0.2 s that was
0.12 s of every batch; a look at the fence takes 1 to 2 ms."""


class FailedTasks:
    """Notes the tasks that stopped with an error, so that those waiting for them stop too. Any process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def note(self, batch: int, task: int, error: CdcError) -> None:
        """Note that this task will not write, because of this error.

        Raises StateUnavailable if that cannot be noted: Spark then retries the task, and ends the others with it.
        """
        try:
            self._store.write_json(f"failed-{batch}-{task}.json", {"task": task})
        except StateError as unnoted:
            because = "" if isinstance(error, StateError) else f"; task {task} of batch {batch} had stopped: {error}"
            raise StateUnavailable(unnoted.message + because, where=unnoted.where, hint=unnoted.hint) from error

    def has_failed(self, batch: int, task: int) -> bool:
        """Whether that task, or one before it, has stopped with an error."""
        names = set(self._store.names())
        return any(f"failed-{batch}-{number}.json" in names for number in range(task + 1))

    def clear(self) -> None:
        """Remove all notes. Driver, before tasks run."""
        for name in self._store.names():
            if name.startswith("failed-"):
                self._store.remove(name)


class Turn:
    """The turn of a task to write. Executor."""

    def __init__(self, fences: Fences, failed: FailedTasks, batch: int, task: int, *, timeout_s: float) -> None:
        self._fences, self._failed, self._batch, self._task = fences, failed, batch, task
        self._timeout_s = timeout_s
        self._came = task == 0

    def has_come(self) -> bool:
        """Whether it is this task's turn now; asks the cluster."""
        if not self._came:
            self._came = self._fences.batches([part_of(self._task - 1)])[0] >= self._batch
        return self._came

    def wait(self) -> None:
        """Wait for this task's turn. Raises SinkUnavailable when the task before it stops or does not end.

        Spark does not retry the task after that (`waited_s`), and the error of the task before is the one that is told.
        """
        policy = RetryPolicy(self._timeout_s, _EVERY.first_pause_s, _EVERY.longest_pause_s)
        pauses = Backoff(policy, f"task {self._task} of batch {self._batch}")
        before = f"task {self._task - 1} of batch {self._batch}, which writes before,"
        while not self.has_come():
            stopped = self._failed.has_failed(self._batch, self._task - 1)
            if not pauses.pause("the task before writes first"):
                raise pauses.given_up(SinkUnavailable(f"{before} does not end"))
            if stopped:
                raise pauses.given_up(SinkUnavailable(f"{before} has stopped"))

"""The committed position of a pipeline, and waiting for it to advance. Only reads the state directory."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.errors import StateError
from cdc.offsets import source_offset
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from cdc.source import CurrentTables, Offset
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir


class Committed:
    """The committed position of a pipeline, running or not.

    Args:
        wait: how long to wait for it to reach a position, which it never does while the pipeline is not running.
    """

    def __init__(self, state: StateDir, wait: RetryPolicy) -> None:
        self._log, self._root, self._wait = CommitLog(state.commits), state.root, wait

    def decision(self) -> Decision:
        """Return the decision of the last committed batch. Raises StateError when there is none."""
        batch = self._log.committed()
        found = self._log.get(batch) if batch >= 0 else None
        if found is None:
            hint = "run it first, such as with `cdc run FILE --until-caught-up`"
            raise StateError("this pipeline has not committed anything yet", where=str(self._root), hint=hint)
        return found

    def offset(self) -> Offset:
        """Return the source's offset after that batch."""
        return source_offset(self.decision().end)

    def reaches(self, now: CurrentTables, end: Offset, tables: Sequence[TableId]) -> bool:
        """Wait until all changes of these tables up to `end` are in the sink; return False on timeout."""
        pauses = Backoff(self._wait, "verify")
        while not now.covers(self.offset(), end, tables):
            if not pauses.pause("the pipeline has not committed what was read in the source"):
                return False
        return True

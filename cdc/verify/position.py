"""How far a pipeline has committed, and waiting until that is far enough. Only reads its state directory."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.errors import StateError
from cdc.offsets import source_offset
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from cdc.source import Offset, TablesNow
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir


class Committed:
    """The committed position of a pipeline, running or not.

    Args:
        wait: how long to wait for it to get to a place; it does not when nobody runs it.
    """

    def __init__(self, state: StateDir, wait: RetryPolicy) -> None:
        self._log, self._root, self._wait = CommitLog(state.commits), state.root, wait

    def decision(self) -> Decision:
        """The last batch that is in the sink. Raises StateError when none is."""
        batch = self._log.committed()
        found = self._log.get(batch) if batch >= 0 else None
        if found is None:
            hint = "run it first, such as with `cdc run FILE --until-caught-up`"
            raise StateError("this pipeline has not committed anything yet", where=str(self._root), hint=hint)
        return found

    def offset(self) -> Offset:
        """The source's offset behind it."""
        return source_offset(self.decision().end)

    def reaches(self, now: TablesNow, end: Offset, tables: Sequence[TableId]) -> bool:
        """Wait until everything about these tables up to `end` is in the sink; False when it is not in time."""
        pauses = Backoff(self._wait, "verify")
        while not now.covers(self.offset(), end, tables):
            if not pauses.pause("the pipeline has not committed what was read in the source"):
                return False
        return True

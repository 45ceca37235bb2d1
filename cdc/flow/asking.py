"""Copies of tables that the engine asks its source for. Driver."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable

from cdc.errors import ChangeRefused
from cdc.schema import TableId
from cdc.source import Captures, CopiesAnew, Source
from cdc.tables.machine import RESUMED
from cdc.tables.requests import Request

log = logging.getLogger(__name__)


class Asking:
    """Snapshots that the engine asks its source for. Requests are on disk before anything is decided.

    A request of a batch counts once, however often the batch runs.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def possible(self, table: TableId) -> bool:
        """Whether the source copies this table when it is asked."""
        return isinstance(self._source, CopiesAnew) and self._source.copies_anew(table)

    def possible_when_asked(self, table: TableId) -> bool:
        """Whether the source copies this table where the user asks for it."""
        return isinstance(self._source, CopiesAnew) and self.captured(table)

    def resume(self, request: Request) -> None:
        """Ask for the copy that a table goes on with. Raises as `ask`."""
        if self.captured(request.table):
            self._ask(request.table, request.order, RESUMED, asked=True)

    def ask(self, batch: int, tables: Iterable[TableId], reason: str, *, asked: bool) -> None:
        """Ask for copies that begin behind what a batch decides; arguments as in `CopiesAnew.copy_anew`.

        Raises ChangeRefused when the source does not copy a table, StateError.
        """
        for table in tables:
            if self.captured(table):
                self._ask(table, _name(batch, table), reason, asked=asked)

    def ask_for_user(self, batch: int, table: TableId, reason: str) -> None:
        """Ask for a copy that the user wants, also where the source copies nothing unasked: with the table's schema of
        then. Raises StateError."""
        if self.possible_when_asked(table):
            assert isinstance(self._source, CopiesAnew)
            self._source.copy_anew(table, _name(batch, table), reason, asked=True)

    def ask_if_possible(self, batch: int, tables: Iterable[TableId], reason: str) -> None:
        """Ask where the source snapshots the table; else the log tells the user's next step. Raises StateError."""
        for table in tables:
            if self.possible(table):
                self.ask(batch, [table], reason, asked=False)
            else:
                log.warning(
                    "%s: %s: those that are there stay; `cdc resync FILE %s` copies it anew", table, reason, table
                )

    def captured(self, table: TableId) -> bool:
        """Whether the source follows a table; one that is left out begins anew when it is captured again."""
        return not isinstance(self._source, Captures) or self._source.captures(table)

    def _ask(self, table: TableId, request: str, reason: str, *, asked: bool) -> None:
        if not isinstance(self._source, CopiesAnew) or not self._source.copies_anew(table):
            hint = "take the edit back, or start anew with another --state-dir"
            raise ChangeRefused(f"{reason}, and its source does not copy it anew", where=str(table), hint=hint)
        self._source.copy_anew(table, request, reason, asked=asked)


def _name(batch: int, table: TableId) -> str:
    """The name of the request that a batch makes for a table."""
    return f"{batch}-{hashlib.sha256(str(table).encode()).hexdigest()[:16]}"

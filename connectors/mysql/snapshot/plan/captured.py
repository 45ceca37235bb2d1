"""The patterns a pipeline's tables were looked up with, in a small file, so that an edit of them is noticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from cdc.errors import SourceError
from cdc.pattern import TablePattern
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.log.options import LogOptions

FILE_NAME = "captured.json"


class CapturedPattern:
    """`captured.json` in a connector's state folder: `{"tables": "...", "exclude": "..."}`, with `"ignore_case": false`
    where names are compared exactly. `"since"` is a list of such patterns, of runs that may have planned batches and
    did not get to keep theirs. Stream reader process."""

    def __init__(self, store: Store, options: LogOptions) -> None:
        self._store, self._pattern = store, options.pattern
        self._texts = {"tables": options.tables, "exclude": options.excluded}
        self._now = self._texts if self._pattern.ignore_case else {**self._texts, "ignore_case": False}
        self._kept: bool | None = None

    @property
    def kept(self) -> bool:
        """Whether the patterns are those of the runs before. Raises StateError."""
        if self._kept is None:
            self._kept = self._store.read_json(FILE_NAME, hint="remove it") == self._now
        return self._kept

    def matched(self, table: TableId) -> bool:
        """Whether the patterns of all runs since the last kept ones were about this table; none kept are about all."""
        before = self._store.read_json(FILE_NAME, hint="remove it")
        if before is None:
            return True
        return all(_pattern(texts).matches(table) for texts in (before, *before.get("since", ())))

    def note(self) -> None:
        """Before a batch is planned with patterns that are not kept yet: tables that they leave out miss rows of it.

        Raises StateError.
        """
        before = self._store.read_json(FILE_NAME, hint="remove it")
        if before is not None and self._now not in before.get("since", ()):
            self._store.write_json(FILE_NAME, {**before, "since": [*before.get("since", ()), self._now]})

    def check_case(self, known: Iterable[TableId]) -> None:
        """Raises SourceError for tables that an earlier version captured as it compared the patterns in any case."""
        before = self._store.read_json(FILE_NAME, hint="remove it") or {}
        if self._pattern.ignore_case or {**before, "since": None} != {**self._texts, "since": None}:
            return
        in_any_case = replace(self._pattern, ignore_case=True)
        lost = sorted(str(table) for table in known if in_any_case.matches(table) and not self._pattern.matches(table))
        if lost:
            raise SourceError(
                f"{', '.join(lost[:5])}: captured so far, but this server tells upper and lower case in names apart, "
                "and so do the patterns now",
                where="source.tables",
                hint="write the names in source.tables as the server has them, or leave the tables out for good with "
                "tables.exclude",
            )

    def keep(self) -> None:
        """Remember the patterns of now. Repeatable; to be called when the tables they bring are in an offset.

        Raises StateError.
        """
        if not self.kept:
            self._store.write_json(FILE_NAME, self._now)
            self._kept = True


def _pattern(texts: Mapping[str, Any]) -> TablePattern:
    return TablePattern(texts["tables"], texts["exclude"], texts.get("ignore_case", True))

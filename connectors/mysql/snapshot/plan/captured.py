"""The patterns a pipeline's tables were looked up with, in a small file, so that an edit of them is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.pattern import TablePattern
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.log_options import LogOptions

FILE_NAME = "captured.json"


class CapturedPattern:
    """`captured.json` in a connector's state folder: `{"tables": "...", "exclude": "...", "ignore_case": true}`.

    `"since"` is a list of such patterns, of runs that may have planned batches and did not get to keep theirs. Stream
    reader process.
    """

    def __init__(self, store: Store, options: LogOptions) -> None:
        self._store, ignore_case = store, options.pattern.ignore_case
        self._now = {"tables": options.tables, "exclude": options.excluded, "ignore_case": ignore_case}
        self._unchanged: bool | None = None

    @property
    def unchanged(self) -> bool:
        """Whether the patterns are those of the runs before. Raises StateError."""
        if self._unchanged is None:
            self._unchanged = self._store.read_json(FILE_NAME, hint="remove it") == self._now
        return self._unchanged

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

    def remember(self) -> None:
        """Remember the patterns of now. Repeatable; to be called when the tables they bring are in an offset.

        Raises StateError.
        """
        if not self.unchanged:
            self._store.write_json(FILE_NAME, self._now)
            self._unchanged = True


def _pattern(texts: Mapping[str, Any]) -> TablePattern:
    return TablePattern(texts["tables"], texts["exclude"], texts["ignore_case"])

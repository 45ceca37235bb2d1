"""The table patterns that a pipeline last used, stored in a small file so that edits of them are detected."""

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

    `"since"` lists further patterns, of runs that may have planned or repeated batches but did not store theirs. Stream
    reader process, and driver to note them.
    """

    def __init__(self, store: Store, options: LogOptions) -> None:
        self._store, ignore_case = store, options.pattern.ignore_case
        self._now = {"tables": options.tables, "exclude": options.excluded, "ignore_case": ignore_case}
        self._unchanged: bool | None = None
        self._noted = False

    @property
    def unchanged(self) -> bool:
        """Whether the patterns are those of earlier runs. Raises StateError."""
        if self._unchanged is None:
            self._unchanged = self._store.read_json(FILE_NAME, hint="remove it") == self._now
        return self._unchanged

    def matched(self, table: TableId) -> bool:
        """Return whether all patterns used since the last stored ones matched this table. True when none are stored."""
        before = self._store.read_json(FILE_NAME, hint="remove it")
        if before is None:
            return True
        return all(_pattern(texts).matches(table) for texts in (before, *before.get("since", ())))

    def note(self) -> None:
        """Record the current patterns before a batch is planned or repeated with them.

        Tables outside them miss rows of it. Raises StateError.
        """
        if self._noted or self.unchanged:
            return
        before = self._store.read_json(FILE_NAME, hint="remove it")
        if before is not None and self._now not in (since := before.get("since", [])):
            self._store.write_json(FILE_NAME, {**before, "since": [*since, self._now]})
        self._noted = True

    def remember(self) -> None:
        """Store the current patterns. Repeatable. Call it once an offset contains the tables that they add.

        Raises StateError.
        """
        if not self.unchanged:
            self._store.write_json(FILE_NAME, self._now)
            self._unchanged = True


def _pattern(texts: Mapping[str, Any]) -> TablePattern:
    return TablePattern(texts["tables"], texts["exclude"], texts["ignore_case"])

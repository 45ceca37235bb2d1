"""The patterns a pipeline's tables were looked up with, in a small file, so that an edit of them is noticed."""

from __future__ import annotations

from cdc.state.store import Store
from connectors.mysql.log.options import LogOptions

FILE_NAME = "captured.json"


class CapturedPattern:
    """`captured.json` in a connector's state folder: `{"tables": "...", "exclude": "..."}`. Stream reader process."""

    def __init__(self, store: Store, options: LogOptions) -> None:
        self._store = store
        self._now = {"tables": options.tables, "exclude": options.tables_exclude or ""}
        self._kept: bool | None = None

    @property
    def kept(self) -> bool:
        """Whether the patterns are those of the runs before. Raises StateError."""
        if self._kept is None:
            self._kept = self._store.read_json(FILE_NAME, hint="remove it") == self._now
        return self._kept

    def keep(self) -> None:
        """Remember the patterns of now. Repeatable; to be called when the tables they bring are in an offset.

        Raises StateError.
        """
        if not self.kept:
            self._store.write_json(FILE_NAME, self._now)
            self._kept = True

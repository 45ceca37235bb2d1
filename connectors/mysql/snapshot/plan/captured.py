"""The patterns a pipeline's tables were looked up with, in a small file, so that an edit of them is noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cdc.errors import StateError
from connectors.mysql.log.options import LogOptions

FILE_NAME = "captured.json"


class CapturedPattern:
    """`captured.json` in a connector's state folder: `{"tables": "...", "exclude": "..."}`. Stream reader process."""

    def __init__(self, directory: Path, options: LogOptions) -> None:
        self._path = directory / FILE_NAME
        self._now = {"tables": options.tables, "exclude": options.tables_exclude or ""}
        self._kept: bool | None = None

    @property
    def kept(self) -> bool:
        """Whether the patterns are those of the runs before."""
        if self._kept is None:
            try:
                self._kept = json.loads(self._path.read_text(encoding="utf-8")) == self._now
            except FileNotFoundError:
                self._kept = False
            except (OSError, ValueError) as error:
                raise StateError(f"cannot be read: {error}", where=str(self._path), hint="remove it") from error
        return self._kept

    def keep(self) -> None:
        """Remember the patterns of now. Repeatable; to be called when the tables they bring are in an offset."""
        if self.kept:
            return
        spare = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            spare.write_text(json.dumps(self._now), encoding="utf-8")
            os.replace(spare, self._path)
        except OSError as error:
            raise StateError(f"cannot be written: {error.strerror}", where=str(self._path)) from error
        self._kept = True

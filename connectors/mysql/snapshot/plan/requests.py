"""Requests to copy a table anew: one file each in the connector's state folder, whether the pipeline runs or not.

`resync/<name>.json` holds `{"table": ["shop", "orders"], "refresh": false}`; `refresh` (false when it is missing): the
rows are written over those that the sink has, as far as the table has a key. The plan remembers the name, so a request counts once; the
file goes when the batch that began the copy is in the sink.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.schema import TableId

FOLDER = "resync"
_SUFFIX = ".json"


class Requests:
    """The requests in a connector's state folder."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER

    def add(self, table: TableId, name: str = "", *, refresh: bool = False) -> None:
        """Ask for a table. Any process. A request of the same name counts once. Raises StateError when it cannot be
        written."""
        fields = {"table": [table.database, table.table], "refresh": refresh}
        path = self._folder / f"{name or secrets.token_hex(8)}{_SUFFIX}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            spare = path.with_suffix(".tmp")
            spare.write_text(json.dumps(fields), encoding="utf-8")
            os.replace(spare, path)
        except OSError as error:
            raise StateError(f"cannot write the request: {error.strerror}", where=str(path)) from error

    def names(self) -> frozenset[str]:
        """The requests that are there. Cheap: asked several times a second."""
        try:
            found = os.listdir(self._folder)
        except FileNotFoundError:
            return frozenset()
        return frozenset(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))

    def table(self, name: str) -> TableId:
        """The table of a request. Raises StateError when the file cannot be read."""
        database, table = self._read(name)["table"]
        return TableId(database, table)

    def refresh(self, name: str) -> bool:
        """Whether the sink's rows stay meanwhile. Raises StateError when the file cannot be read."""
        return bool(self._read(name).get("refresh", False))

    def _read(self, name: str) -> dict[str, Any]:
        path = self._folder / f"{name}{_SUFFIX}"
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            _database, _table = fields["table"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(f"cannot be read: {error!r}", where=str(path), hint="remove the file") from error
        return dict(fields)

    def remove(self, names: Iterable[str]) -> None:
        """Forget requests; those that are not there are fine."""
        for name in self.names() & frozenset(names):
            (self._folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)

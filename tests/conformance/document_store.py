"""A document store in one file, with the calls of such systems: indices, aliases, bulk requests by external version.

Every call is whole or not done, and is on disk when it returns. Documents are visible at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cdc.state.durable import write_file

Json = dict[str, Any]


class Missing(LookupError):
    """There is no such index or alias."""


class DocumentStore:
    """One cluster. An index has a mapping of fields to types, and documents by id, each with its version."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create_index(self, name: str, mapping: Json, about: Json) -> None:
        """An empty index, unless it is there."""
        self._change(lambda all_: all_["indices"].setdefault(name, {"mapping": mapping, "about": about, "docs": {}}))

    def delete_index(self, name: str) -> None:
        """The index goes, if it is there."""
        self._change(lambda all_: all_["indices"].pop(name, None))

    def set_aliases(self, put: Json, remove: Sequence[str] = ()) -> None:
        """Aliases point to these indices, and others go: in one step."""

        def change(all_: Json) -> None:
            for name in remove:
                all_["aliases"].pop(name, None)
            all_["aliases"].update(put)

        self._change(change)

    def index_of(self, alias: str) -> str | None:
        """The index that an alias points to."""
        found: str | None = self._read()["aliases"].get(alias)
        return found

    def index(self, name: str) -> Json:
        """Mapping, what was said about it, and documents. Raises Missing."""
        found: Json | None = self._read()["indices"].get(name)
        if found is None:
            raise Missing(name)
        return found

    def put_mapping(self, name: str, field: str, type_: str) -> None:
        """Another field; those that are there cannot be changed."""
        self._change(lambda all_: all_["indices"][name]["mapping"].setdefault(field, type_))

    def update_all(self, name: str, field: str, value: Any) -> None:
        """Set a field in all documents that have no such field."""

        def change(all_: Json) -> None:
            for doc in all_["indices"][name]["docs"].values():
                if doc["source"] is not None:
                    doc["source"].setdefault(field, value)

        self._change(change)

    def bulk(self, name: str, requests: Sequence[tuple[str, list[int], Json | None]]) -> None:
        """Documents by id with an external version, None to delete: one at or below what is there changes nothing."""

        def change(all_: Json) -> None:
            if name not in all_["indices"]:
                raise Missing(name)
            docs = all_["indices"][name]["docs"]
            for id_, version, source in requests:
                if id_ not in docs or version > docs[id_]["version"]:
                    docs[id_] = {"version": version, "source": source}

        self._change(change)

    def _read(self) -> Json:
        empty: Json = {"indices": {}, "aliases": {}}
        return json.loads(self._path.read_bytes()) if self._path.exists() else empty

    def _change(self, change: Callable[[Json], object]) -> None:
        found = self._read()
        change(found)
        write_file(self._path, json.dumps(found).encode())

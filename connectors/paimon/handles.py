"""The handle of a task for one table: `{"id": identity of the table, "version": 14}`, with its files as the payload.

Before the handle exists, `NotedFiles` tell an abort which files to remove.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc.schema import TableId
from cdc.sink import Prepared
from connectors.paimon.library import entries

MESSAGE_VERSION = 14
"""The version of the format that Paimon calls `CommitMessageSerializer`."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one table in one task: Paimon's commit messages about them, and their paths."""

    messages: Sequence[bytes]
    paths: Sequence[str]

    @classmethod
    def of(cls, prepared: Prepared) -> Files:
        """The files of a handle."""
        fields = json.loads(prepared.payload)
        return cls([base64.b64decode(text) for text in fields["messages"]], fields["paths"])

    @property
    def names(self) -> set[str]:
        """The names of the files, which are the paths without their folders."""
        return {path.rsplit("/", 1)[1] for path in self.paths}

    def handle(self, identity: str) -> tuple[dict[str, Any], bytes]:
        """The handle and its payload."""
        messages = [base64.b64encode(message).decode() for message in self.messages]
        payload = json.dumps({"messages": messages, "paths": list(self.paths)})
        return {"id": identity, "version": MESSAGE_VERSION}, payload.encode()


@dataclass(frozen=True, slots=True)
class NotedFiles:
    """The files that an attempt of a task may have written: those in a table's folder whose names have the prefix."""

    table: TableId
    folder: str
    prefix: str

    @classmethod
    def from_json(cls, fields: Any) -> NotedFiles:
        """The note in the JSON value that `to_json` wrote."""
        return cls(TableId(*fields["table"]), fields["folder"], fields["prefix"])

    def to_json(self) -> dict[str, Any]:
        """The note as a JSON value."""
        return {"table": [self.table.database, self.table.table], "folder": self.folder, "prefix": self.prefix}

    def paths(self, file_io: Any) -> list[str]:
        """The paths of the files that exist, as listed by the library's `file_io` of the table."""
        beginning = f"{self.folder.rstrip('/')}/{self.prefix}"
        return [path for path in entries(file_io, self.folder) if path.startswith(beginning)]

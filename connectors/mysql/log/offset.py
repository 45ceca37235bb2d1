"""Offsets of the MySQL sources: the end of a batch in the log, and the valid entries of the state folder's files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cdc.errors import StateError
from cdc.source import Offset
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.server.positions import LogPosition

VERSION = 1
"""Version written by `MySqlOffset.to_json`. 0 stands for no version, with the same names and meanings."""

_NAMES = frozenset({"version", "file", "position", "gtids", "schemas", "server", "chunks", "files_ahead"})


@dataclass(frozen=True, slots=True)
class MySqlOffset:
    """A point in the history of a pipeline's source.

    Attributes:
        position: in the server's log, or in the binlog file of that name.
        gtids: the GTID set (MySQL) or position (MariaDB) committed there; None when the start had none.
        schemas: number of schema history entries valid there.
        server: whose position it is (`ServerInfo.identity`); empty for files.
        chunks: number of chunk plan entries valid there.
        files_ahead: added to the server's file numbers for ordering changes, so that they keep growing after a change
            of server.
    """

    position: LogPosition
    gtids: str | None = None
    schemas: int = 0
    server: str = ""
    chunks: int = 0
    files_ahead: int = 0

    @property
    def sequence(self) -> int:
        """Rows before the offset have at most this sequence."""
        return sequence_of(self.position.file, self.position.position, self.files_ahead)

    def moved_to(self, end: MySqlOffset) -> bool:
        """Return whether a later offset differs from this one only by a move to another server or another log."""
        return (self.server, self.files_ahead) != (end.server, end.files_ahead)

    def same_log(self, other: MySqlOffset) -> bool:
        """Return whether both are equal apart from the chunk plan."""
        return replace(self, chunks=0) == replace(other, chunks=0)

    def to_json(self) -> Offset:
        """Return a JSON object that `from_json` reads back; omits empty fields."""
        fields: Offset = {
            "version": VERSION,
            "file": self.position.file,
            "position": self.position.position,
            "gtids": self.gtids,
            "schemas": self.schemas,
        }
        more = {"server": self.server, "chunks": self.chunks, "files_ahead": self.files_ahead}
        return {**fields, **{name: value for name, value in more.items() if value}}

    @classmethod
    def from_json(cls, fields: Offset) -> MySqlOffset:
        """Read an offset of this version or of an earlier one. Raises StateError for any other."""
        version = fields.get("version", 0)
        if not isinstance(version, int) or not 0 <= version <= VERSION:
            raise StateError(
                f"an offset of the MySQL source has version {version}, this program reads up to {VERSION}",
                where=str(fields),
                hint="continue with the version that wrote it, or start over with an empty state directory",
            )
        unknown = fields.keys() - _NAMES
        if unknown:
            raise _damaged(fields, f"it has {', '.join(sorted(unknown))}")
        gtids = fields.get("gtids")
        if not isinstance(gtids, str | None):
            raise _damaged(fields, "its gtids are no text")
        return cls(
            LogPosition(_text(fields, "file"), _number(fields, "position")),
            gtids,
            _number(fields, "schemas"),
            _text(fields, "server", ""),
            _number(fields, "chunks", 0),
            _number(fields, "files_ahead", 0),
        )


def _text(fields: Offset, name: str, default: str | None = None) -> str:
    value: Any = fields.get(name, default)
    if not isinstance(value, str):
        raise _damaged(fields, f"its {name} is not text")
    return value


def _number(fields: Offset, name: str, default: int | None = None) -> int:
    value: Any = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _damaged(fields, f"its {name} is no count")
    return value


def _damaged(fields: Offset, reason: str) -> StateError:
    return StateError(
        f"an offset of the MySQL source cannot be read: {reason}",
        where=str(fields),
        hint="restore the state directory from a copy, or start over with an empty one",
    )

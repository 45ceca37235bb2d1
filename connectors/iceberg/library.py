"""The library `pyiceberg`: loaded where it is first needed, its catalogs opened once a process, its errors as ours.

Only what has no underscore of its own is used, and `connectors.iceberg.snapshots` writes manifests and snapshots with
the library's writers: version 0.12 has no row-level deletes. The minor version is pinned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cdc.errors import SinkError, SinkUnavailable
from cdc.schema import TableId
from connectors.iceberg.sql_catalog import sql_catalog
from connectors.shared.lake.errors import first_line, library_errors, refused_changes

_AWAY = frozenset({
    "ConnectionError", "ConnectTimeout", "ReadTimeout", "ServerError", "ServiceUnavailableError",
    "EndpointConnectionError", "OperationalError", "TooManyRequestsError", "GatewayTimeoutError",
    "CommitStateUnknownException",
})  # fmt: skip
"""Names of errors that may pass: of requests, of the REST catalog, of botocore, of SQLAlchemy.

A commit without an answer is one: each begins with a look at the table, and is for one head alone.
"""
_UNREACHABLE = ("connection refused", "timed out", "could not connect", "slow down", "database is locked")


class CommitConflict(SinkUnavailable):
    """Another commit to the table came first, or our own did and its answer was lost: look, and compute again."""


def load() -> None:
    """Load the library. Executor and driver. Raises SinkError."""
    try:
        import pyiceberg.catalog
        import pyiceberg.io.pyarrow  # noqa: F401
    except ImportError as error:
        hint = "pip install 'pyiceberg[sql-sqlite]==0.12.*'"
        raise SinkError(f"Iceberg's package cannot be loaded: {error}", hint=hint) from error


@dataclass(frozen=True)
class Catalog:
    """A catalog as its properties name it. Picklable; opened in each process when it is first needed, then kept there.

    Args:
        properties: the library's own, secrets included; never printed.
        secrets: names of those that are not shown.
    """

    properties: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = frozenset()

    @property
    def own_file(self) -> str:
        """The SQLite file of a catalog that is made with its first table; empty for a catalog of somebody else."""
        folder = self.properties.get("warehouse", "").removeprefix("file://")
        return f"{folder}/catalog.db" if self.properties.get("uri") == f"sqlite:///{folder}/catalog.db" else ""

    @property
    def is_there(self) -> bool:
        """Whether there is a catalog to look at, without making one."""
        return not self.own_file or os.path.exists(self.own_file)

    @property
    def place(self) -> str:
        """The catalog and its warehouse, for messages."""
        shown = (name for name in ("type", "uri", "warehouse") if name not in self.secrets)
        return " ".join(filter(None, (self.properties.get(name) for name in shown)))

    def open(self) -> Any:
        """The library's catalog. Raises SinkError."""
        key = tuple(sorted(self.properties.items()))
        if key not in _opened:
            load()
            from pyiceberg.catalog import load_catalog

            with self.guard(self.place):
                if self.own_file:
                    os.makedirs(os.path.dirname(self.own_file), exist_ok=True)
                made = sql_catalog() if self.properties.get("type") == "sql" else load_catalog
                _opened[key] = made("cdc", **dict(self.properties))
        return _opened[key]

    def table(self, table: TableId, *, history: bool = True) -> Any:
        """The library's table as it is now; None when there is none. Raises SinkError.

        Without its `history`, where the catalog can leave that out, it has no snapshots: for those who write files.
        """
        if not self.is_there:
            return None
        catalog = self.open()
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        whole = history or not hasattr(catalog, "load_without_history")
        with self.guard(str(table)):
            try:
                return (catalog.load_table if whole else catalog.load_without_history)(identifier(table))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove files, as `delete_quietly`. Raises SinkError."""
        with self.guard(self.place):
            opened = self.open()
            from pyiceberg.io import load_file_io

            io = load_file_io({**opened.properties}, self.properties.get("warehouse"))
            for path in paths:
                delete_quietly(io, path)

    @contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Turns errors of the library into this tool's, without what the properties keep secret."""
        secrets = [self.properties.get(name, "") for name in self.secrets]
        with library_errors("Iceberg", where, secrets, _AWAY, _UNREACHABLE):
            load()
            from pyiceberg.exceptions import CommitFailedException

            try:
                yield
            except CommitFailedException as error:
                hint = "the next try looks at it again"  # and finds the change there, where only an answer was lost
                text = f"the table has changed: {first_line(error, secrets)}"
                raise CommitConflict(text, where=where, hint=hint) from error

    @contextmanager
    def guard_change(self, where: str) -> Iterator[None]:
        """The guard of a schema change: a refusal is one of the change."""
        with refused_changes(), self.guard(where):
            yield


_opened: dict[tuple[tuple[str, str], ...], Any] = {}
"""Catalogs of this process by their properties."""


def identifier(table: TableId) -> tuple[str, ...]:
    """The library's name of a table; a dot in it is part of the name."""
    return (table.database, table.table)


def delete_quietly(io: Any, path: str) -> None:
    """Remove a file; one that is not there, or cannot be removed now, costs room and nothing else."""
    try:
        io.delete(path)
    except OSError:  # FileNotFoundError, and what object stores say of one
        return

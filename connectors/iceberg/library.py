"""Access to the library `pyiceberg`: loads it when first needed, opens catalogs once per process, converts its errors.

Names without an underscore are used, except in `_in_order` and `sql_catalog`. `connectors.iceberg.snapshots` writes
manifests and snapshots with the library's writers, because version 0.12 has no row-level deletes. The minor version is
pinned.
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
    "CommitStateUnknownException", "JSONDecodeError", "UnicodeDecodeError",
})  # fmt: skip
"""Names of temporary errors: of requests, of the REST catalog, of botocore, of SQLAlchemy, of a proxy's page.

A commit without an answer is one of them: the next attempt first looks at the table, and commits on one head only.
"""
_REST_CATALOG = "connectors.iceberg.rest_catalog.RestTables"
_UNREACHABLE = ("connection refused", "timed out", "could not connect", "slow down", "database is locked")


class CommitConflict(SinkUnavailable):
    """Raised when another commit to the table came first, or our own did and its answer was lost.

    The caller has to load the table and compute its change again.
    """


def load() -> None:
    """Load the library. Used in executors and driver. Raises SinkError."""
    try:
        import pyiceberg.catalog
        import pyiceberg.io.pyarrow  # noqa: F401
    except ImportError as error:
        hint = "pip install 'pyiceberg[sql-sqlite]==0.12.*'"
        raise SinkError(f"Iceberg's package cannot be loaded: {error}", hint=hint) from error


@dataclass(frozen=True)
class Catalog:
    """A catalog, described by its properties. Picklable; each process opens it when first needed, and keeps it.

    Args:
        properties: the library's properties, secrets included; never printed.
        secrets: the names of the properties that are not shown.
    """

    properties: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = frozenset()

    @property
    def own_file(self) -> str:
        """The SQLite file of a catalog that this sink creates with its first table; empty for other catalogs."""
        folder = self.properties.get("warehouse", "").removeprefix("file://")
        return f"{folder}/catalog.db" if self.properties.get("uri") == f"sqlite:///{folder}/catalog.db" else ""

    @property
    def exists(self) -> bool:
        """Whether the catalog exists; does not create it."""
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
                properties = dict(self.properties)
                factory = sql_catalog() if properties.get("type") == "sql" else load_catalog
                if properties.get("type") == "rest":
                    properties["py-catalog-impl"] = _REST_CATALOG
                    del properties["type"]
                _opened[key] = _in_order(factory("cdc", **properties))
        return _opened[key]

    def table(self, table: TableId, *, history: bool = True) -> Any:
        """Load the library's table; None when it does not exist. Raises SinkError.

        Without `history`, the table has no snapshots if the catalog can leave them out. Enough for writing data files.
        """
        if not self.exists:
            return None
        catalog = self.open()
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        with_history = history or not hasattr(catalog, "load_without_history")
        with self.guard(str(table)):
            try:
                return (catalog.load_table if with_history else catalog.load_without_history)(identifier(table))
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
        """Convert the library's errors within the block into this tool's, without the secrets of the properties."""
        secrets = [self.properties.get(name, "") for name in self.secrets]
        with library_errors("Iceberg", where, secrets, _AWAY, _UNREACHABLE):
            load()
            from pyiceberg.exceptions import CommitFailedException

            try:
                yield
            except CommitFailedException as error:
                hint = "the next try looks at it again"  # and finds the change if only the answer was lost
                text = f"the table has changed: {first_line(error, secrets)}"
                raise CommitConflict(text, where=where, hint=hint) from error

    @contextmanager
    def guard_change(self, where: str) -> Iterator[None]:
        """Like `guard`, for a schema change: a refusal becomes a ChangeRefused."""
        with refused_changes(), self.guard(where):
            yield


def _in_order(catalog: Any) -> Any:
    """Have a catalog write no metadata older than its predecessor, as after the clock was set back.

    Java's readers refuse a table whose log has entries more than a minute out of order. A REST server has its own.
    """
    stage = getattr(catalog, "_update_and_stage_table", None)
    if stage is None:
        return catalog

    def in_order(table: Any, *given: Any, **named: Any) -> Any:
        staged = stage(table, *given, **named)
        if table is not None and staged.metadata.last_updated_ms < table.metadata.last_updated_ms:
            later = {"last_updated_ms": table.metadata.last_updated_ms + 1}
            staged.metadata = staged.metadata.model_copy(update=later)
        return staged

    catalog._update_and_stage_table = in_order
    return catalog


_opened: dict[tuple[tuple[str, str], ...], Any] = {}
"""The open catalogs of this process by their properties."""


def identifier(table: TableId) -> tuple[str, ...]:
    """The library's identifier of a table; a dot in a name stays part of the name."""
    return (table.database, table.table)


def delete_quietly(io: Any, path: str) -> None:
    """Remove a file, ignoring failures: a file that cannot be removed only costs space."""
    try:
        io.delete(path)
    except OSError:  # FileNotFoundError, or the errors of object stores
        return

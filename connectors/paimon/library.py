"""Access to Paimon's two Python packages: loads them when first needed, checks versions, converts their errors.

`pypaimon` has catalogs, schemas and file metadata; `pypaimon-rust` commits and reads. Loading the first takes a second,
so `cdc validate` imports neither. Some of the parts that are used are private (the file writer's class, the commit of a
compaction), so one version of each is required and any other is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from cdc.errors import ChangeRefused, SinkError
from cdc.schema import TableId
from connectors.paimon.object_store import check_bucket
from connectors.shared.lake.errors import library_errors, refused_changes
from connectors.shared.lake.options import is_secret, shown_address

VERSIONS = {"pypaimon": "2.1.0", "pypaimon-rust": "0.4.0"}
INSTALL = "pip install --no-deps --require-hashes -r requirements-paimon.txt"
_AWAY = ("ConnectionError", "Timeout", "EndpointConnectionError", "ServiceUnavailableException")
_UNREACHABLE = (
    "connection refused", "connection reset", "timed out", "timeout", "temporarily unavailable", "slow down",
    "dns error", "couldn't connect", "could not connect", "network connection", "error sending request", "broken pipe",
    "service unavailable", "500 internal", "502 bad", "503", "504 gateway", "server error: ", "unable to process: ",
    "expecting value: line 1 column 1",
)  # fmt: skip
"""Parts of messages, in lower case, of errors that may pass. The REST client's errors have no status number: `unable to
process` stands for 429, 502, 504 and others."""

_DROPPED = "cdc.dropped"
"""The option of a table whose drop was begun."""


def check_versions() -> None:
    """Raise SinkError when one of the packages is missing or of another version."""
    for package, required in VERSIONS.items():
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise SinkError(f"the package {package} is not installed", hint=INSTALL) from None
        if found != required:
            raise SinkError(f"{package} is {found}, this version works with {required}", hint=INSTALL)


def load() -> None:
    """Import both packages, so that the first batch need not wait for it. Raises SinkError."""
    check_versions()
    try:
        import pypaimon.catalog.catalog_factory
        import pypaimon.write.native_commit
        import pypaimon.write.writer.key_value_data_writer  # noqa: F401
        import pypaimon_rust.datafusion  # noqa: F401
    except ImportError as error:
        raise SinkError(f"Paimon's packages cannot be loaded: {error}", hint=INSTALL) from error
    for name in ("pypaimon", "pypaimon.snapshot", "pypaimon.write"):
        logging.getLogger(name).setLevel(logging.ERROR)  # failures are raised as exceptions anyway


@dataclass(frozen=True)
class Catalog:
    """A catalog, described by its options. Picklable; each process opens it when first needed, and keeps it.

    Args:
        options: the library's options, secrets included; never printed.
    """

    options: Mapping[str, str] = field(repr=False)

    @property
    def place(self) -> str:
        """The warehouse, for messages."""
        return " ".join(filter(None, (shown_address(self.options.get("uri")), self.options.get("warehouse"))))

    def open(self) -> Any:
        """The library's catalog. Raises SinkError."""
        key = tuple(sorted(self.options.items()))
        if key not in _opened:
            load()
            from pypaimon.catalog.catalog_factory import CatalogFactory

            with self.guard(self.place):
                _opened[key] = CatalogFactory.create(dict(self.options))
        return _opened[key]

    def databases(self) -> list[str]:
        """The databases. Detects within seconds that a store lacks the bucket. Raises SinkError."""
        check_bucket(self.options)
        with self.guard(self.place):
            return list(self.open().list_databases())

    def table(self, table: TableId) -> Any:
        """The library's table with its newest schema; None when it does not exist. Raises SinkError."""
        found = self.stored(table)
        return None if found is None or is_dropped(found) else found

    def stored(self, table: TableId) -> Any:
        """Like `table`, but also returns what an interrupted drop has left of one (`is_dropped`). Raises SinkError."""
        catalog = self.open()
        from pypaimon.catalog.catalog_exception import DatabaseNotExistException, TableNotExistException

        with self.guard(str(table)):
            try:
                return catalog.get_table(identifier(table))
            except (TableNotExistException, DatabaseNotExistException):
                return None

    def drop(self, table: TableId) -> None:
        """Drop the table if it exists. Of a folder, the rows are deleted first and the newest schema last.

        The library deletes a folder's files in any order, and JDBC's entry before them. After a crash there would be no
        table to drop again, and a new table of the same name would have the snapshots that are left. The newest schema
        says that the table is being dropped, as without its rows it would be an empty one.
        """
        catalog, found = self.open(), self.stored(table)
        if found is not None and not self._is_rest:
            from pypaimon.schema.schema_change import SchemaChange

            if not is_dropped(found):
                catalog.alter_table(identifier(table), [SchemaChange.set_option(_DROPPED, "true")], False)
            files, folder = found.file_io, str(found.table_path)
            *others, schemas = sorted(entries(files, folder), key=_rows_first)
            *earlier, _ = _schemas(files, schemas)
            for path in (*others, *earlier, *([schemas] if self.options.get("metastore") == "jdbc" else ())):
                files.delete(path, True)
        catalog.drop_table(identifier(table), True)

    def make_room(self, table: TableId) -> None:
        """Delete what an interrupted drop or creation has left of a table.

        Raises ChangeRefused for a folder with files of no table: a new table would have them.
        """
        catalog = self.open()
        if self._is_rest:
            return
        path, files = str(catalog.get_table_path(identifier(table))), catalog.file_io
        names = [_name(entry) for entry in entries(files, path) if _name(entry) != "schema" or _schemas(files, entry)]
        if names and self.stored(table) is not None:
            self.drop(table)
        elif names:
            reason = f"the folder {path} holds files, but the catalog has no such table: {', '.join(sorted(names)[:5])}"
            hint = "if another program has dropped the table by half, delete the folder; else route to another table"
            raise ChangeRefused(reason, where=str(table), hint=hint)
        catalog.drop_table(identifier(table), True)
        files.delete(path, True)

    @property
    def _is_rest(self) -> bool:
        """Whether a server deletes the files of its tables."""
        return self.options.get("metastore") == "rest"

    def guard(self, where: str) -> AbstractContextManager[None]:
        """Convert the packages' errors within the block into this tool's, without the secrets of the options."""
        secrets = [value for name, value in self.options.items() if is_secret(name)]
        return library_errors("Paimon", where, secrets, _AWAY, _UNREACHABLE)

    @contextmanager
    def guard_change(self, where: str) -> Iterator[None]:
        """Like `guard`, for a schema change: a refusal becomes a ChangeRefused."""
        with refused_changes(), self.guard(where):
            yield


_opened: dict[tuple[tuple[str, str], ...], Any] = {}
"""The open catalogs of this process by their options."""


def entries(files: Any, folder: str) -> list[str]:
    """The paths of a folder's files and folders by the library's `file_io`; none if it does not exist."""
    found = files.list_status(folder) if files.exists(folder) else ()
    return [f"{folder.rstrip('/')}/{_name(str(each.path))}" for each in found]


def is_dropped(table: Any) -> bool:
    """Whether the drop of the library's table was begun: some of its rows may be gone already."""
    return _DROPPED in table.table_schema.options


def _schemas(files: Any, folder: str) -> list[str]:
    """The schemas in a folder, the newest one last; without those that nobody has finished writing."""
    numbers = {path: _name(path).removeprefix("schema-") for path in entries(files, folder)}
    return sorted((path for path, number in numbers.items() if number.isdigit()), key=lambda path: int(numbers[path]))


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _rows_first(path: str) -> tuple[bool, bool]:
    return _name(path) == "schema", _name(path) != "snapshot"


def identifier(table: TableId) -> Any:
    """The library's identifier of a table; a dot or a dollar in a name stays part of the name."""
    from pypaimon.common.identifier import Identifier

    return Identifier.create(table.database, table.table)


def native(table: Any) -> Any:
    """The table of the Rust package, for commits and reads, with the same schema, options and file system."""
    from pypaimon.write.native_commit import create_native_write_table

    found = create_native_write_table(table)
    if found is None:
        raise SinkError(
            "Paimon's Rust package cannot reach this table's file system",
            where=str(table.identifier.get_full_name()),
            hint="a local folder, S3 and a REST catalog can be reached",
        )
    return found

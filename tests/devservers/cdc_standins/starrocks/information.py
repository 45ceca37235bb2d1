"""information_schema: tables made from the catalog when a query names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from cdc_standins.load_values import INTEGER_BITS
from cdc_standins.starrocks.schema import Column, Table
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.types import TEXT

OWN_SCHEMA = "$information_schema"
_NUMBERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19, "LARGEINT": 39}
_ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
Cell = str | int | None
INFORMATION_TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "schemata": (("CATALOG_NAME", "VARCHAR"), ("SCHEMA_NAME", "VARCHAR"), ("DEFAULT_CHARACTER_SET_NAME", "VARCHAR")),
    "tables": (
        ("TABLE_CATALOG", "VARCHAR"), ("TABLE_SCHEMA", "VARCHAR"), ("TABLE_NAME", "VARCHAR"), ("TABLE_TYPE", "VARCHAR"),
        ("ENGINE", "VARCHAR"), ("TABLE_COMMENT", "VARCHAR"),
    ),
    "columns": (
        ("TABLE_CATALOG", "VARCHAR"), ("TABLE_SCHEMA", "VARCHAR"), ("TABLE_NAME", "VARCHAR"),
        ("COLUMN_NAME", "VARCHAR"), ("ORDINAL_POSITION", "BIGINT"), ("COLUMN_DEFAULT", "VARCHAR"),
        ("IS_NULLABLE", "VARCHAR"), ("DATA_TYPE", "VARCHAR"), ("CHARACTER_MAXIMUM_LENGTH", "BIGINT"),
        ("CHARACTER_OCTET_LENGTH", "BIGINT"), ("NUMERIC_PRECISION", "BIGINT"), ("NUMERIC_SCALE", "BIGINT"),
        ("DATETIME_PRECISION", "BIGINT"), ("CHARACTER_SET_NAME", "VARCHAR"), ("COLLATION_NAME", "VARCHAR"),
        ("COLUMN_TYPE", "VARCHAR"), ("COLUMN_KEY", "VARCHAR"), ("EXTRA", "VARCHAR"), ("PRIVILEGES", "VARCHAR"),
        ("COLUMN_COMMENT", "VARCHAR"), ("COLUMN_SIZE", "BIGINT"), ("DECIMAL_DIGITS", "BIGINT"),
        ("GENERATION_EXPRESSION", "VARCHAR"),
    ),
}  # fmt: skip
"""Tables by name, each with its columns and their DuckDB types."""


class Information:
    """Keeps the tables of information_schema as new as the catalog."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._made: dict[str, int] = {}
        self._rows: dict[str, Callable[[], Iterator[Sequence[Cell]]]] = {
            "schemata": self._schemata,
            "tables": self._tables,
            "columns": self._columns,
        }

    def refresh(self, name: str) -> None:
        """Make the table again when the catalog has changed."""
        catalog = self._services.catalog
        with catalog.lock:
            if self._made.get(name) == catalog.generation:
                return
            rows = list(self._rows[name]())
            columns = {
                column: pa.array([row[index] for row in rows], _ARROW[kind])
                for index, (column, kind) in enumerate(INFORMATION_TABLES[name])
            }
            self._services.data.replace(OWN_SCHEMA, name, pa.table(columns))
            self._made[name] = catalog.generation

    def _all_tables(self) -> Iterator[Table]:
        catalog = self._services.catalog
        for database in catalog.databases:
            yield from catalog.tables(database)

    def _schemata(self) -> Iterator[Sequence[Cell]]:
        for database in (*self._services.catalog.databases, "information_schema"):
            yield "def", database, "utf8"

    def _tables(self) -> Iterator[Sequence[Cell]]:
        for table in self._all_tables():
            yield "def", table.database, table.name, "BASE TABLE", "StarRocks", table.comment

    def _columns(self) -> Iterator[Sequence[Cell]]:
        for table in self._all_tables():
            for position, column in enumerate(table.columns, 1):
                yield _column(table, column, position)


def _column(table: Table, column: Column, position: int) -> Sequence[Cell]:
    kind = column.type
    length = kind.length if kind.name in TEXT or kind.name == "VARBINARY" else None
    precision = kind.precision if kind.name == "DECIMAL" else _NUMBERS.get(kind.name)
    scale = kind.scale if kind.name == "DECIMAL" else 0 if kind.name in INTEGER_BITS else None
    key = ("PRI" if table.primary else "DUP") if column.key else ""
    text = kind.name in TEXT
    return (
        "def", table.database, table.name, column.name, position, column.default, "YES" if column.nullable else "NO",
        kind.data_type, length, length, precision, scale, None, "utf8" if text else None,
        "utf8_general_ci" if text else None, kind.column_type, key, "", "", column.comment,
        length if length is not None else precision, scale, None,
    )  # fmt: skip

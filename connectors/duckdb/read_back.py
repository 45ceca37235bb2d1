"""Reads rows of a table back for `cdc verify`: in pieces, so that a pipeline can commit between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import TableId, TableSchema
from cdc.sink import stored_columns
from connectors.duckdb.database import Database, DuckDbSession, quoted
from connectors.duckdb.shared_opening import SharedOpening
from connectors.shared.batches import gather_batches

_PIECE_ROWS = 1_000_000
"""Rows read per opening of the file: about a second, during which a pipeline's commit waits."""
_BLOCK_ROWS, _BLOCK_BYTES = 122_880, 32 << 20
"""The rows and the size from which on a block gets no more."""
_VECTOR_ROWS = 2_048
"""Rows that DuckDB gives at once. They are all in memory, so a block has at most this many of longer rows."""
_PLAIN = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT",
    "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "FLOAT[]",
)  # fmt: skip
_KEYS = "__cdc_keys"
_SETTINGS = "SET TimeZone = 'UTC'; SET arrow_large_buffer_size = true"
"""Arrow's ordinary texts and bytes hold 2 GiB in a column of a block."""
_Columns = dict[str, tuple[str, str]]


class DuckDbRows:
    """A table as `cdc.sink.StoredTable`. INTERVAL is read as microseconds; no pipeline writes this type as text."""

    def __init__(
        self, opening: SharedOpening, table: TableId, schema: TableSchema, session: DuckDbSession, actual: _Columns
    ) -> None:
        """`actual`: the table's columns in the session. Raises SinkError when it lacks a column of the schema."""
        self._opening, self._table, self._schema, self._actual = opening, table, schema, actual
        columns = stored_columns(table, schema, actual)
        # Columns get aliases, as `rowid` must be the row number and a column may have that name.
        aliases = {name: f"__cdc_{place}" for place, name in enumerate(actual)}
        self._aliases = ", ".join(aliases.values())
        self._select = ", ".join(
            f"{_read(aliases[name.casefold()], kind)} AS {quoted(name)}"
            for name, (_, kind) in zip(schema.names, columns, strict=True)
        )
        self.arrow: pa.Schema = self._query(session, "WHERE false").to_arrow_table().schema

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Read by row numbers. They are not stable when a batch commits between two pieces: rows may then be missed."""
        if keys is not None:
            yield from self._looked_up(keys)
            return
        start, end = 0, 1
        while start < end:
            with self._unchanged() as session:
                end = 1 + int(session.rows(f"SELECT coalesce(max(rowid), -1) FROM {self._from(session)}")[0][0])
                where = f"WHERE rowid >= {start} AND rowid < {start + _PIECE_ROWS}"
                yield from _blocks(self._query(session, where))
            start += _PIECE_ROWS

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows to the columns' own types, which may be wider."""
        columns = [_cast(values, field.type) for values, field in zip(rows.columns, self.arrow, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _looked_up(self, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        with self._unchanged() as session:
            session.rows(_SETTINGS)
            session.connection.register(_KEYS, pa.Table.from_batches([keys]))
            same = " AND ".join(f"{_KEYS}.{quoted(name)} = __cdc_rows.{quoted(name)}" for name in keys.schema.names)
            columns = ", ".join(f"__cdc_rows.{quoted(name)}" for name in self._schema.names)
            inner = f"SELECT {self._select} FROM {self._from(session)}"
            sql = f"SELECT {columns} FROM ({inner}) __cdc_rows SEMI JOIN {_KEYS} ON {same}"
            yield from _blocks(session.connection.sql(sql))

    @contextmanager
    def _unchanged(self) -> Iterator[DuckDbSession]:
        """Open a session. Raises SinkError if the columns are others by now: they are read by their places."""
        with self._opening.open() as session:
            if list(_columns(session, self._table).items()) != list(self._actual.items()):
                hint = "run it again when the schema change is through"
                raise SinkError("the table was changed while it was read", where=str(self._table), hint=hint)
            yield session

    def _query(self, session: DuckDbSession, where: str) -> duckdb.DuckDBPyRelation:
        session.rows(_SETTINGS)
        return session.connection.sql(f"SELECT {self._select} FROM {self._from(session)} {where}")

    def _from(self, session: DuckDbSession) -> str:
        return f"{session.names.table(self._table)} AS __cdc_table({self._aliases})"


class FileReader:
    """Reads the tables of the file. Not picklable."""

    def __init__(self, database: Database) -> None:
        self._opening = SharedOpening(database)

    def table(self, table: TableId, schema: TableSchema) -> DuckDbRows | None:
        """Return the table's rows, None when it is not in the file. Raises SinkError."""
        with self._opening.open() as session:
            actual = _columns(session, table)
            return DuckDbRows(self._opening, table, schema, session, actual) if actual else None


def _columns(session: DuckDbSession, table: TableId) -> _Columns:
    """Return name and type of each column by its lower-case name, as DuckDB ignores the case of names.

    Empty when there is no such table. Fast in a file with many tables, unlike `duckdb_columns()`.
    """
    try:
        found = session.rows("SELECT name, type FROM pragma_table_info(?)", (session.names.table(table),))
    except duckdb.CatalogException:
        return {}
    return {name.casefold(): (name, kind) for name, kind in found}


def _blocks(rows: duckdb.DuckDBPyRelation) -> Iterator[pa.RecordBatch]:
    return gather_batches(rows.to_arrow_reader(_VECTOR_ROWS), _BLOCK_BYTES, _BLOCK_ROWS)


def _read(name: str, kind: str) -> str:
    """SQL of the column in a form that Arrow can hold."""
    if kind == "INTERVAL":
        return f"epoch_us({quoted(name)})"
    plain = kind in _PLAIN or kind.startswith("DECIMAL(")
    return quoted(name) if plain else f"CAST({quoted(name)} AS VARCHAR)"


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if pa.types.is_duration(values.type):
        values = values.view(pa.int64())
    return pc.cast(values, kind)

"""Change blocks: columnar rows of one table at one schema version. The unit that sources make and sinks write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

import numpy as np
import pyarrow as pa

from cdc.schema import DataType, Kind, TableId, TableSchema


class RowKind(IntEnum):
    """The meaning of a row image; the numbers are Flink's. `-U` and `+U` come in pairs, the before image first."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def symbol(self) -> str:
        """`+I`, `-U`, `+U` or `-D`."""
        return ("+I", "-U", "+U", "-D")[self]


_PLAIN: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.TINYINT_UNSIGNED: pa.uint8(),
    Kind.SMALLINT_UNSIGNED: pa.uint16(),
    Kind.INT_UNSIGNED: pa.uint32(),
    Kind.BIGINT_UNSIGNED: pa.uint64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.CHAR: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.STRING: pa.string(),
    Kind.JSON: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.VARBINARY: pa.binary(),
    Kind.BYTES: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.duration("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMP_LTZ: pa.timestamp("us", tz="UTC"),
    Kind.GEOMETRY: pa.binary(),
    Kind.VECTOR: pa.list_(pa.field("item", pa.float32(), nullable=False)),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a column's values in a block.

    DECIMAL up to 38 digits is decimal128; beyond that Arrow's decimal128 ends and the value travels as plain text
    (`-12.340`, never an exponent).
    """
    if data_type.kind is Kind.DECIMAL:
        precision = data_type.length or 10
        return pa.decimal128(precision, data_type.scale or 0) if precision <= 38 else pa.string()
    return _PLAIN[data_type.kind]


def arrow_schema(schema: TableSchema) -> pa.Schema:
    """The Arrow schema of `ChangeBlock.rows`; every field is nullable, as a before image may lack NOT NULL values."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in schema.columns])


class Stream(StrEnum):
    """The purpose of a source table's rows. `cdc.tables.router` says which tables of the sink get which."""

    LOG = "log"
    """Every change of the log."""
    SNAPSHOT_ROWS = "snapshot-rows"
    """Rows that a snapshot of the table has read."""
    SNAPSHOT_LOG = "snapshot-log"
    """Changes of the log that the rows of the snapshot do not hold: with them they are the table."""


LOGGED = frozenset({Stream.LOG, Stream.SNAPSHOT_LOG})
"""The streams of a change while no snapshot of its table runs."""


def position_texts(sequence: np.ndarray, position_text: Callable[[int], str]) -> pa.Array:
    """The place in the log of each row, string[n], by its sequence, int64[n]; asked for once for each event."""
    sequences, which = np.unique(sequence, return_inverse=True)
    return pa.array([position_text(each) for each in sequences.tolist()], pa.string()).take(pa.array(which))


@dataclass(frozen=True, slots=True, eq=False)
class ChangeBlock:
    """Row images of one table at one schema version, in the order of the source's log.

    Attributes:
        table: the table id; the source's until routing, then the sink's.
        schema: the table's schema at this point; `rows` has its columns in its order.
        rows: record batch of n row images, Arrow types as in `arrow_type`.
        kinds: uint8[n], `RowKind` numbers.
        sequence: int64[n]; orders events inside one source. What it stands for only the source knows.
        row: int32[n]; orders row images inside one event.
        timestamps_ms: int64[n]; when the source committed the change, milliseconds since the epoch.
        position_text: a sequence's place in the log, in the source's words, for messages (`cdc.source.Positions`); the
            engine sets it. Empty for a row that is from no log.
        streams: what the rows are part of. While a snapshot of the table runs, a change that its rows hold is of LOG
            alone; a change of which they hold one image comes in two blocks.
        metadata: what the source knows of each row besides, by names of its `metadata.list`: given a name and the
            sequences of rows, the column (`cdc.transform.check.SOURCE_METADATA` has the types). None: all are NULL.
        whole: each image is a whole row, and an update has both. Otherwise an old image may have its key alone, and a
            `+U` come without one.

    (sequence, row) is strictly increasing inside one block and from block to block of a table.
    """

    table: TableId
    schema: TableSchema
    rows: pa.RecordBatch
    kinds: pa.Array
    sequence: pa.Array
    row: pa.Array
    timestamps_ms: pa.Array
    position_text: Callable[[int], str] = str
    streams: frozenset[Stream] = LOGGED
    metadata: Callable[[str, pa.Array], pa.Array] | None = None
    whole: bool = True

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def filter(self, mask: np.ndarray) -> ChangeBlock:
        """The images that the mask, bool[n], has."""
        chosen = pa.array(mask)
        names = ("rows", "kinds", "sequence", "row", "timestamps_ms")
        return replace(self, **{name: getattr(self, name).filter(chosen) for name in names})

    @property
    def snapshot(self) -> bool:
        """Whether these are rows as a snapshot of the table has read them, not changes of its log."""
        return Stream.SNAPSHOT_ROWS in self.streams

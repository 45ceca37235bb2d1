"""Change blocks: columnar row images of one table at one schema version. Sources produce them, sinks write them."""

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

    DECIMAL up to 38 digits is decimal128, a longer one is plain text (`-12.340`, never an exponent).
    """
    if data_type.kind is Kind.DECIMAL:
        precision = data_type.length or 10
        return pa.decimal128(precision, data_type.scale or 0) if precision <= 38 else pa.string()
    return _PLAIN[data_type.kind]


def arrow_schema(schema: TableSchema) -> pa.Schema:
    """The Arrow schema of `ChangeBlock.rows`; every field is nullable, as a before image may lack NOT NULL values."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in schema.columns])


class Stream(StrEnum):
    """The purpose of a source table's rows. `cdc.tables.router` selects the sink tables that get them."""

    LOG = "log"
    """Every change of the log."""
    SNAPSHOT_ROWS = "snapshot-rows"
    """Rows read by a snapshot of the table."""
    SNAPSHOT_LOG = "snapshot-log"
    """Changes of the log that the snapshot's rows do not include: applied to those rows, they give the table."""


LOGGED = frozenset({Stream.LOG, Stream.SNAPSHOT_LOG})
"""The streams of a change when no snapshot of its table is running."""


def position_texts(sequence: np.ndarray, position_text: Callable[[int], str]) -> pa.Array:
    """Return each row's log position, string[n], for its sequence, int64[n]; calls `position_text` once per event."""
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
        sequence: int64[n]; orders events inside one source. Its meaning belongs to the source.
        row: int32[n]; orders row images inside one event.
        timestamps_ms: int64[n]; when the source committed the change, milliseconds since the epoch.
        position_text: converts a sequence to a log position for messages (`Source.position_text`); the engine sets it.
            Empty for a row that comes from no log.
        streams: what the rows are part of. While a snapshot of the table runs, a change that its rows include is in
            LOG only; a change of which they include one image is sent in two blocks.
        metadata: returns a metadata column of the source's `metadata.list`, given its name and the sequences of rows
            (`cdc.transform.check.SOURCE_METADATA` has the types). None: all are NULL.
        whole: each image is a complete row, and each update has both. Otherwise an old image may have the key only,
            and a `+U` may come without an old image.

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
        """Return the row images selected by the mask, bool[n]."""
        chosen = pa.array(mask)
        names = ("rows", "kinds", "sequence", "row", "timestamps_ms")
        return replace(self, **{name: getattr(self, name).filter(chosen) for name in names})

    @property
    def snapshot(self) -> bool:
        """Whether these are rows read by a snapshot of the table, not changes from the log."""
        return Stream.SNAPSHOT_ROWS in self.streams

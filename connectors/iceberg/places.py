"""Places of keys: in which data file of a snapshot, and at which position, the row of a key is. Driver.

Data files whose bounds exclude all keys are passed over; of the others only the key columns are read. A row counts when
no position delete of the snapshot has it.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from connectors.iceberg.parquet import PATH_ID, read_columns, read_deletes
from connectors.iceberg.snapshots import live_entries
from connectors.iceberg.tables import LakeTable
from connectors.shared.lake.keys import quoted
from connectors.shared.lake.queries import connection


@dataclass(frozen=True)
class Files:
    """The files of one snapshot: data files by path, delete files by the data file that they are about.

    `loose`: delete files whose bounds do not name one data file, written by somebody else.
    """

    data: Mapping[str, Any]
    deletes: Mapping[str, Sequence[Any]]
    loose: Sequence[Any]
    _read: list[pa.Table] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, table: LakeTable) -> Files:
        """The files of the table's head. Raises SinkError for equality deletes, which only other readers apply."""
        data: dict[str, Any] = {}
        deletes: dict[str, list[Any]] = defaultdict(list)
        loose: list[Any] = []
        for entry in live_entries(table):
            file = entry.data_file
            if int(file.content) == 0:
                data[file.file_path] = file
            elif int(file.content) == 2:
                hint = "compact the table with the engine that wrote them"
                raise SinkError("the table has equality deletes", where=str(table.id), hint=hint)
            else:
                about = (file.lower_bounds or {}).get(PATH_ID), (file.upper_bounds or {}).get(PATH_ID)
                if about[0] is not None and about[0] == about[1]:
                    deletes[about[0].decode()].append(file)
                else:
                    loose.append(file)
        return cls(data, deletes, loose)

    @property
    def rows(self) -> int:
        """Rows in the data files, deleted ones too."""
        return sum(int(file.record_count) for file in self.data.values())

    def deleted(self, io: Any, path: str) -> np.ndarray:
        """Positions of a data file that are deleted, int64[n], in no order."""
        found = [read_deletes(io, file.file_path) for file in self.deletes.get(path, ())]
        if self.loose:
            rows = self._loose_rows(io)
            found.append(rows.filter(pc.equal(rows["file_path"], path)))
        if not found:
            return np.zeros(0, np.int64)
        positions: np.ndarray = pa.concat_tables(found)["pos"].to_numpy()
        return positions

    def _loose_rows(self, io: Any) -> pa.Table:
        """The rows of `loose`, read once."""
        if not self._read:
            self._read.append(pa.concat_tables(read_deletes(io, file.file_path) for file in self.loose))
        return self._read[0]


def find(table: LakeTable, files: Files, keys: pa.Table) -> dict[str, np.ndarray]:
    """Live positions of rows with these keys, by data file.

    Args:
        keys: distinct, columns as the table's key has them, in its order.
    """
    found: dict[str, np.ndarray] = {}
    fields = [table.library.schema().find_field(name) for name in keys.column_names]
    with connection() as duck:
        duck.register("keys", keys)
        for path, file in files.data.items():
            if not _may_have(file, fields, keys):
                continue
            positions = _matching(duck, key_columns(table.library.io, file, fields), keys.column_names)
            if len(positions):
                positions = without(positions, files.deleted(table.library.io, path))
            if len(positions):
                found[path] = positions
    return found


def without(positions: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Positions of a file, int64[n], that are not among others of it; by a mask, which costs a tenth of sets."""
    if not len(gone):
        return positions
    stays = np.ones(int(max(positions.max(), gone.max())) + 1, bool)
    stays[gone] = False
    left: np.ndarray = positions[stays[positions]]
    return left


def key_columns(io: Any, file: Any, fields: Sequence[Any]) -> pa.Table:
    """The key columns of a data file with the rows' places `pos`. Raises SinkError for a file that lacks one."""
    rows = read_columns(io, file.file_path, fields)
    if any(column.null_count for column in rows.columns):
        raise SinkError("the file has rows without a key", where=file.file_path)
    return rows.append_column("pos", pa.array(np.arange(rows.num_rows, dtype=np.int64)))


def _matching(duck: duckdb.DuckDBPyConnection, rows: pa.Table, names: Sequence[str]) -> np.ndarray:
    if rows.num_rows == 0:
        return np.zeros(0, np.int64)
    duck.register("rows", rows)
    using = ", ".join(map(quoted, names))
    found = duck.sql(f"SELECT pos FROM rows SEMI JOIN keys USING ({using})").to_arrow_table()
    duck.unregister("rows")
    return np.sort(found["pos"].to_numpy())


def _may_have(file: Any, fields: Sequence[Any], keys: pa.Table) -> bool:
    """Whether a key may be in the file, by the file's bounds of each key column."""
    return all(_overlap(file, field, keys[field.name]) for field in fields)


def _overlap(file: Any, field: Any, values: pa.ChunkedArray) -> bool:
    from pyiceberg.conversions import from_bytes

    lower, upper = ((bounds or {}).get(field.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    if lower is None or upper is None:
        return True
    ends = pc.min_max(values)
    low, high = _internal(ends["min"]), _internal(ends["max"])
    try:
        return bool(from_bytes(field.field_type, upper) >= low and from_bytes(field.field_type, lower) <= high)
    except struct.error:  # a bound of the type that the column had before its promotion: the file is read
        return True


def _internal(value: pa.Scalar) -> Any:
    """A value as the library compares bounds: days and microseconds as numbers."""
    if pa.types.is_timestamp(value.type) or pa.types.is_date32(value.type):
        return value.cast(pa.int64() if pa.types.is_timestamp(value.type) else pa.int32()).as_py()
    return value.as_py()

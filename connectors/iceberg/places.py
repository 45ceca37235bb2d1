"""Places of keys: in which data file of a snapshot, and at which position, the row of a key is. Driver.

Data files whose bounds exclude all keys are passed over; of the others only the key columns are read. A row counts when
no position delete of the snapshot has it.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from connectors.iceberg.manifest_cache import PATH_ID, CachedFile, live_files
from connectors.iceberg.parquet import read_columns, read_deletes
from connectors.iceberg.tables import LakeTable
from connectors.shared.lake.keys import key_names
from connectors.shared.lake.queries import connection


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of one snapshot: data files by path, delete files by the data file that they are about.

    `loose`: delete files whose bounds do not name one data file, written by somebody else.
    """

    data: Mapping[str, CachedFile]
    deletes: Mapping[str, Sequence[CachedFile]]
    loose: Sequence[CachedFile]
    _read: list[pa.Table] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, table: LakeTable) -> SnapshotFiles:
        """The files of the table's head. Raises SinkError for equality deletes, which only other readers apply."""
        data: dict[str, CachedFile] = {}
        deletes: dict[str, list[CachedFile]] = defaultdict(list)
        loose: list[CachedFile] = []
        for file in live_files(table):
            if file.content == 0:
                data[file.file_path] = file
            elif file.content == 2:
                hint = "compact the table with the engine that wrote them"
                raise SinkError("the table has equality deletes", where=str(table.id), hint=hint)
            else:
                about = file.lower_bounds.get(PATH_ID)
                if about is not None and about == file.upper_bounds.get(PATH_ID):
                    deletes[about.decode()].append(file)
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


def find(table: LakeTable, files: SnapshotFiles, keys: pa.Table) -> dict[str, np.ndarray]:
    """Live positions of rows with these keys, by data file.

    Args:
        keys: distinct, columns in the order of the table's key, whatever their names.
    """
    found: dict[str, np.ndarray] = {}
    keys = keys.rename_columns(key_names(keys.num_columns))
    io, schema = table.library.io, table.library.schema()
    fields = [schema.find_field(name) for name in table.key]
    ends = [_ends(keys[name]) for name in keys.column_names]
    chosen = [file for file in files.data.values() if all(map(_overlap, repeat(file), fields, ends))]
    with _Matching(keys) as matching:
        for file in chosen:
            positions = matching.positions(key_columns(io, file, fields))
            if len(positions):
                positions = without(positions, files.deleted(io, file.file_path))
            if len(positions):
                found[file.file_path] = positions
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
    """The key columns of a data file and the rows' places `pos`. Raises SinkError for a file that lacks one."""
    rows = read_columns(io, file.file_path, fields).rename_columns(key_names(len(fields)))
    if any(column.null_count for column in rows.columns):
        raise SinkError("the file has rows without a key", where=file.file_path)
    return rows.append_column("pos", pa.array(np.arange(rows.num_rows, dtype=np.int64)))


class _Matching:
    """Looks for keys among rows: those of one column in a hash table of Arrow's, others by a join of DuckDB's."""

    def __init__(self, keys: pa.Table) -> None:
        self._keys, self._names = keys, keys.column_names
        self._duck: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> _Matching:
        return self

    def __exit__(self, *_: object) -> None:
        if self._duck is not None:
            self._duck.close()

    def positions(self, rows: pa.Table) -> np.ndarray:
        """The `pos` of the rows with one of the keys, int64[n], ascending."""
        if rows.num_rows == 0:
            return np.zeros(0, np.int64)
        if len(self._names) == 1:
            there = pc.is_in(rows[self._names[0]], value_set=self._keys[self._names[0]])
            found: np.ndarray = rows["pos"].filter(there).to_numpy()
            return found
        if self._duck is None:
            self._duck = connection()
            self._duck.register("keys", self._keys)
        self._duck.register("rows", rows)
        using = ", ".join(self._names)
        joined = self._duck.sql(f"SELECT pos FROM rows SEMI JOIN keys USING ({using})").to_arrow_table()
        self._duck.unregister("rows")
        return np.sort(joined["pos"].to_numpy())


def _ends(values: pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and the greatest value, as the library has bounds."""
    ends = pc.min_max(values)
    return _internal(ends["min"]), _internal(ends["max"])


def _overlap(file: CachedFile, field: Any, ends: tuple[Any, Any]) -> bool:
    """Whether a value between these ends may be in the file, by the file's bounds of a key column."""
    from pyiceberg.conversions import from_bytes

    lower, upper = file.lower_bounds.get(field.field_id), file.upper_bounds.get(field.field_id)
    if lower is None or upper is None:
        return True
    try:
        kind = field.field_type
        return bool(from_bytes(kind, upper) >= ends[0] and from_bytes(kind, lower) <= ends[1])
    except struct.error:  # a bound of the type that the column had before its promotion: the file is read
        return True


def _internal(value: pa.Scalar) -> Any:
    """A value as the library compares bounds: days and microseconds as numbers."""
    if pa.types.is_timestamp(value.type) or pa.types.is_date32(value.type):
        return value.cast(pa.int64() if pa.types.is_timestamp(value.type) else pa.int32()).as_py()
    return value.as_py()

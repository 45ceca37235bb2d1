"""An index of keys in the pipeline's state, for tables much larger than their batches: key -> (file, position).

It is valid for one head of one table. This pipeline's own commits and merges of files update it; for any other head, or
a recreated table, it is built again with one scan of the key columns. It is only a cache: without it the data files are
searched.

    <sink's folder>/keys/<table's UUID>.sqlite   places(key, file, pos), files(id, path), head(uuid, snapshot)

A key of one whole number is stored as it is; any other as the MD5 of the lengths and texts of its parts.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.iceberg.row_positions import SnapshotFiles, key_columns
from connectors.iceberg.tables import LakeTable
from connectors.shared.lake.queries import connection

log = logging.getLogger(__name__)

FROM_ROWS = 500_000
"""The least rows of a table with an index; searching a smaller one is faster than keeping an index."""
MOST_SHARE = 50
"""The index is used for batches with fewer keys than the table's rows divided by this."""


class KeyIndex:
    """The index of one table at one head. Driver, one thread."""

    def __init__(self, folder: Path, table: LakeTable) -> None:
        self._table, self._path = table, folder / f"{table.identity}.sqlite"

    def is_for(self, files: SnapshotFiles, keys: pa.Table) -> bool:
        """Whether the table is so much larger than the batch that the index pays off."""
        return bool(files.rows >= max(FROM_ROWS, MOST_SHARE * keys.num_rows))

    def find(self, files: SnapshotFiles, keys: pa.Table) -> dict[str, np.ndarray]:
        """The live positions of rows with these keys, by data file. Builds the index if it is for another head."""
        with self._open() as connection:
            if self._head(connection) != (self._table.head or 0):
                self._build(connection, files)
            connection.execute("CREATE TEMP TABLE asked (key PRIMARY KEY)")
            connection.executemany("INSERT OR IGNORE INTO asked VALUES (?)", ((key,) for key in _stored(keys)))
            rows = connection.execute(
                "SELECT path, pos FROM asked JOIN places USING (key) JOIN files ON files.id = places.file"
            ).fetchall()
        found: dict[str, list[int]] = {}
        for path, position in rows:
            found.setdefault(path, []).append(position)
        return {path: np.sort(np.array(positions, np.int64)) for path, positions in found.items()}

    def note(self, head: int, keys: pa.Table, positions: pa.Table, *, used: bool) -> None:
        """Update the index for our own commit, which made `head`; an index for any other head is removed.

        Args:
            keys: all keys that the batch changes.
            positions: the keys that have a row now: key columns, `cdc_file` (path) and `pos`.
            used: whether the positions of this commit came from the index.
        """
        if not self._path.exists():
            return
        with self._open() as connection:
            if not used or self._head(connection) != (self._table.head or 0):
                connection.execute("DROP TABLE IF EXISTS head")
                return
            stored = _stored(keys)
            connection.executemany("DELETE FROM places WHERE key = ?", ((key,) for key in stored))
            paths = positions["cdc_file"].to_pylist()
            numbers = {path: self._number(connection, path) for path in dict.fromkeys(paths)}
            keys_of = _stored(positions.select(keys.column_names))
            rows = zip(keys_of, (numbers[path] for path in paths), positions["pos"].to_pylist(), strict=True)
            connection.executemany("INSERT INTO places VALUES (?, ?, ?)", rows)
            self._keep_head(connection, head)

    def note_rewritten(self, head: int, files: Sequence[Any]) -> None:
        """Update the index for our own commit, which rewrote live rows into these data files."""
        if not self._path.exists():
            return
        with self._open() as connection:
            if self._head(connection) == (self._table.head or 0):
                for file in files:
                    self._add(connection, file, np.zeros(0, np.int64))
                self._keep_head(connection, head)

    def remove(self) -> None:
        """Drop the index, because it is damaged or there is no space for it."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                yield connection
        finally:
            connection.close()

    def _head(self, connection: sqlite3.Connection) -> int:
        """The head that the index is valid for: -1 for none, 0 for a table without snapshots."""
        exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'head'").fetchone()
        if exists is None:
            return -1
        row = connection.execute("SELECT uuid, snapshot FROM head").fetchone()
        return int(row[1]) if row is not None and row[0] == self._table.identity else -1

    def _keep_head(self, connection: sqlite3.Connection, head: int) -> None:
        connection.execute("DELETE FROM head")
        connection.execute("INSERT INTO head VALUES (?, ?)", (self._table.identity, head))

    def _number(self, connection: sqlite3.Connection, path: str) -> int:
        connection.execute("INSERT OR IGNORE INTO files(path) VALUES (?)", (path,))
        return int(connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()[0])

    def _build(self, connection: sqlite3.Connection, files: SnapshotFiles) -> None:
        for name in ("places", "files", "head"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        complete = _is_whole(self._table)
        kind, tail = ("INTEGER", "") if complete else ("BLOB", " WITHOUT ROWID")
        connection.execute(f"CREATE TABLE places (key {kind} PRIMARY KEY, file INTEGER, pos INTEGER){tail}")
        connection.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE)")
        connection.execute("CREATE TABLE head (uuid TEXT, snapshot INTEGER)")
        for path, file in files.data.items():
            self._add(connection, file, files.deleted(self._table.library.io, path))
        self._keep_head(connection, self._table.head or 0)

    def _add(self, connection: sqlite3.Connection, file: Any, deleted: np.ndarray) -> None:
        """Add the keys of a data file, except those at the `deleted` positions."""
        number, table = self._number(connection, file.file_path), self._table
        fields = [table.library.schema().find_field(name) for name in table.key]
        rows = key_columns(table.library.io, file, fields)
        if len(deleted):
            rows = rows.filter(pa.array(~np.isin(rows["pos"].to_numpy(), deleted)))
        pairs = zip(_stored(rows.drop_columns(["pos"])), rows["pos"].to_pylist(), strict=True)
        ordered = sorted(pairs)  # inserting in key order is faster
        numbered = ((key, number, pos) for key, pos in ordered)
        connection.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", numbered)


@contextmanager
def only_an_index(index: KeyIndex) -> Iterator[None]:
    """Drop an index that fails within the block instead of failing the batch: the files have the same information."""
    try:
        yield
    except sqlite3.Error as error:
        log.warning("the index of keys is dropped: %s", error)
        index.remove()


def _is_whole(table: LakeTable) -> bool:
    kinds = {column.name: column.type for column in table.columns}
    return len(table.key) == 1 and kinds[table.key[0]] in ("int", "long")


def _stored(keys: pa.Table) -> list[Any]:
    """The keys as the index stores them: a whole number, or 16 bytes."""
    if keys.num_columns == 1 and pa.types.is_integer(keys.column(0).type):
        return list(keys.column(0).to_pylist())
    parts = []
    for name, kind in zip(keys.column_names, keys.schema.types, strict=True):
        text = f"hex({name})" if pa.types.is_binary(kind) else f"CAST({name} AS VARCHAR)"
        parts.append(f"strlen({text}) || ':' || {text}")
    with connection() as duck:
        duck.register("keys", keys)
        found = duck.sql(f"SELECT unhex(md5({' || '.join(parts)})) AS key FROM keys").to_arrow_table()
    return list(found["key"].to_pylist())

"""Commit decided batches: one snapshot per table, which also stores the batch number as a table property.

    commit: load the table -> property >= batch: done -> find the places of all changed keys in this head
            -> write position deletes -> commit on this head -> the head has moved: again from the start

A lost answer needs no special care: the next attempt looks whether the property is there. Runs in the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.errors import CommitFailed
from cdc.process.faults import crash_point
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.sink import Prepared
from connectors.iceberg.handles import Flush, unpack_flushes
from connectors.iceberg.index import KeyIndex, only_an_index
from connectors.iceberg.library import Catalog, CommitConflict, delete_quietly
from connectors.iceberg.parquet import read_keys, write_deletes
from connectors.iceberg.row_positions import SnapshotFiles, find
from connectors.iceberg.snapshots import SnapshotChange, publish
from connectors.iceberg.tables import BATCH, LakeTable, batch_summary, find_table, get_table
from connectors.shared.lake.keys import key_names
from connectors.shared.lake.queries import connection
from connectors.shared.lake.two_phase import another_past, by_table, check_identity, check_newest

log = logging.getLogger(__name__)

_TRIES = 20
"""The number of attempts of a commit, each of which another writer may get ahead of."""


@dataclass(frozen=True)
class LakeCommits:
    """Commits batches. Picklable.

    Args:
        pipeline: the pipeline whose batches they are.
        threads: how many tables are committed at the same time.
        folder: the folder of the key indexes.
        newest: the last batch that this process has committed to each table since the last schema change.
    """

    catalog: Catalog
    pipeline: str
    threads: int
    retry: RetryPolicy
    folder: Path
    newest: dict[TableId, int] = field(default_factory=dict)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit the handles of every table; may be repeated. Raises CommitFailed, SinkError, SinkUnavailable."""
        by_table(prepared, self.threads, lambda *work: self._table(batch, *work))

    def _table(self, batch: int, table: TableId, handles: Sequence[Prepared]) -> None:
        self.retry.call(lambda: self._commit_table(batch, table, handles), f"the commit of batch {batch} to {table}")
        crash_point("mid-commit", batch)

    def _commit_table(self, batch: int, name: TableId, handles: Sequence[Prepared]) -> None:
        reason = ""
        for number in range(_TRIES):
            table = find_table(self.catalog, name)
            check_identity(name, None if table is None else table.identity, handles)
            assert table is not None
            flushes = [flush for handle in handles for flush in unpack_flushes(table.library, handle.payload)]
            found = table.batch(self.pipeline)
            if found > batch:
                raise another_past(name, found, batch)
            check_newest(name, table.batch_of_head(self.pipeline), max(found, self.newest.get(name, -1)))
            if found == batch:
                log.info("%s: batch %d is in already", name, batch)
            else:
                try:
                    self._commit_once(batch, table, flushes, number)
                except CommitConflict as error:
                    reason = error.message
                    continue
            self.newest[name] = batch
            with self.catalog.guard(str(name)):
                for flush in flushes:
                    if flush.keys_path:
                        delete_quietly(table.library.io, flush.keys_path)
            return
        hint = "what else writes to the table? let it write less often"
        raise CommitFailed(f"other commits came first {_TRIES} times: {reason}", where=str(name), hint=hint)

    def _commit_once(self, batch: int, table: LakeTable, flushes: Sequence[Flush], number: int) -> None:
        deletes: list[Any] = []
        data = [file for flush in flushes for file in flush.files]
        index, used = KeyIndex(self.folder, table), False
        with self.catalog.guard(str(table.id)):
            changed = changed_keys(table, flushes) if table.key else None
            if changed is not None:
                files = SnapshotFiles.of(table)
                used = index.is_for(files, changed.keys)
                deleted = _with_index(index, files, changed.keys) if used else None
                deleted = find(table, files, changed.keys) if deleted is None else deleted
                known = {**files.data, **{file.file_path: file for file in data}}
                base = f"{table.file_prefix(self.pipeline)}-b{batch}-h{table.head or 0}-n{number}"
                for count, (path, positions) in enumerate(_union_positions(deleted, changed.superseded).items()):
                    target = table.library.location_provider().new_data_location(f"{base}-d{count}.parquet")
                    deletes.append(write_deletes(table.library, target, known[path], positions))
        operation = "append" if not deletes else "overwrite"
        fence = {BATCH + self.pipeline: str(batch)}
        summary = batch_summary(self.pipeline, batch)
        try:
            change = SnapshotChange(operation, data, deletes, properties=fence, summary=summary)
            head = publish(self.catalog, table, change)
        except CommitConflict:
            if get_table(self.catalog, table.id).batch(self.pipeline) < batch:  # else it was this very commit
                for file in deletes:
                    delete_quietly(table.library.io, file.file_path)
            raise
        if changed is not None:
            with only_an_index(index):
                index.note(head, changed.keys, changed.positions, used=used)


def _with_index(index: KeyIndex, files: SnapshotFiles, keys: pa.Table) -> dict[str, np.ndarray] | None:
    """Find the places with the index; None when it cannot be used."""
    with only_an_index(index):
        return index.find(files, keys)
    return None


@dataclass(frozen=True)
class ChangedKeys:
    """The keys that a batch changes in one table.

    Attributes:
        keys: the distinct keys, in columns named by `key_names`.
        positions: the newest rows of the keys that are not deleted: key columns, `file` (path) and `pos`.
        superseded: positions of the batch's own rows that a later flush replaces, by path.
    """

    keys: pa.Table
    positions: pa.Table
    superseded: dict[str, np.ndarray]


def changed_keys(table: LakeTable, flushes: Sequence[Flush]) -> ChangedKeys:
    """Read the keys of the flushes in log order; the last flush that has a key counts."""
    parts: list[pa.Table] = []
    for number, flush in enumerate(flushes):
        keys = read_keys(table.library.io, flush.keys, flush.keys_path)
        paths = pa.array([file.file_path for file in flush.files] or [""], pa.string())
        numbers = keys["file"].combine_chunks()
        named = paths.take(pa.array(np.maximum(numbers.to_numpy(), 0)))
        unset = pa.array(numbers.to_numpy() < 0)
        parts.append(
            keys.drop_columns(["file"])
            .append_column("cdc_file", pa.compute.if_else(unset, pa.scalar(None, pa.string()), named))
            .append_column("cdc_flush", pa.repeat(pa.scalar(number, pa.int32()), keys.num_rows))
        )
    rows = pa.concat_tables(parts)
    names = key_names(len(table.key))
    if len(flushes) == 1:  # a flush has each key only once
        return ChangedKeys(rows.select(names), _rows_with_position(rows), {})
    signs = [f"signbit({name})" for name in names if pa.types.is_floating(rows.schema.field(name).type)]
    by = ", ".join([*names, *signs])  # DuckDB takes -0 for 0, though they are different keys
    with connection() as duck:
        duck.register("rows", rows)
        ranked = duck.sql(
            f"SELECT *, row_number() OVER (PARTITION BY {by} ORDER BY cdc_flush DESC) AS cdc_rank FROM rows"
        ).to_arrow_table()
    last = ranked.filter(pa.compute.equal(ranked["cdc_rank"], 1))
    old = ranked.filter(
        pa.compute.and_(pa.compute.greater(ranked["cdc_rank"], 1), pa.compute.is_valid(ranked["cdc_file"]))
    )
    superseded: dict[str, np.ndarray] = {}
    for path in pa.compute.unique(old["cdc_file"]).to_pylist():
        some = old.filter(pa.compute.equal(old["cdc_file"], path))
        superseded[path] = np.sort(some["pos"].to_numpy())
    return ChangedKeys(last.select(names), _rows_with_position(last), superseded)


def _rows_with_position(rows: pa.Table) -> pa.Table:
    return rows.filter(pa.compute.is_valid(rows["cdc_file"]))


def _union_positions(*places: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for each in places:
        for path, positions in each.items():
            found[path] = np.union1d(found[path], positions) if path in found else positions
    return found

"""Loads staged rows into tables, inside the transaction of a batch. Driver.

**Tables with a key.** Only a key's last image in the batch counts. Keys that may exist already are deleted, then the
remaining images are inserted: two statements per table. Measured against MERGE, UPDATE FROM and INSERT OR REPLACE, this
costs the same for a table that changes as a whole and 10 to 50 times less for few changes in a large table, where the
other three rewrite every row group they touch.

**Insert-only batches** are inserted as they are, and streamed from the file one row group at a time when they are
large. If a key exists already, as when a snapshot is written over existing rows, the whole transaction is rolled back
and loaded again `careful`ly. DuckDB cannot index some keys (TIME, VECTOR): such tables are always loaded that way.

**Tables without a key** stay equal to the source as a multiset: images are summed up by whole row, NULL equal to NULL,
and exactly that many rows are deleted and inserted. A delete that matches no row does nothing, as a log read from the
middle legitimately deletes rows the sink never had; the number of those is returned.

**Many small tables** with the same columns (shards) share one temporary table, which halves the time for each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from cdc.block import RowKind
from cdc.errors import CommitFailed, SinkError
from cdc.process.faults import crash_point
from cdc.schema import TableId
from connectors.duckdb.database import DuckDbSession, first_line, quoted
from connectors.duckdb.fence import Fence
from connectors.shared.staging.stage import KIND, Staged

log = logging.getLogger(__name__)
_SHARED_ROWS = 10_000
_STAGED, _SHARED = "__cdc_staged", "__cdc_shared"
_TABLE, _POSITION, _KEEP, _GONE = "__cdc_table", "__cdc_position", "__cdc_keep", "__cdc_gone"
ROW_GROUP = 122_880
PIECE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The rows of one table in memory."""

    table: TableId
    key: tuple[str, ...]
    rows: pa.Table


def load_batch(
    session: DuckDbSession, fence: Fence, batch: int, staged: Sequence[Staged], where: str
) -> dict[TableId, int]:
    """Load every table and write the fence, in one transaction; returns as `load`. `where`: the file.

    Raises CommitFailed; then nothing of the batch is committed.
    """
    try:
        try:
            return _load_once(session, fence, batch, staged, careful=False)
        except duckdb.ConstraintException:
            log.info("batch %d inserts rows that already exist: loading it key by key", batch)
            return _load_once(session, fence, batch, staged, careful=True)
    except (duckdb.IOException, duckdb.TransactionException) as error:
        hint = "free some space, or end what else writes to the file"
        raise CommitFailed(first_line(error), where=where, hint=hint) from error


def _load_once(
    session: DuckDbSession, fence: Fence, batch: int, staged: Sequence[Staged], *, careful: bool
) -> dict[TableId, int]:
    with session.transaction():
        missed = load(session, staged, careful=careful)
        fence.write(batch)
        crash_point("mid-commit", batch)
    return missed


def load(session: DuckDbSession, staged: Sequence[Staged], *, careful: bool) -> dict[TableId, int]:
    """Load every table. Returns the number of deletes without a matching row, for tables without a key.

    Raises duckdb.ConstraintException when not `careful` and a row to insert exists already: roll back, load again.
    """
    missed: dict[TableId, int] = {}
    others: list[Staged] = []
    unchecked = _without_index(session)
    for item in staged:
        if item.others or item.inserts <= _SHARED_ROWS or (item.key and (careful or _name(item.table) in unchecked)):
            others.append(item)
        else:
            _stream(session, item)
    for group in _groups(others):
        if group[0].key:
            _load_keyed(session, group, careful or any(_name(item.table) in unchecked for item in group))
        elif _only_inserts(group):
            _append(session, group)
        else:
            missed.update(_load_keyless(session, group))
    return missed


def _without_index(session: DuckDbSession) -> set[tuple[str, ...]]:
    """Return the tables where no index refuses a key that exists already: such inserts are never taken as new."""
    found = session.rows(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND NOT has_primary_key"
    )
    return {(schema.casefold(), table.casefold()) for schema, table in found}


def _name(table: TableId) -> tuple[str, ...]:
    return (table.database or "main").casefold(), table.table.casefold()


def _groups(staged: Iterable[Staged]) -> Iterator[list[_Loaded]]:
    """Group small tables with equal columns; every other table is alone."""
    shared: dict[tuple[Any, ...], list[_Loaded]] = {}
    for item in staged:
        loaded = _Loaded(item.table, item.key, pa.Table.from_batches(in_row_groups(item.read())))
        if loaded.rows.num_rows > _SHARED_ROWS:
            yield [loaded]
        else:
            shape = (tuple(zip(loaded.rows.schema.names, loaded.rows.schema.types, strict=True)), item.key)
            shared.setdefault(shape, []).append(loaded)
    for group in shared.values():
        yield from _bounded(group)


def _bounded(group: Sequence[_Loaded]) -> Iterator[list[_Loaded]]:
    """Split a group so that one load stays within about a million rows."""
    part: list[_Loaded] = []
    rows = 0
    for item in group:
        if part and rows + item.rows.num_rows > 100 * _SHARED_ROWS:
            yield part
            part, rows = [], 0
        part.append(item)
        rows += item.rows.num_rows
    yield part


def _only_inserts(group: Sequence[_Loaded]) -> bool:
    return all(not np.any(_kinds(item.rows)) for item in group)


def _kinds(rows: pa.Table) -> Any:
    return rows.column(KIND).to_numpy()


class _Registered:
    """The rows of a group, readable by SQL: the Arrow table itself, or a temporary table when shared."""

    def __init__(self, session: DuckDbSession, group: Sequence[_Loaded], extra: Mapping[str, Any]) -> None:
        self._session, self._group = session, group
        self.columns = [name for name in group[0].rows.schema.names if name != KIND]
        self.reals = [field.name for field in group[0].rows.schema if pa.types.is_floating(field.type)]
        self.vectors = [field.name for field in group[0].rows.schema if pa.types.is_list(field.type)]
        self.shared = len(group) > 1
        rows = group[0].rows
        if self.shared:
            parts = (batch for item in group for batch in item.rows.to_batches())
            rows = pa.Table.from_batches(in_row_groups(parts))
            numbers = np.repeat(np.arange(len(group), dtype=np.int32), [item.rows.num_rows for item in group])
            rows = rows.append_column(_TABLE, pa.array(numbers))
        for name, values in extra.items():
            rows = rows.append_column(name, pa.array(values))
        session.connection.register(_STAGED, rows)
        self.source = _STAGED

    def materialize(self) -> None:
        """Copy a shared group to a temporary table, which is twice as fast to scan once per table."""
        if self.shared:
            self._session.rows(f"CREATE OR REPLACE TEMP TABLE {_SHARED} AS SELECT * FROM {_STAGED}")
            self.source = _SHARED

    def parts(self) -> Iterator[tuple[_Loaded, str]]:
        """Yield each table of the group with the condition that selects its rows from `source`."""
        for number, item in enumerate(self._group):
            yield item, f"{_TABLE} = {number}" if self.shared else "true"

    def __enter__(self) -> _Registered:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:  # after an error the transaction refuses this, and the rollback removes the view
            self._session.connection.unregister(_STAGED)


def _stream(session: DuckDbSession, item: Staged) -> None:
    """Insert rows while reading them."""
    pieces = Pieces(in_row_groups(item.read()))
    session.connection.register(_STAGED, pa.RecordBatchReader.from_batches(pieces.schema, pieces))
    names = ", ".join(quoted(name) for name in pieces.schema.names if name != KIND)
    try:
        session.rows(f"INSERT INTO {session.names.table(item.table)} ({names}) SELECT {names} FROM {_STAGED}")
    except duckdb.Error as error:
        if pieces.error is not None:
            raise pieces.error from error
        raise
    session.connection.unregister(_STAGED)


def _append(session: DuckDbSession, group: Sequence[_Loaded]) -> None:
    with _Registered(session, group, {}) as staged:
        staged.materialize()
        for item, where in staged.parts():
            _insert(session, item.table, staged, where)


def _insert(session: DuckDbSession, table: TableId, staged: _Registered, where: str) -> None:
    names = ", ".join(quoted(name) for name in staged.columns)
    session.rows(
        f"INSERT INTO {session.names.table(table)} ({names}) SELECT {names} FROM {staged.source} WHERE {where}"
    )


def _load_keyed(session: DuckDbSession, group: Sequence[_Loaded], careful: bool) -> None:
    if not careful and _only_inserts(group):
        _append(session, group)
        return
    keep, gone = _last_images(session, group, careful)
    with _Registered(session, group, {_KEEP: keep, _GONE: gone}) as staged:
        staged.materialize()
        for item, where in staged.parts():
            if gone.any():
                _delete_keys(session, item, staged.source, where)
            if keep.any():
                _insert(session, item.table, staged, f"{where} AND {_KEEP}")


def _last_images(session: DuckDbSession, group: Sequence[_Loaded], careful: bool) -> tuple[Any, Any]:
    """Return two masks over the rows of the group: rows to insert, and rows whose key must be deleted first.

    A key that occurs once, as an insert, is new; any other may exist already.
    """
    kinds = np.concatenate([_kinds(item.rows) for item in group])
    keep, gone = np.zeros(len(kinds), np.bool_), np.zeros(len(kinds), np.bool_)
    with _Registered(session, group, {_POSITION: np.arange(len(kinds))}) as staged:
        parts = [_TABLE] if staged.shared else []
        key = ", ".join([*parts, *(quoted(name) for name in group[0].key)])
        last = session.numpy(
            f"SELECT max({_POSITION}) AS position, count(*) AS images FROM {staged.source} GROUP BY {key}"
        )
    position = last["position"]
    kind = kinds[position]
    keep[position] = (kind == RowKind.INSERT) | (kind == RowKind.UPDATE_AFTER)
    gone[position] = careful | (kind != RowKind.INSERT) | (last["images"] > 1)
    return keep, gone


def _delete_keys(session: DuckDbSession, item: _Loaded, source: str, where: str) -> None:
    key = [quoted(name) for name in item.key]
    equal = " AND ".join(f"t.{name} = s.{name}" for name in key)
    session.rows(
        f"DELETE FROM {session.names.table(item.table)} AS t "
        f"USING (SELECT {', '.join(key)} FROM {source} WHERE {where} AND {_GONE}) AS s WHERE {equal}"
    )


def _load_keyless(session: DuckDbSession, group: Sequence[_Loaded]) -> Iterator[tuple[TableId, int]]:
    positions = np.arange(sum(item.rows.num_rows for item in group))
    with _Registered(session, group, {_POSITION: positions}) as staged:
        staged.materialize()
        for item, where in staged.parts():
            yield item.table, _load_multiset(session, item.table, staged, where)


def _load_multiset(session: DuckDbSession, table: TableId, staged: _Registered, where: str) -> int:
    """Delete and insert by whole row. Returns the number of deletes without a matching row.

    `total` is the net number of copies a row gains in the batch, `lowest` (0 or less) the minimum of its running sum:
    deleting up to `-lowest` rows and inserting `total - lowest` equals applying the changes one by one. DuckDB treats
    -0.0 and 0.0 as equal, so their signs are compared, too.
    """
    names = [quoted(name) for name in staged.columns]
    columns, target = ", ".join(names), session.names.table(table)
    reals, vectors = ([quoted(name) for name in found] for found in (staged.reals, staged.vectors))
    signs = [*(f"signbit({name})" for name in reals), *(f"[signbit(x) FOR x IN {name}]" for name in vectors)]
    whole = ", ".join([*names, *signs])
    session.rows(
        f"CREATE OR REPLACE TEMP TABLE __cdc_sums AS WITH running AS (SELECT {columns}, "
        f"CASE WHEN {KIND} IN ({RowKind.INSERT:d}, {RowKind.UPDATE_AFTER:d}) THEN 1 ELSE -1 END AS __cdc_sign, "
        f"sum(__cdc_sign) OVER (PARTITION BY {whole} ORDER BY {_POSITION}) AS __cdc_running FROM {staged.source} "
        f"WHERE {where}) "
        f"SELECT {columns}, row_number() OVER () AS __cdc_number, CAST(sum(__cdc_sign) AS BIGINT) AS __cdc_total, "
        f"CAST(least(0, min(__cdc_running)) AS BIGINT) AS __cdc_lowest FROM running GROUP BY {whole}"
    )
    same = [f"t.{name} IS NOT DISTINCT FROM s.{name}" for name in names]
    same += [f"signbit(TRY_CAST(t.{name} AS DOUBLE)) IS NOT DISTINCT FROM signbit(s.{name})" for name in reals]
    same += [
        f"[signbit(x) FOR x IN TRY_CAST(t.{name} AS FLOAT[])] IS NOT DISTINCT FROM [signbit(x) FOR x IN s.{name}]"
        for name in vectors
    ]
    equal = " AND ".join(same)
    deleted = _delete_rows(session, target, f"s.__cdc_lowest < 0 AND {equal}")
    session.rows(
        f"INSERT INTO {target} ({columns}) SELECT {columns} FROM __cdc_sums, "
        f"LATERAL (SELECT unnest(range(__cdc_total - __cdc_lowest)))"
    )
    wanted = session.rows("SELECT coalesce(CAST(-sum(__cdc_lowest) AS BIGINT), 0) FROM __cdc_sums")[0][0]
    return int(wanted) - deleted


def _delete_rows(session: DuckDbSession, target: str, equal: str) -> int:
    """Delete the rows equal to one of `__cdc_sums`, as many as it says. Returns their number."""
    joined = f"{target} AS t JOIN __cdc_sums AS s ON {equal}"
    among = "row_number() OVER (PARTITION BY s.__cdc_number) AS __cdc_among, s.__cdc_lowest AS __cdc_lowest"
    names = session.connection.sql(f"FROM {target} LIMIT 0").columns
    if not any(name.casefold() == "rowid" for name in names):
        return int(
            session.rows(
                f"DELETE FROM {target} WHERE rowid IN (SELECT id FROM (SELECT t.rowid AS id, {among} FROM {joined}) "
                f"WHERE __cdc_among <= -__cdc_lowest)"
            )[0][0]
        )
    # A column of this name hides the row number, so equal rows cannot be told apart: delete all, reinsert the rest.
    columns = ", ".join(quoted(name) for name in names)
    own = ", ".join(f"t.{quoted(name)}" for name in names)
    stay = f"SELECT {columns} FROM (SELECT {own}, {among} FROM {joined}) WHERE __cdc_among > -__cdc_lowest"
    session.rows(f"CREATE OR REPLACE TEMP TABLE __cdc_stay AS {stay}")
    gone = session.rows(f"DELETE FROM {target} AS t USING __cdc_sums AS s WHERE {equal}")[0][0]
    back = session.rows(f"INSERT INTO {target} ({columns}) FROM __cdc_stay")[0][0]
    session.rows("DROP TABLE __cdc_stay")
    return int(gone) - int(back)


def in_row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Regroup rows into pieces of DuckDB's row group size, which it loads with several threads, compressing on the way.

    Pieces of wide rows are smaller: about 32 MB.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        while rows + batch.num_rows >= ROW_GROUP:
            waiting.append(batch.slice(0, ROW_GROUP - rows))
            batch = batch.slice(ROW_GROUP - rows)
            rows = size = 0
            yield _drain(waiting)
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size >= PIECE_BYTES:
            rows = size = 0
            yield _drain(waiting)
    if rows:
        yield _drain(waiting)


def _drain(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate all pieces and release them."""
    piece = pa.concat_batches(waiting)
    waiting.clear()
    return piece


class Pieces:
    """Batches for a scan by DuckDB; a batch is not referenced any more once it is handed on.

    Keeps the error that ends them, as DuckDB would only pass on its text.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Take the first batch, which must exist, for its schema."""
        self._batches = batches
        self._first: pa.RecordBatch | None = next(batches)
        self.schema: pa.Schema = self._first.schema
        self.error: SinkError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        pa.default_memory_pool().release_unused()  # the pool would keep 35 MB of freed memory
        try:
            return next(self._batches)
        except SinkError as error:
            self.error = error
            raise

"""The sinks of lakes alone, beside DuckDB's and a plain Parquet writer: CPU seconds of `prepare` and `commit`.

`make bench ARGS='--only lakes'`, or without a MySQL server:

PYTHONPATH=tests:tests/devservers .venv/bin/python tests/bench/lakes.py [rows of the copy] [commits] [rows of the index]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdc.block import ChangeBlock, RowKind
from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import Sink, TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink
from connectors.iceberg.options import IcebergSinkOptions
from connectors.iceberg.sink import IcebergSink
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.sink import PaimonSink

Figures = dict[str, Any]

TABLE = TableId("bench", "orders")
SCHEMA = TableSchema(
    (
        Column("id", DataType(Kind.BIGINT), nullable=False),
        *(Column(f"number_{number}", DataType(Kind.BIGINT)) for number in range(4)),
        Column("amount", DataType(Kind.DECIMAL, 12, 2)),
        Column("is_paid", DataType(Kind.BOOLEAN)),
        Column("created", DataType(Kind.TIMESTAMP, 6)),
        Column("country", DataType(Kind.CHAR, 2)),
        Column("note", DataType(Kind.VARCHAR, 80)),
    ),
    ("id",),
)
BLOCK = 50_000
KINDS = ("duckdb", "paimon", "iceberg")


def changes(kind: RowKind, ids: np.ndarray, seed: int = 0) -> ChangeBlock:
    """A block of rows with these keys, all of one kind."""
    count, chance = len(ids), np.random.default_rng(seed)
    zeros = pa.array(np.zeros(count, np.int64))
    columns = [
        pa.array(ids),
        *(pa.array(chance.integers(0, 10**6, count)) for _ in range(4)),
        pa.array(chance.integers(0, 10**6, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2), safe=False),
        pa.array(chance.random(count) < 0.5),
        pa.array(1_700_000_000_000_000 + chance.integers(0, 10**12, count)).cast(pa.timestamp("us")),
        pa.array(np.array(["de", "fr", "us", "jp"])[chance.integers(0, 4, count)]),
        pa.array(np.char.add("a note with the number ", chance.integers(0, 10**5, count).astype(str))),
    ]
    return ChangeBlock(
        table=TABLE,
        schema=SCHEMA,
        rows=pa.RecordBatch.from_arrays(columns, names=list(SCHEMA.names)),
        kinds=pa.array(np.full(count, kind, np.int8)),
        sequence=pa.array(np.arange(count)),
        row=zeros,
        timestamps_ms=zeros,
    )


def blocks_of(kind: RowKind, ids: np.ndarray, seed: int = 0) -> list[ChangeBlock]:
    """The changes in blocks as a source gives them."""
    return [changes(kind, ids[at : at + BLOCK], seed) for at in range(0, len(ids), BLOCK)]


class Measured:
    """A sink in a folder of its own; `spent` has the CPU and wall seconds of a batch."""

    def __init__(self, kind: str, folder: Path, properties: dict[str, str] | None = None) -> None:
        folder.mkdir()
        self.sink = _sink(kind, folder, properties or {})
        self.sink.warm()
        self.sink.apply(0, [CreateTable(TABLE, SCHEMA)])
        self._batch = 0
        self.spent([changes(RowKind.INSERT, np.arange(-1, 0))])  # loads and compiles what the first batch needs

    def spent(self, blocks: Iterable[ChangeBlock]) -> tuple[float, float]:
        cpu, wall, attempt = time.process_time(), time.perf_counter(), TaskAttempt(self._batch, 0, 0, noting=_forget)
        self.sink.commit(self._batch, self.sink.prepare(attempt, iter(blocks)))
        self._batch += 1
        return time.process_time() - cpu, time.perf_counter() - wall


def _forget(_: Any) -> None:
    pass


def _sink(kind: str, folder: Path, properties: dict[str, str]) -> Sink:
    context, warehouse = Context("bench", LocalStore(folder / "state")), str(folder / "lake")
    if kind == "duckdb":
        path = str(folder / "sink.duckdb")
        return DuckDbSink(DuckDbSinkOptions.model_validate({"type": kind, "path": path}), context)
    given: dict[str, str] = {"type": kind, "catalog.properties.warehouse": warehouse, **properties}
    if kind == "iceberg":
        return IcebergSink(IcebergSinkOptions.model_validate({"catalog.properties.type": "sql", **given}), context)
    given["catalog.properties.metastore"] = "filesystem"
    return PaimonSink(PaimonSinkOptions.model_validate(given), context)


def rows(folder: Path, count: int) -> Figures:
    """A copy of so many rows, an update of each and a delete of each; CPU s per million rows."""
    ids = np.arange(count)
    inserted = blocks_of(RowKind.INSERT, ids)
    updated = blocks_of(RowKind.UPDATE_AFTER, np.random.default_rng(1).permutation(ids), seed=1)
    deleted = blocks_of(RowKind.DELETE, np.random.default_rng(2).permutation(ids), seed=1)
    began = time.process_time()
    pq.write_table(
        pa.Table.from_batches([block.rows for block in inserted]), folder / "plain.parquet", compression="zstd"
    )
    found: Figures = {"parquet": {"copy": _per_million(time.process_time() - began, count)}}
    for kind in KINDS:
        measured = Measured(kind, folder / f"rows-{kind}")
        found[kind] = {
            name: _per_million(measured.spent(blocks)[0], count)
            for name, blocks in (("copy", inserted), ("update", updated), ("delete", deleted))
        }
    return found


def _per_million(seconds: float, count: int) -> float:
    return round(seconds / count * 1e6, 2)


def tables(folder: Path, count: int) -> Figures:
    """Two batches with ten rows for each of so many tables that are there: CPU and wall seconds of each."""
    found: Figures = {}
    block = changes(RowKind.INSERT, np.arange(10))
    named = [TableId("bench", f"t{number}") for number in range(count)]
    for kind in KINDS:
        measured = Measured(kind, folder / f"tables-{kind}")
        measured.sink.apply(0, [CreateTable(table, SCHEMA) for table in named])
        found[kind] = {}
        for batch in ("first", "second"):
            cpu, wall = measured.spent([replace(block, table=table) for table in named])
            found[kind] |= {f"{batch}_cpu_s": round(cpu, 2), f"{batch}_wall_s": round(wall, 2)}
    return found


def commits(folder: Path, count: int) -> Figures:
    """Batches of one row with upkeep: CPU milliseconds of one in the first and in the last hundred, upkeep included."""
    found: Figures = {}
    keys = np.random.default_rng(3).integers(0, 1000, count)
    for kind in KINDS[1:]:
        measured = Measured(kind, folder / f"commits-{kind}")
        spent = [measured.spent([changes(RowKind.INSERT, keys[at : at + 1], at)])[0] for at in range(count)]
        means = {name: round(1000 * float(np.mean(some)), 1) for name, some in _hundreds(spent).items()}
        found[kind] = {**means, "files": sum(1 for _ in (folder / f"commits-{kind}" / "lake").rglob("*.*"))}
    return found


def _hundreds(spent: list[float]) -> dict[str, list[float]]:
    return {"first_ms": spent[:100], "middle_ms": spent[len(spent) // 2 :][:100], "last_ms": spent[-100:]}


def index(folder: Path, sizes: Iterable[int]) -> Figures:
    """CPU seconds of 1,000 random upserts in Iceberg tables of these sizes, and of the first, which makes the index."""
    found: Figures = {}
    for size in sizes:
        measured = Measured("iceberg", folder / f"index-{size}", {"sink.compaction": "off"})
        for at in range(0, size, 500_000):
            measured.spent(blocks_of(RowKind.INSERT, np.arange(at, min(size, at + 500_000))))
        chance = np.random.default_rng(1)
        some = [np.unique(chance.integers(0, size, 1000)) for _ in range(8)]
        spent = [measured.spent([changes(RowKind.INSERT, ids)])[0] for ids in some]
        found[f"{size:,} rows"] = {"first_s": round(spent[0], 2), "later_s": round(float(np.median(spent[1:])), 3)}
    return found


def lakes(folder: Path, say: Callable[[str], None], count: int, number: int, largest: int) -> Figures:
    """All measurements: `count` rows, a thousandth as many tables, `number` commits, an index of up to `largest`."""
    found: Figures = {}
    for name, measure in (
        ("rows", lambda: rows(folder, count)),
        ("tables", lambda: tables(folder, count // 1000)),
        ("commits", lambda: commits(folder, number)),
        ("index", lambda: index(folder, (largest // 10, largest))),
    ):  # fmt: skip
        say(f"lakes: {name}")
        found[name] = measure()
    return found


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="cdc-lakes-") as place:
        sizes = [*given, *(1_000_000, 5_000, 10_000_000)[len(given) :]]
        print(json.dumps(lakes(Path(place), lambda text: print(text, flush=True), *sizes), indent=1))

"""Random lives of tables (`test_random_lives`) with a lake as the sink: crashes, edited files, compaction between.

The process dies at the steps of a batch, and before and after each call that changes a table or a file of the lake;
answers of such calls are lost. In the end a foreign reader has to find what the sink's own reader finds, before and
after compaction: DuckDB's extension for Iceberg, Paimon's Java library for Paimon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import iceberg_judge
import iceberg_rest
import paimon_judge
from iceberg_harness import IcebergHarness
from lake_calls import called
from paimon_harness import PaimonHarness, rest_options
from paimon_rest import rest_catalog
from test_random_lives import Life, Point

from cdc.flow import derive
from cdc.process import faults
from cdc.schema import SchemaChange, TableId
from cdc.sink import Prepared
from connectors.iceberg.sink import IcebergSink
from connectors.paimon.sink import PaimonSink

_IN_TASKS = frozenset({"write_rows", "write_bytes", "write_files"})
"""Calls of tasks are not lost: for how long those are tried again hangs on the clock."""

_OPTIONS = {"sink.compaction.files": "3", "retry-timeout": "30s"}
Row = dict[str, Any]


class LakePoint(Enum):
    """Where a process dies besides the steps of a batch."""

    BETWEEN_TABLES = "mid-commit"
    BEFORE_CALL = "before-call"
    AFTER_CALL = "after-call"
    LATER_CALL = "later-call"


class _Calls:
    """Calls of the lake's library: each is a point where the process dies, and now and then an answer is lost."""

    def __init__(self, chance: Random, lost: float) -> None:
        self.chance, self.lost, self.batch = chance, lost, 0

    def __call__(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        faults.crash_point(LakePoint.BEFORE_CALL.value, self.batch)
        if self.chance.random() < 0.3:
            faults.crash_point(LakePoint.LATER_CALL.value, self.batch)
        in_task = real.__name__ in _IN_TASKS
        if not in_task and self.chance.random() < self.lost:
            raise ConnectionError("the call was lost")
        found = real(*arguments, **named)
        faults.crash_point(LakePoint.AFTER_CALL.value, self.batch)
        if not in_task and self.chance.random() < self.lost:
            raise ConnectionError("the answer was lost")
        return found


class _Noted:
    """Notes the batch for the points of calls."""

    calls: _Calls

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        self.calls.batch = batch
        super().apply(batch, changes)  # type: ignore[misc]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        self.calls.batch = batch
        super().commit(batch, prepared)  # type: ignore[misc]


class IcebergLife(_Noted, IcebergSink):
    """The sink with a look at its tables."""

    harness: IcebergHarness
    judge: iceberg_judge.Judge | None = None

    def rows(self, table: TableId) -> list[Row]:
        return self.harness.rows(table) or []

    @property
    def tables(self) -> set[TableId]:
        catalog = self.harness.catalog.open()
        return {
            TableId(".".join(name), table[-1])
            for name in catalog.list_namespaces()
            for table in catalog.list_tables(name)
        }

    def judged(self, table: TableId) -> list[Row]:
        """The rows as the foreign reader has them."""
        assert self.judge is not None
        return self.judge.rows(self.harness.table(table).library.metadata_location)

    def compact_elsewhere(self, table: TableId) -> None:
        """The foreign reader does not compact."""


class PaimonLife(_Noted, PaimonSink):
    """The sink with a look at its tables."""

    harness: PaimonHarness
    judge: paimon_judge.Judge | None = None

    def rows(self, table: TableId) -> list[Row]:
        return self.harness.rows(table) or []

    @property
    def tables(self) -> set[TableId]:
        catalog = self.harness.catalog.open()
        return {TableId(name, table) for name in catalog.list_databases() for table in catalog.list_tables(name)}

    def judged(self, table: TableId) -> list[Row]:
        """The rows as the foreign reader has them."""
        assert self.judge is not None
        return self.judge.rows(table.database, table.table)

    def compact_elsewhere(self, table: TableId) -> None:
        """A full compaction by the foreign library."""
        assert self.judge is not None
        self.judge.compact(table.database, table.table)


def live(lake: str, seed: int, folder: Path, *, lost: float = 0.02, judged: bool = True) -> None:
    """One life; this share of calls is lost. A foreign reader is needed where it is `judged`.

    Raises AssertionError with the seed when the lake does not end with the rows of the source.
    """
    calls = _Calls(Random(seed), lost)
    with _sink(lake, folder, calls) as sink:
        sink.calls = calls
        life = Life(seed, folder / "state", sink)
        life.points = (*Point, *LakePoint)
        with patch.object(derive.log, "warning", life.notice), _troubled(lake, calls):
            life.run()
        calls.lost = 0.0
        with _judge(sink, folder) if judged else nullcontext():
            for table in sorted(sink.tables) if judged else ():
                _compare(sink, table, f"seed {seed}: {table}")


@contextmanager
def _sink(lake: str, folder: Path, calls: _Calls) -> Iterator[IcebergLife | PaimonLife]:
    if lake == "iceberg":
        yield _iceberg(folder, {})
    elif lake == "paimon":
        yield _paimon(folder, {})
    elif lake == "iceberg-rest":
        with iceberg_rest.rest_catalog(folder) as (catalog, address):
            catalog.fail_next = LostAnswers(calls)
            options = {"type": "rest", "uri": address, "warehouse": "lake"}
            yield _iceberg(folder, {f"catalog.properties.{name}": text for name, text in options.items()})
    else:
        with rest_catalog(folder / "lake") as (_, address):
            yield _paimon(folder, rest_options(address))


class LostAnswers(list[int]):
    """Statuses of the REST catalog's answers to commits that are done: now and then another than 200."""

    def __init__(self, calls: _Calls) -> None:
        super().__init__()
        self._calls = calls

    def __bool__(self) -> bool:
        return self._calls.chance.random() < self._calls.lost

    def pop(self, *_: Any) -> int:
        return self._calls.chance.choice((409, 500, 502, 503, 504))


def _compare(sink: IcebergLife | PaimonLife, table: TableId, where: str) -> None:
    wanted = _texts(sink.rows(table))
    assert _texts(sink.judged(table)) == wanted, where
    sink.compact(table)
    assert _texts(sink.rows(table)) == wanted, f"{where}, compacted"
    assert _texts(sink.judged(table)) == wanted, f"{where}, compacted, judged"
    sink.compact_elsewhere(table)
    assert _texts(sink.rows(table)) == wanted, f"{where}, compacted elsewhere"


def _texts(rows: Sequence[Row]) -> list[list[tuple[str, str]]]:
    return sorted(sorted((name, str(value)) for name, value in row.items()) for row in rows)


def _iceberg(folder: Path, catalog: dict[str, str]) -> IcebergLife:
    kept = {"sink.snapshots.keep": "2", "sink.snapshots.keep-for": "0s"}
    harness = IcebergHarness(folder, {**_OPTIONS, **kept, **catalog})
    sink = IcebergLife(harness.options, harness.context)
    sink.harness = harness
    return sink


def _paimon(folder: Path, catalog: dict[str, str]) -> PaimonLife:
    kept = {"num-retained.min": "1", "num-retained.max": "2", "time-retained": "1 ms"}
    kept = {f"table.properties.snapshot.{name}": text for name, text in kept.items()}
    harness = PaimonHarness(folder, {**_OPTIONS, **kept, **catalog})
    sink = PaimonLife(harness.options, harness.context)
    sink.harness = harness
    return sink


@contextmanager
def _judge(sink: IcebergLife | PaimonLife, folder: Path) -> Iterator[None]:
    if isinstance(sink, IcebergLife):
        with iceberg_judge.Judge() as iceberg:
            sink.judge = iceberg
            yield
    else:
        with paimon_judge.Judge({"warehouse": str(folder / "lake")}) as paimon:
            sink.judge = paimon
            yield


@contextmanager
def _troubled(lake: str, calls: _Calls) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name in called(lake):
            real = getattr(owner, name)

            def call(*arguments: Any, _real: Callable[..., Any] = real, **named: Any) -> Any:
                return calls(_real, *arguments, **named)

            stack.enter_context(patch.object(owner, name, call))
        yield

"""Tables of a live server under all that an operator does while they are snapshotted, written to and altered.

A seed is one pipeline from a real server into DuckDB, in this process and without Spark: batches with crashes at random
points, and between them requests to pause, resume and re-snapshot tables, restarts with edited routes, rules and
excluded tables, and tables that are renamed, exchanged, truncated and recreated. At the end everything that was paused
is resumed, what was excluded is taken in again, and each table is compared where its route leads now.

Everything happens in one thread in an order that the seed gives, so a seed repeats what it found.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import yaml
from cdc_process import Pipeline, mysql_pipeline
from comparison import sink_rows, source_columns, source_rows, unequal
from snapshot_workload import TABLES, SnapshotWorkload

from cdc.errors import CdcError, NotNow, SourceError, StateError, TableUnknown
from cdc.job.pausing import request_pause, request_resume
from cdc.job.resync import request_resync
from cdc.offsets import numbered
from cdc.options import SinkOptions, SourceOptions
from cdc.schema import TableId
from cdc.source import Context, Limits, Source
from cdc.spec.check import check_file
from cdc.spec.compiled import compile_spec
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.states import Tables, TableState
from cdc.testing import FailAt
from cdc.testing.local_pipeline import LocalPipeline
from cdc_services.server import MySqlServer

STEPS = 40
RULED = "unique_only"
"""The table with a rule: none of its columns that the rule names is altered, which would stop the run."""
_LIMITS = Limits(1 << 20, 200)
_ELSEWHERE = "moved"
_UNSETTLED = frozenset(TableState) - {TableState.LIVE, TableState.ABSENT, TableState.DETACHED}


class Operated(SnapshotWorkload):
    """The workload, step by step: statements that belong together have others between them."""

    def __init__(self, server: MySqlServer, seed: int) -> None:
        super().__init__(server, seed, ddl=True)
        self._waiting: list[str] = []
        self._changed = ""

    def step(self) -> None:
        """Some transactions, and the next statement of a change of definitions."""
        for _ in range(self.random.randrange(6)):
            table = self.random.choice(tuple(TABLES))
            if table != self._changed:
                self._write(table)
        self._connection.commit()
        if self._waiting:
            self._do(self._waiting.pop(0))
        else:
            self._changed = ""
            if self.random.random() < 0.4:
                self._begin_change()

    def end(self) -> None:
        """What was begun is carried out."""
        for statement in self._waiting:
            self._do(statement)
        self._waiting, self._changed = [], ""
        self._connection.commit()

    def _begin_change(self) -> None:
        table = self._changed = self.random.choice(tuple(TABLES))
        columns = f"{TABLES[table]} CHARACTER SET utf8mb4"
        self._serial += 1
        of_values = [
            [f"ALTER TABLE `{table}` CHANGE v w INT", f"ALTER TABLE `{table}` CHANGE w v INT"],
            [f"ALTER TABLE `{table}` MODIFY v BIGINT", f"ALTER TABLE `{table}` MODIFY v INT"],
            [f"ALTER TABLE `{table}` MODIFY v VARCHAR(20)", f"ALTER TABLE `{table}` MODIFY v INT"],
        ]
        self._waiting = self.random.choice((
            [f"ALTER TABLE `{table}` ADD COLUMN x INT DEFAULT {self._serial}", f"ALTER TABLE `{table}` DROP COLUMN x"],
            [f"TRUNCATE TABLE `{table}`"],
            [f"DROP TABLE `{table}`", f"CREATE TABLE `{table}` {columns}"],
            [f"RENAME TABLE `{table}` TO away", f"RENAME TABLE away TO `{table}`"],
            [f"CREATE TABLE other {columns}", f"INSERT INTO other SELECT * FROM `{table}` LIMIT 5",
             f"RENAME TABLE `{table}` TO third, other TO `{table}`, third TO other", "DROP TABLE other"],
            *(of_values if table != RULED else ()),
        ))  # fmt: skip


class OperatedLife:
    """One seed.

    Attributes:
        done: what the operator did, for people.
    """

    def __init__(self, server: MySqlServer, seed: int, folder: Path) -> None:
        self.work = Operated(server, seed)
        self.random, self.server = self.work.random, server
        self.work.fill()
        self.database = self.work.database
        size = self.random.choice((20, 60, 150))
        self.pipeline: Pipeline = mysql_pipeline(
            folder, server, rf"{self.database}.\.*", scan__incremental__snapshot__chunk__size=size
        )
        self.away = self.random.random() < 0.5
        self.moved: set[str] = set()
        self.excluded: set[str] = set()
        self.factor = 0
        self.done: list[str] = []
        self.state = StateDir(self.pipeline.state)
        self.spec = self._spec()
        self.source = self._source()
        self.at, self.batch = self.source.initial_offset(), 0
        self.local = LocalPipeline(
            self.source,
            self._sink(),
            self.state,
            numbered(self.at, 0),
            self._sink,
            compile_spec(self.spec),
            name="mysql",
        )

    def run(self) -> list[str]:
        """What differs at the end. Raises CdcError for a run that stops."""
        for _ in range(STEPS):
            self.work.step()
            self._operate()
            self._batch([point for point in FailAt if self.random.random() < 0.03])
        self.work.end()
        self._settle()
        return list(self._differences())

    def _operate(self) -> None:
        pick, table = self.random.random(), self.random.choice(tuple(TABLES))
        if pick < 0.08:
            self._ask(request_pause, table)
        elif pick < 0.18:
            self._ask(request_resume, table)
        elif pick < 0.26:
            self._ask(request_resync, table)
        elif pick < 0.34:
            self._edit(table)
        elif pick < 0.4:
            self._restart()

    def _ask(self, request: object, table: str) -> None:
        name = f"{self.database}.{table}"
        try:
            request(self.spec, name, self.pipeline.state)  # type: ignore[operator]
        except (NotNow, StateError, TableUnknown, SourceError) as error:
            self.done.append(f"{self.batch}: {getattr(request, '__name__', '')} {table}: {error.message}")
        else:
            self.done.append(f"{self.batch}: {getattr(request, '__name__', '')} {table}")

    def _edit(self, table: str) -> None:
        kind = self.random.choice(("route", "exclude", "rule"))
        if kind == "route":
            self.moved ^= {table}
        elif kind == "exclude":
            self._catch_up()  # with changes of definitions that are not read yet the run would stop
            self.excluded = set() if self.excluded else {table}
        else:
            self.factor = self.random.randrange(1, 4)
        self.done.append(f"{self.batch}: edited {kind} {table}: {self.moved} {self.excluded} {self.factor}")
        self._restart()

    def _restart(self) -> None:
        self.local.wait()
        self.source.stop()
        self.spec = self._spec()
        self.source = self._source()
        self.local.middle = compile_spec(self.spec)
        self.local.restart(self.source)

    def _batch(self, failures: Sequence[FailAt] = (), *, step: bool = True) -> bool:
        """One batch, if there is one; with a `step` of the workload between its plan and its tasks."""
        end = self.local.latest(self.at, self.batch, _LIMITS, 0.2)
        if end == self.at and not self.local.has_requests:
            return False
        if step:
            self.work.step()
        self.done.append(
            f"{self.batch}: batch {[each.value for each in failures]} after {len(self.work.log)} statements"
        )
        self.local.batch(numbered(self.at, self.batch), numbered(end, self.batch + 1), 2, failures)
        self.source.commit(end)
        self.at, self.batch = end, self.batch + 1
        return True

    def _catch_up(self) -> None:
        """A bounded run, as the hint says to whoever takes a table in that was altered meanwhile."""
        self.work.end()
        self._restart()
        self.source.stop_at_current()
        while self._batch(step=False):
            pass

    def _settle(self) -> None:
        if self.excluded:
            self._catch_up()
            self.excluded = set()
            self._restart()
        for _ in range(400):
            for table in self._tables.in_state(TableState.PAUSED):
                if table.table in TABLES:
                    self._ask(request_resume, table.table)
            if not self._batch() and self._at_end() and not self._unsettled():
                return
            self.work.end()
        raise AssertionError(f"{dict(self._tables.pairs)} wait for ever")

    def _at_end(self) -> bool:
        """Whether a bounded run from here on has nothing to do."""
        self._restart()
        self.source.stop_at_current()
        found = all(self.local.latest(self.at, self.batch, _LIMITS, 0.0) == self.at for _ in range(2))
        self._restart()  # a source does not plan a batch twice
        return found

    def _unsettled(self) -> list[TableId]:
        return [table for table in self._tables.in_state(*_UNSETTLED) if table.table in TABLES]

    @property
    def _tables(self) -> Tables:
        return TableLog(self.state.store).at(1 << 40).tables

    def _differences(self) -> Iterator[str]:
        columns = source_columns(self.server, [self.database])
        for table in TABLES:
            place = f"{_ELSEWHERE}_{self.database}" if table in self.moved else self.database
            name = (self.database, table)
            source = Counter(source_rows(self.server, name, columns[name]))
            sink = Counter(sink_rows(self.pipeline, (place, table), columns[name]))
            yield from unequal(f"{place}.{table}", columns[name], source, sink)

    def _sink(self) -> object:
        assert isinstance(self.spec.sink, SinkOptions)
        return self.spec.sink.build(Context("p", self.state.sink))

    def _source(self) -> Source:
        assert isinstance(self.spec.source, SourceOptions)
        return self.spec.source.build(Context("p", self.state.source, metadata=self.spec.metadata()))

    def _spec(self) -> PipelineSpec:
        excluded = [f"{self.database}.{table}" for table in sorted(self.excluded)]
        excluded += [f"{self.database}.away"] if self.away else []
        self.pipeline.source.pop("tables.exclude", None)
        if excluded:
            self.pipeline.source["tables.exclude"] = ",".join(excluded)
        self.pipeline.write()
        document = yaml.safe_load(self.pipeline.file.read_text(encoding="utf-8"))
        document["route"] = [
            {"source-table": f"{self.database}.{table}", "sink-table": f"{_ELSEWHERE}_{self.database}.{table}"}
            for table in sorted(self.moved)
        ]
        if self.factor:
            projection = f"*, v * {self.factor} AS more"
            document["transform"] = [{"source-table": f"{self.database}.{RULED}", "projection": projection}]
        self.pipeline.file.write_text(yaml.safe_dump(document), encoding="utf-8")
        with patch.dict(os.environ, {"MYSQL_PASSWORD": self.pipeline.password}):
            return check_file(str(self.pipeline.file)).spec


def differing_life(server: MySqlServer, seed: int, folder: Path) -> str:
    """What a seed has found, empty when source and sink are equal; what was done is in `life.txt` of the folder."""
    life = OperatedLife(server, seed, folder)
    try:
        return "\n".join(life.run())
    except (CdcError, AssertionError) as error:
        return f"batch {life.batch}: {type(error).__name__}: {error}"
    finally:
        (folder / "life.txt").write_text("\n".join([*life.done, "", *life.work.log]), encoding="utf-8")
        life.work.stop()
        life.source.stop()

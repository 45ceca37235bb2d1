"""A pipeline goes on where tables had copies once that are no more, or have other names. Without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.flow.batch import BatchRunner
from cdc.flow.middle import Middle
from cdc.offsets import numbered
from cdc.progress import Progress
from cdc.retry import RetryPolicy
from cdc.schema import CreateTable, DropTable, RenameTable, SchemaChange, TableId
from cdc.source import Context
from cdc.state.directory import StateDir
from cdc.testing import ListSink
from connectors.mysql.ddl.delta import Delta
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.parts import NAMES_FILE
from connectors.mysql.schema.history import SchemaEntry, SchemaHistory
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.chunk import DONE, Begin, TableEnd
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan
from connectors.mysql.source import MySqlSource
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema

T, OTHER = TableId("shop", "t"), TableId("shop", "other")
ID, NAME = MySqlColumn("id", "int", nullable=False), MySqlColumn("name", "varchar", 20, charset="utf8mb4")
SMALL = MySqlTable(T, (ID,), ("id",), "utf8mb4")
WIDE = MySqlTable(T, (ID, NAME), ("id",), "utf8mb4")


class Pipeline:
    """Its source's log is what is said to `log`, its plan what is said to `plan`; `ends` are those of its batches."""

    def __init__(self, folder: Path) -> None:
        self.state = StateDir(folder)
        self.state.open(name="p", source="mysql")
        self.history, self._plan = SchemaHistory(self.state.source), ChunkPlan(self.state.source)
        self.sink, self._position = ListSink(), 4
        self.ends = [self._offset()]
        self.state.store_initial_offset(numbered(self.ends[0], 0))
        self.state.source.write_json(NAMES_FILE, {"lower_case_table_names": 0})

    def _offset(self) -> dict[str, Any]:
        self._position += 100
        at = LogPosition("binlog.000001", self._position)
        return MySqlOffset(at, schemas=self.history.count(), chunks=self._plan.count()).to_json()

    def log(self, change: SchemaChange, table: TableId, definition: MySqlTable | None, *gone: TableId) -> None:
        delta = Delta({**dict.fromkeys(gone), table: definition})
        self.history.append(SchemaEntry({"file": "binlog.000001", "pos": self._position}, (change,), delta, "-- sql"))
        self.ends.append(self._offset())

    def plan(self, *entries: Begin | TableEnd) -> None:
        self._plan.append(entries)
        self.ends.append(self._offset())

    def run(self, first: int) -> None:
        """A run from this batch on to the last one that there is."""
        options = {"type": "mysql", "hostname": "nowhere", "username": "u", "password": "p", "tables": r"shop.\.*"}
        source = MySqlSource(MySqlSourceOptions.model_validate(options), Context("p", self.state.source))
        runner = BatchRunner(
            source, self.sink, Middle(), self.state,
            lambda batch: (numbered(self.ends[batch], batch), numbered(self.ends[batch + 1], batch + 1)), Progress(),
            RetryPolicy(timeout_s=0.0),
        )  # fmt: skip
        runner.recover()
        for batch in range(first, len(self.ends) - 1):
            runner(batch, list)
        runner.finish()


@pytest.mark.parametrize("renamed", [False, True])
def test_a_table_that_was_copied_with_other_columns_and_is_gone(tmp_path: Path, renamed: bool) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.log(CreateTable(T, table_schema(SMALL)), T, SMALL)
    pipeline.plan(Begin(T, "resync", reason="because"))
    pipeline.plan(TableEnd(T, DONE))
    if renamed:
        pipeline.log(RenameTable(T, OTHER), OTHER, SMALL, T)
    else:
        pipeline.log(DropTable(T), T, None)
    pipeline.run(0)
    before = len(pipeline.ends) - 1  # what a run after this one begins with
    pipeline.log(CreateTable(T, table_schema(WIDE)), T, WIDE)
    pipeline.run(before)
    assert pipeline.sink.tables == ({T, OTHER} if renamed else {T})

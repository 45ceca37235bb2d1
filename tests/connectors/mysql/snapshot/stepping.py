"""A pipeline taken batch by batch, each step of a batch on a server of the test's choice, for example another one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from servers import source_of

from cdc.block import ChangeBlock
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.shadow_tables import changes_for, tables_for
from cdc.schema import SchemaChange, TableId
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context, Limits, Offset, Split
from cdc.state.store import LocalStore
from cdc.tables.events import SnapshotRequested
from cdc.tables.machine import batch_outcome
from cdc.tables.orders import open_orders
from cdc.tables.states import Tables
from cdc.tables.table_map import Circumstances
from cdc.testing import ListSink
from cdc.testing.blocks import Row
from cdc_services.server import MySqlServer
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

LIMITS = Limits(1 << 26, 120)
WAIT_S = 0.2
TIMEOUT_S = 300.0


class StrictSink(ListSink):
    """Notices a row that comes twice, and the end of one that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []

    def change(self, table: TableId, symbol: str, row: Row) -> None:
        there = [other for other in self.rows(table) if other["id"] == row["id"]]
        if bool(there) == (symbol in ("+I", "+U")):
            self.problems.append(f"{symbol} {row} of {table} where there is {there}")
        super().change(table, symbol, row)


class Steps:
    """One pipeline of all tables of a database. `source` stands for the process that runs now."""

    def __init__(self, server: MySqlServer, database: str, folder: Path, **options: Any) -> None:
        self.database, self.folder, self.sink = database, folder, StrictSink()
        self._options = {"scan.incremental.snapshot.chunk.size": 30, **options}
        self.batch, self.tables = 0, Tables()
        self.changes: list[SchemaChange] = []
        self.reports: list[dict[str, Any]] = []
        self.inserts = 0
        self.source = self.at_server(server)
        self.offset: Offset = self.source.initial_offset()

    def at_server(self, server: MySqlServer) -> MySqlSource:
        """The pipeline as another process that meets this server."""
        fields = source_of(server, rf"{self.database}.\.*", **self._options)
        return MySqlSource(MySqlSourceOptions.model_validate(fields), Context("steps", LocalStore(self.folder)))

    def started_on(self, server: MySqlServer) -> None:
        """The process ends, another begins where it was."""
        self.source.stop()
        self.source = self.at_server(server)

    def plan(self, limits: Limits | None = LIMITS) -> Offset:
        """The end of the next batch; the present offset when nothing comes."""
        self.source.order(open_orders(self.tables))
        return self.source.latest_offset(self.offset, limits, WAIT_S)

    def ask(self, table: TableId) -> None:
        """As `cdc resync`, taken in by an empty batch."""
        self.tables = batch_outcome(self._now(), self.tables, [SnapshotRequested(table)]).after
        self.batch += 1

    def plan_to_the_end(self, server: MySqlServer) -> Offset:
        """A batch up to the present end of the server's log, or after a checkpoint that it has noted since."""
        last = end_of_log(server)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            end = self.plan(None)
            if (end["file"], end["position"]) >= last:
                return end
            assert time.monotonic() < deadline, f"{end} is not at {last}"
            self.started_on(server)  # it has planned a piece, and has to begin again

    def read(self, end: Offset, tasks: MySqlSource | None = None, splits: Sequence[Split] | None = None) -> None:
        """Read a planned batch to the end and into the sink; `tasks` meet another server than the planner.

        `splits` are those that an earlier process has stored for it.
        """
        source = tasks or self.source
        plan = batch_outcome(self._now(), self.tables, source.events(self.offset, end))
        if plan.operations:
            self.sink.apply(self.batch, changes_for(self.sink, plan.operations))
            self.changes += plan.operations
        self.tables = plan.after
        prepared: list[Prepared] = []
        reports: list[dict[str, Any]] = []
        for split in source.splits(self.offset, end, 2) if splits is None else splits:
            blocks = source.read(split, lambda reason, number: None, reports.append)
            prepared += self.sink.prepare(TaskAttempt(self.batch, split.index, attempt=0), self._routed(blocks))
        self.reports = json.loads(json.dumps(reports))
        for _ in range(2):  # as after a crash after the decision
            self.source.store_reports(self.reports)
        handles = [Prepared(**{**asdict(handle), "table": handle.table}) for handle in prepared]
        self.sink.commit(self.batch, handles)
        self.source.commit(end)
        self.inserts += sum(handle.inserts for handle in handles)
        self.offset, self.batch = end, self.batch + 1

    def _now(self) -> Circumstances:
        return Circumstances(policy=Policy(Behavior.EVOLVE), shadows=self.sink.shadows, batch=self.batch)

    def _routed(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        for block in blocks:
            state, shadowed = self.tables.state((block.table,) * 2), self.tables.sink_state(block.table).shadowed
            places = tables_for(self.sink, block.table, state, block.streams, shadowed=shadowed)
            yield from (replace(block, table=place) for place in places)

    def step(self) -> bool:
        """One batch; whether there was one."""
        end = self.plan()
        if end == self.offset:
            return False
        self.read(end)
        return True

    def step_until(self, there: Callable[[], bool], limits: Limits = LIMITS) -> None:
        """Batches until something is so."""
        deadline = time.monotonic() + TIMEOUT_S
        while not there():
            assert time.monotonic() < deadline, f"at {self.offset}"
            end = self.plan(limits)
            if end != self.offset:
                self.read(end)

    def finish(self, server: MySqlServer) -> None:
        """Batches until all tables are copied and the server's log is read to its end."""
        deadline, last = time.monotonic() + TIMEOUT_S, end_of_log(server)
        while self.step() or self._unfinished(last):
            assert time.monotonic() < deadline, f"at {self.offset}, not at {last} with all tables copied"

    def _unfinished(self, last: tuple[str, int]) -> bool:
        place = (self.offset["file"], self.offset["position"])
        return (
            place < last
            or bool(open_orders(self.tables))
            or self.source._parts.coordinator.is_unfinished(MySqlOffset.from_json(self.offset))
        )

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """The plan's entries of one kind."""
        lines = (self.folder / "chunks.jsonl").read_text().splitlines()[1:]
        return [entry for entry in map(json.loads, lines) if entry["kind"] == kind]

    @property
    def copied(self) -> set[str]:
        """Tables of which a chunk was read."""
        chunks = {entry["number"]: entry["table"]["table"] for entry in self.entries("chunk")}
        lines = (self.folder / "watermarks.jsonl").read_text().splitlines()[1:] if self.inserts else []
        return {chunks[mark["number"]] for mark in map(json.loads, lines) if mark["done"]}

    def chunks_read(self) -> int:
        """How many chunks were read so far."""
        return len((self.folder / "watermarks.jsonl").read_text().splitlines()) - 1

    def restarts(self) -> list[str]:
        """Tables that were begun again."""
        return [
            entry["table"]["table"]
            for entry in self.entries("begin")
            if entry["why"] not in ("initial", "new") and not entry["keys_certain"]
        ]

    def assert_equal(self, server: MySqlServer, *tables: str) -> None:
        """Every row is there once, as on the server."""
        assert self.sink.problems == []
        for name in tables:
            rows = server.execute(f"SELECT id, note FROM {name}", database=self.database)
            found = [(row["id"], row["note"]) for row in self.sink.rows(TableId(self.database, name))]
            assert sorted(found) == sorted(rows), name


def end_of_log(server: MySqlServer) -> tuple[str, int]:
    """File and position."""
    status = "SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS"
    file, position = server.execute(status)[0][:2]
    return str(file), int(position)

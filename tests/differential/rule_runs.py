"""Pipelines of random worlds in this process, from a live server into a sink, with crashes; and the comparison."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum
from pathlib import Path

import duckdb
import yaml
from load_pipeline import finished, own_standin, sink_of
from rule_model import Row, shown
from rule_world import World

from cdc.errors import CdcError, ChangeRefused
from cdc.offsets import numbered
from cdc.options import SinkOptions, SourceOptions
from cdc.process.faults import POINTS
from cdc.source import Context, Limits, Offset
from cdc.spec.check import check
from cdc.state.store import LocalStore
from cdc.testing.cases import middle
from cdc.testing.local_pipeline import LocalPipeline
from cdc_services.server import MySqlServer
from cdc_standins import StandIn

LIMITS = (Limits(1 << 26, 10**6), Limits(1 << 20, 12))
Crash = Enum("Crash", {point: point for point in POINTS})
"""At every point of the protocol a process may die."""
Rows = Callable[[str], list[Row] | None]
"""The rows of a sink table by its name, None when it is not there."""


class Runs:
    """One pipeline in lives that go on after each other; `sink` are the keys of the file's sink."""

    def __init__(self, server: MySqlServer, world: World, folder: Path, sink: Row, seed: int) -> None:
        self.server, self.world, self.folder, self.random = server, world, folder, random.Random(seed)
        one, two = world.databases
        source = {
            "type": "mysql", "hostname": server.host, "port": server.port, "username": server.user,
            "password": server.password, "tables": rf"({one}|{two}).\.*", "tls.mode": "disabled",
            "allow-public-key-retrieval": True,
            "scan.incremental.snapshot.chunk.size": 4,
        }  # fmt: skip
        self.text = yaml.safe_dump({"source": source, "sink": {**sink, **world.filters()}, **world.pipeline()})
        self.ran: list[str] = []
        self._at: Offset | None = None
        self._batch = 0

    def write(self) -> None:
        """Run the world's statements on the server."""
        statements = self.world.take()
        self.ran += statements
        self.server.execute(*statements)

    def catch_up(self) -> None:
        """Read what the log holds; some batches die once. Raises CdcError."""
        spec = check(str(self.folder / "rules.yaml"), self.text.encode(), env={}).spec
        assert isinstance(spec.source, SourceOptions)
        assert isinstance(spec.sink, SinkOptions)
        source = spec.source.build(Context("rules-1", LocalStore(self.folder / "source")))
        context, build = Context("rules-1", LocalStore(self.folder / "sink")), spec.sink.build
        source.stop_at_current()
        at: Offset = source.initial_offset() if self._at is None else self._at
        pipeline = LocalPipeline(
            source, build(context), self.folder / "engine", numbered(at, self._batch), lambda: build(context),
            middle(spec),
        )  # fmt: skip
        try:
            while (end := pipeline.latest(at, self._batch, self.random.choice(LIMITS))) != at:
                failures = self.random.sample([*Crash], self.random.choice([0, 0, 0, 1, 4]))
                pipeline.batch(
                    numbered(at, self._batch), numbered(end, self._batch + 1), self.random.randint(1, 3), failures
                )
                source.commit(end)
                at, self._batch = end, self._batch + 1
            pipeline.finish(self._batch, at)
        finally:
            pipeline.wait()
            source.stop()
            self._at = at

    def differences(self, rows: Rows) -> list[str]:
        """What a world's model and the sink do not agree on."""
        found = []
        for name, sink in self.world.sinks.items():
            there = rows(name)
            if there is None:
                found.append(f"{name} is not there")
                continue
            names = sorted(sink.types)
            if there and sorted(there[0]) != names:
                found.append(f"{name} has {sorted(there[0])}, wanted {names}")
                continue
            wanted, actual = shown(sink.rows, names), shown(there, names)
            if wanted != actual:
                found.append(
                    f"{name} {names}\n  only in the sink: {[row for row in actual if row not in wanted]}\n"
                    f"  only in the model: {[row for row in wanted if row not in actual]}"
                    f"\n  {len(actual)} rows, wanted {len(wanted)}"
                )
        return found


def played(runs: Runs, rows: Rows, *, lives: int = 3, steps: int = 12) -> list[str]:
    """Play a world to its end; what differs then, or after a life."""
    world = runs.world
    world.begin()
    for life in range(lives):
        runs.write()
        try:
            runs.catch_up()
        except ChangeRefused as error:
            return [] if world.stopped else [f"life {life} stopped: {error}"]
        except CdcError as error:
            return [f"life {life} failed: {error}"]
        if world.stopped:
            return [f"life {life} was to stop, as the behavior is exception"]
        if found := runs.differences(rows):
            return [f"life {life}: {text}" for text in found]
        if life < lives - 1:
            world.steps(steps)
    return []


def load_rows(standin: StandIn) -> Rows:
    """Rows of a stand-in of Doris or StarRocks, once all that is committed is visible."""

    def rows(name: str) -> list[Row] | None:
        finished(standin)
        database, _, table = name.partition(".")
        found = standin.query(
            "SELECT COLUMN_NAME FROM information_schema.columns "
            f"WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = '{table}'"
        )
        names = [str(column) for (column,) in found]
        if not names:
            return None
        chosen = ", ".join(f"`{column}`" for column in names)
        rows = standin.query(f"SELECT {chosen} FROM `{database}`.`{table}`")
        return [dict(zip(names, row, strict=True)) for row in rows]

    return rows


def duckdb_rows(path: Path) -> Rows:
    """Rows of a DuckDB file."""

    def rows(name: str) -> list[Row] | None:
        with duckdb.connect(str(path), read_only=True) as file:
            database, _, table = name.partition(".")
            if not file.execute(
                "SELECT 1 FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", [database, table]
            ).fetchall():
                return None
            found = file.execute(f'SELECT * FROM "{database}"."{table}"').fetchall()
            names = [column[0] for column in file.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found]

    return rows


def differing_world(server: MySqlServer, kind: str, seed: int, folder: Path) -> list[str]:
    """Play the world of a seed into a sink of a kind (`duckdb`, `doris`, `starrocks`); what differs."""
    world = World(seed, (server.new_database("w"), server.new_database("w")), load=kind != "duckdb")
    with ExitStack() as stack:
        if kind == "duckdb":
            path = folder / "sink.duckdb"
            sink, rows = {"type": "duckdb", "path": str(path)}, duckdb_rows(path)
        else:
            standin = stack.enter_context(own_standin(kind))
            sink, rows = sink_of(standin), load_rows(standin)
        runs = Runs(server, world, folder, sink, seed)
        found = played(runs, rows)
        (folder / "world.sql").write_text("\n".join([f"-- {runs.text}".replace("\n", "\n-- "), *runs.ran]))
    server.execute(*(f"DROP DATABASE `{database}`" for database in world.databases))
    return found

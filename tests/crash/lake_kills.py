"""`make chaos`: pipelines from a real server into lakes whose process is killed by signals, again and again.

    PYTHONPATH=tests:tests/crash:tests/devservers .venv/bin/python tests/crash/lake_kills.py [--seed 7] [--spark]

A seed is a pipeline into one lake while somebody writes and adds columns. Its lives end with SIGKILL, most of them soon
after a commit, so within the next: those of `one_life` (no Spark), or with `spark` those of `cdc run`, which also get
SIGTERM and die at crash points. Then the pipeline runs to the end of the log, and a foreign reader has to find the rows
of the server: DuckDB's extension for Iceberg, Paimon's Java library for Paimon. One table has a key, one only grows.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import iceberg_judge
import paimon_judge
import yaml
from cdc_process import TIMEOUT_S, CdcRun, Pipeline, ended, mysql_pipeline
from servers import FLAVORS, own_servers

from cdc_services.server import MySqlServer
from connectors.iceberg.library import Catalog
from connectors.iceberg.options import IcebergSinkOptions

LIVES = 6
_ROUNDS = 10
"""Of writing in a life."""
_ONE_LIFE = Path(__file__).parent / "one_life.py"
_TABLES = ("keyed", "log")


@dataclass
class LakePipeline(Pipeline):
    """A pipeline into a lake in its folder."""

    lake: dict[str, Any] = field(default_factory=dict)

    @property
    def warehouse(self) -> Path:
        return self.folder / "lake"

    def write(self) -> None:
        super().write()
        self.warehouse.mkdir(exist_ok=True)
        document = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        document["sink"] = self.lake
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")

    def commits(self) -> int:
        """Snapshots that are there or were: their files' names."""
        found = [*self.warehouse.rglob("snapshot-*"), *self.warehouse.rglob("*.metadata.json")]
        return len({path.name for path in found})


@dataclass
class Work:
    """Two tables in a database of their own, and whoever writes to them."""

    server: MySqlServer
    chance: Random
    database: str = ""
    rounds: int = 0

    def __post_init__(self) -> None:
        self.database = self.server.new_database("lake")
        self.run(
            "CREATE TABLE keyed (id INT AUTO_INCREMENT PRIMARY KEY, round INT, note VARCHAR(40), amount DECIMAL(9,2))",
            "CREATE TABLE log (round INT, note VARCHAR(40))",
        )

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def round(self) -> None:
        """Inserts, updates, deletes, a key that comes again."""
        self.rounds += 1
        number, count = self.rounds, self.chance.randrange(1, 20)
        keyed = ", ".join(f"({number}, 'note {i}', {i}.25)" for i in range(count))
        log = ", ".join(f"({number}, 'note {i}')" for i in range(count))
        self.run(
            "BEGIN",
            f"INSERT INTO keyed (round, note, amount) VALUES {keyed}",
            f"INSERT INTO log (round, note) VALUES {log}",
            "COMMIT",
            f"UPDATE keyed SET amount = amount + 1, note = CONCAT(round, '+') WHERE id % 3 = {number % 3}",
            f"DELETE FROM keyed WHERE round < {number} AND id % 7 = {number % 7}",
            f"REPLACE INTO keyed (id, round, note) VALUES (1, {number}, 'again')",
        )

    def change_columns(self) -> None:
        """Columns with and without a default, and rows after them."""
        name = f"c{self.rounds}"
        self.run(f"ALTER TABLE keyed ADD COLUMN {name} INT DEFAULT 7", f"ALTER TABLE log ADD COLUMN {name} INT")
        self.run(f"UPDATE keyed SET {name} = 8 WHERE id % 2 = 0")

    def rows(self, table: str) -> list[list[tuple[str, str]]]:
        """The server's rows as texts."""
        names = self.server.execute(
            "SELECT column_name FROM information_schema.columns "
            f"WHERE table_schema = '{self.database}' AND table_name = '{table}' ORDER BY ordinal_position"
        )
        columns = [str(name) for (name,) in names]
        found = self.server.execute(f"SELECT {', '.join(columns)} FROM {self.database}.{table}")
        return _texts(dict(zip(columns, row, strict=True)) for row in found)


class Writing:
    """Rounds in a thread of their own, as many as were asked for: a slow machine gets no more to do than a fast one."""

    def __init__(self, work: Work) -> None:
        self._work, self._enough, self._asked = work, threading.Event(), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._write)

    def more(self, rounds: int) -> None:
        """Write so many rounds more, beginning now."""
        self._asked.release(rounds)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._enough.is_set():
            if not self._asked.acquire(timeout=0.05):
                continue
            self._work.round()
            if self._work.chance.random() < 0.03:
                self._work.change_columns()


def run(seeds: range, *, spark: bool = False, say: Callable[[str], None] = print) -> None:
    """Each seed into both lakes. Raises AssertionError at a difference."""
    with own_servers() as make:
        servers = [make(flavor) for flavor in FLAVORS]
        for seed in seeds:
            for lake in ("iceberg", "paimon"):
                say(f"seed {seed} into {lake}{' by cdc run' * spark}")
                with tempfile.TemporaryDirectory(prefix="cdc-lake-") as folder:
                    live(servers[seed % 2], lake, seed, Path(folder), spark=spark)


def live(server: MySqlServer, lake: str, seed: int, folder: Path, *, spark: bool = False, lives: int = LIVES) -> None:
    """One seed. Raises AssertionError at a difference, with the words of a life that went wrong."""
    chance = Random(seed)
    work = Work(server, Random(seed))
    pipeline = lake_pipeline(folder, server, lake, rf"{work.database}.\.*")
    life = _spark_life if spark else _bare_life
    with ended(pipeline):
        with Writing(work) as writing:
            for number in range(lives):
                writing.more(_ROUNDS)
                life(pipeline, number, chance)
        for number in (lives, lives + 1):  # the last one finds nothing more to do
            _to_the_end(pipeline, number, spark=spark)
        _compare(pipeline, lake, work, f"seed {seed} into {lake}")
    server.execute(f"DROP DATABASE {work.database}")


def lake_pipeline(folder: Path, server: MySqlServer, lake: str, tables: str) -> LakePipeline:
    """A pipeline whose upkeep has its turn at every third commit."""
    made = mysql_pipeline(folder, server, tables, scan__incremental__snapshot__chunk__size=50)
    options = {"type": lake, "catalog.properties.warehouse": str(folder / "lake"), "sink.compaction.files": 3}
    if lake == "iceberg":
        options |= {"catalog.properties.type": "sql", "sink.snapshots.keep": 2, "sink.snapshots.keep-for": "0s"}
    else:
        options |= {"catalog.properties.metastore": "filesystem", "table.properties.snapshot.num-retained.max": "2"}
        options |= {"table.properties.snapshot.num-retained.min": "1"}
    return LakePipeline(folder, made.source, made.password, lake=options)


def _bare_life(pipeline: LakePipeline, number: int, chance: Random) -> None:
    """A process of `one_life` that is killed."""
    process, log = _started(pipeline, number)
    _moment(pipeline, chance, lambda: process.poll() is None)
    process.kill()
    process.wait()
    assert process.returncode in (0, -signal.SIGKILL), log.read_text(encoding="utf-8")[-3000:]


def _to_the_end(pipeline: LakePipeline, number: int, *, spark: bool) -> None:
    if spark:
        pipeline.catch_up()
        return
    process, log = _started(pipeline, number)
    assert process.wait(TIMEOUT_S) == 0, log.read_text(encoding="utf-8")[-3000:]


def _started(pipeline: LakePipeline, number: int) -> tuple[subprocess.Popen[bytes], Path]:
    pipeline.write()
    log = pipeline.folder / f"life-{number}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(_ONE_LIFE), str(pipeline.folder)], stdout=subprocess.PIPE, stderr=out,
            env={**os.environ, "MYSQL_PASSWORD": pipeline.password},
        )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    return process, log


def _moment(pipeline: LakePipeline, chance: Random, alive: Callable[[], bool]) -> None:
    """Wait for so many commits, and a part of the next."""
    wanted, deadline = pipeline.commits() + chance.randrange(1, 8), time.monotonic() + 30
    while alive() and pipeline.commits() < wanted and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(chance.uniform(0, 0.2))


def _spark_life(pipeline: LakePipeline, number: int, chance: Random) -> None:
    """A `cdc run` that dies at a crash point, or gets a signal; not each life has an ALTER, whose point it reaches."""
    kind = chance.choice(("point", "SIGKILL", "SIGKILL", "SIGKILL of all", "SIGTERM"))
    point = chance.choice(("mid-apply", "after-prepare", "after-decide", "mid-commit", "after-commit"))
    run = pipeline.start(env={"CDC_CRASH_AT": point} if kind == "point" else {})
    _moment(pipeline, chance, lambda: run.alive)
    _end(run, kind)
    run.kill_all()


def _end(run: CdcRun, kind: str) -> None:
    if kind == "SIGTERM" and run.alive:
        run.stop()
    elif kind == "SIGKILL":
        run.kill9()


def _compare(pipeline: LakePipeline, lake: str, work: Work, where: str) -> None:
    for table in _TABLES:
        wanted, found = work.rows(table), _judged(pipeline, lake, work.database, table)
        assert found == wanted, f"{where}: {table} has {len(found)} rows, the source {len(wanted)}"


def _judged(pipeline: LakePipeline, lake: str, database: str, table: str) -> list[list[tuple[str, str]]]:
    if lake == "paimon":
        with paimon_judge.Judge({"warehouse": str(pipeline.warehouse)}) as paimon:
            return _texts(paimon.rows(database, table))
    options = IcebergSinkOptions.model_validate(pipeline.lake)
    library = Catalog(options.catalog_properties()).open().load_table((database, table))
    with iceberg_judge.Judge() as iceberg:
        return _texts(iceberg.rows(library.metadata_location))


def _texts(rows: Any) -> list[list[tuple[str, str]]]:
    return sorted(sorted((name, str(value)) for name, value in row.items()) for row in rows)


def main() -> None:
    """Some seeds by hand."""
    parser = argparse.ArgumentParser(description="Kills of pipelines into lakes.")
    parser.add_argument("--seed", type=int, default=1, help="the first (1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (1)")
    parser.add_argument("--spark", action="store_true", help="by `cdc run` instead of a process without Spark")
    options = parser.parse_args()
    run(range(options.seed, options.seed + options.seeds), spark=options.spark)


if __name__ == "__main__":
    main()

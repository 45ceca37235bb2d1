"""`make chaos`: tables that are copied and written into one, altered one after the other, by a process that is killed.

Each seed is a pipeline of four databases' tables into one table of DuckDB, without Spark (`one_life`). Columns come, go
and get other types in one of the source tables, so that the sink's table is merged anew while others are being copied;
tables are emptied, dropped and created again. Lives end as those of `altered_kills` do; then each source table's own
columns are compared with the rows that the sink has of it.
"""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import yaml
from altered_kills import lives, run_seeds
from cdc_process import Pipeline, mysql_pipeline

from cdc_services.server import MySqlServer

SHARDS = 4
_ROWS = 300
_STEPS = 1200
_TYPES = ("BIGINT", "VARCHAR(20)", "DECIMAL(12, 2)", "SMALLINT UNSIGNED", "INT")


class Shards:
    """Tables of one name in databases of their own, and a thread that writes to them."""

    def __init__(self, server: MySqlServer, seed: int, *, emptied: bool) -> None:
        self.server, self.random, self._emptied = server, Random(seed), emptied
        self.prefix = server.new_database("shard")
        self.databases = [f"{self.prefix}_{number}" for number in range(SHARDS)]
        self.log: list[str] = []
        self._serial, self._enough = 0, threading.Event()
        self._connection = server.connect(autocommit=True)
        self._thread = threading.Thread(target=self._write, daemon=True)
        for database in self.databases:
            self._do(f"CREATE DATABASE {database}")
            self._create(database)

    def start(self) -> None:
        """Write until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """End the writing."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join()

    def clear(self) -> None:
        """Take all of it away."""
        for database in (self.prefix, *self.databases):
            self._do(f"DROP DATABASE IF EXISTS {database}")
        self._connection.close()

    def _create(self, database: str) -> None:
        self._do(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT, note VARCHAR(20))")
        rows = ", ".join(f"({self._id()}, {number}, 'first')" for number in range(_ROWS))
        self._do(f"INSERT IGNORE INTO {database}.t (id, v, note) VALUES {rows}")

    def _write(self) -> None:
        for _ in range(_STEPS):
            if self._enough.is_set():
                return
            database = self.random.choice(self.databases)
            (self._alter if self.random.random() < 0.03 else self._change)(database)

    def _id(self) -> int:
        return self.random.randrange(1000)

    def _change(self, database: str) -> None:
        self._serial += 1
        some = f"WHERE id % 97 = {self.random.randrange(97)}"
        self._do(self.random.choice((
            f"REPLACE INTO {database}.t (id, v, note) VALUES ({self._id()}, {self._serial}, 'new')",
            f"UPDATE {database}.t SET v = {self._serial}, note = 'again' {some}",
            f"UPDATE IGNORE {database}.t SET id = {self._id()} {some} LIMIT 1",
            f"DELETE FROM {database}.t {some} LIMIT 2",
        )))  # fmt: skip

    def _alter(self, database: str) -> None:
        self._serial += 1
        alter, name = f"ALTER TABLE {database}.t", f"x{self._serial}"
        kinds = [
            [f"{alter} ADD {name} INT", f"UPDATE {database}.t SET {name} = id WHERE id % 3 = 0"],
            [f"{alter} ADD {name} INT", f"UPDATE {database}.t SET {name} = id", f"{alter} DROP {name}"],
            [f"{each} ADD {name} INT" for each in (f"ALTER TABLE {one}.t" for one in self.databases)],
            [f"{alter} MODIFY v {self.random.choice(_TYPES)}"],
            [f"{alter} MODIFY v {self.random.choice(_TYPES)}", f"{alter} MODIFY v INT"],
            [f"{alter} MODIFY note VARCHAR({self.random.randrange(20, 60)})"],
        ]
        if self._emptied:
            kinds += [[f"TRUNCATE TABLE {database}.t"], [f"DROP TABLE {database}.t", ""]]
        for statement in self.random.choice(kinds):
            if statement:
                self._do(statement)
            else:
                self._create(database)
            self._change(self.random.choice(self.databases))

    def _do(self, sql: str) -> None:
        self.log.append(sql)
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(sql)
            except pymysql.err.MySQLError as error:
                self.log.append(f"-- refused: {error}")

    def differences(self, pipeline: Pipeline) -> list[str]:
        """What the sink has otherwise of each source table, whose columns all are in the sink's."""
        found = []
        with pipeline.reading():
            for database in self.databases:
                sql = f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{database}'"
                names = [str(name) for (name,) in self.server.execute(f"{sql} AND table_name = 't' ORDER BY 1")]
                source = _texts(self.server.execute(f"SELECT {', '.join(names)} FROM {database}.t"))
                shown = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
                sink = _texts(pipeline.query(f"SELECT {shown} FROM {self.prefix}.t WHERE origin = '{database}.t'"))
                if source != sink:
                    found.append(f"{database} {names}: only in the source {source - sink}, in the sink {sink - source}")
        return found


def _texts(rows: Any) -> Counter[tuple[str, ...]]:
    """Numbers alike, whatever type the sink's table has by now."""
    return Counter(tuple(str(value).removesuffix(".00") for value in row) for row in rows)


class ShardPipeline(Pipeline):
    """All tables into one."""

    routes: list[dict[str, str]]

    def write(self) -> None:
        super().write()
        document = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        document["route"] = self.routes
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")


def run(seeds: range) -> list[str]:
    """What differs, or failed, one text per seed that did."""
    return run_seeds(seeds, differing_seed)


def differing_seed(server: MySqlServer, seed: int, folder: Path) -> str:
    """What is not equal at the end of one seed's pipeline; the statements are in `workload.sql` of the folder."""
    random = Random(seed)
    gone = random.choice(("keep", "delete"))
    work = Shards(server, seed, emptied=gone == "delete")
    size = random.choice((20, 60, 200))
    made = mysql_pipeline(folder, server, rf"{work.prefix}_\d.t", scan__incremental__snapshot__chunk__size=size)
    pipeline = ShardPipeline(folder, made.source, made.password)
    pipeline.routes = [
        {"source-table": rf"{work.prefix}_\d.t", "sink-table": f"{work.prefix}.t", "shard-column": "origin",
         "shard-gone": gone},
    ]  # fmt: skip
    pipeline.write()
    try:
        if wrong := lives(pipeline, random, work.start, work.stop):
            return wrong
        return "\n".join(work.differences(pipeline))
    finally:
        work.stop()
        (folder / "workload.sql").write_text(";\n".join(work.log), encoding="utf-8")
        work.clear()

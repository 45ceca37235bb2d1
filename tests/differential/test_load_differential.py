"""After a random workload on a real MySQL every table of Doris and StarRocks equals its source table, value by value.

The workload is that of the other differential tests, less what these servers have no word for: updates and deletes of
tables without a key, defaults of binary columns in rows that are there (NULL in StarRocks, which the log says), another
scale of decimal keys (refused where keys are text), and keys of several columns (StarRocks takes 128 bytes).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import workload
from cdc_process import mysql_pipeline, present_end
from direct import DirectRuns
from load_comparison import differences
from load_pipeline import KINDS, LoadPipeline, finished, own_standin
from tiers import one_in
from trials import trials
from workload import Column, Table, Workload

from cdc.source import Limits
from cdc_services.server import MySqlServer

_STEPS = int(os.environ.get("CDC_DIFF_STEPS", trials(100)))
_FIRST, _, _LAST = os.environ.get("CDC_DIFF_SEEDS", "1").partition("-")
_SEEDS = range(int(_FIRST), int(_LAST or _FIRST) + 1)
_LIMITS = (Limits(1 << 26, 10**6), Limits(1 << 20, 200))
_NOT_THERE = frozenset({"_change_key", "_rename_table", "_swap_tables", "_create_select"})
"""Steps that end in a table without a key or in another database; `cdc` tells so where they come."""


_CONSTANTS = ("INT", "BIGINT UNSIGNED", "TINYINT", "DECIMAL(10,2)", "VARCHAR(20)", "DATETIME(3)", "TIME(3)", "YEAR")
"""Types whose defaults both servers can have."""


def _add_column(work: Workload) -> None:
    """A column of any type that is NULL in the rows there, or one that is not and has a default."""
    table, default = work.table(), ""
    column = Column(work.name("c"), work.rng.choice(work.kinds))
    if work.rng.random() < 0.5:
        column = Column(column.name, work.kind(work.rng.choice(_CONSTANTS)), nullable=False)
        default = f" DEFAULT {column.kind.literal(work.rng)}"
    if work.sql(f"ALTER TABLE {table.sql} ADD COLUMN {column.sql}{default}"):
        table.columns.append(column)


class LoadWorkload(Workload):
    """What both servers can follow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kinds = [
            replace(kind, wider=None) if kind.key and "DECIMAL" in kind.declaration else kind for kind in self.kinds
        ]

    def steps(self, number: int) -> None:
        """Run steps, each one transaction or one schema change."""
        known = [(step, weight) for step, weight in workload._STEPS if step.__name__ not in _NOT_THERE]
        known = [(_add_column if step.__name__ == "_add_column" else step, weight) for step, weight in known]
        for _ in range(number):
            step = self.rng.choices([step for step, _ in known], [weight for _, weight in known])[0]
            self.done[step.__name__.strip("_")] += 1
            step(self)

    def create_random(self) -> Table:
        """A table with a key of one column, or with none."""
        keys = [kind for kind in self.kinds if kind.key]
        key = tuple(self.rng.sample(keys, self.rng.choice([0, 1, 1, 1])))
        return self.create(self.rng.sample(self.kinds, self.rng.randint(2, 12)), key)

    def change_rows(self) -> None:
        """Rows of a table without a key only come."""
        changes: list[Callable[[Table], None]] = [self.insert] * 5
        table = self.table()
        if table.key:
            changes += [self.update, self.update, self.update, self.delete, self.replace, self.upsert, self.change_key]
        self.rng.choice(changes)(table)


@pytest.mark.slow
@pytest.mark.mysql
@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("kind", one_in(2, KINDS))
@pytest.mark.timeout(900)
def test_tables_of_load_sinks_equal_the_source(kind: str, seed: int, mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Every column type, with a key and without, and schema changes between rows; without Spark."""
    mysql_server.execute("CREATE DATABASE IF NOT EXISTS elsewhere")
    work = LoadWorkload(mysql_server, [mysql_server.new_database("d")], seed)
    made = mysql_pipeline(tmp_path, mysql_server, rf"{work.databases[0]}.\.*", **present_end(mysql_server))
    try:
        with own_standin(kind) as standin:
            runs = DirectRuns(LoadPipeline(made.folder, made.source, made.password, standin=standin))
            work.connect()
            work.create_all_kinds(3)
            for table in list(work.tables):
                for _ in range(4):
                    work.insert(table)
            for limits in _LIMITS:
                runs.catch_up(limits)
                assert set(finished(standin)) <= {"VISIBLE", "ABORTED"}
                assert differences(mysql_server, standin, work.databases) == []
                work.steps(_STEPS)
            runs.catch_up(_LIMITS[-1])
            finished(standin)
            assert differences(mysql_server, standin, work.databases) == []
    finally:
        work.close()
        (tmp_path / "workload.sql").write_text("\n".join(work.log), encoding="utf-8")

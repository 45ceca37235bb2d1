"""A batch with chunks is planned, the process is killed, and what it is about changes before it is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from stepping import Steps

from cdc.schema import CreateShadow, TableId
from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql

ROWS = 200
SMALL = Limits(1 << 26, 30)


@dataclass(frozen=True)
class Meanwhile:
    """What happens between the plan and its repeat.

    Attributes:
        statements: run in the database; `{other}` is one that is not captured.
        options: edited in the pipeline file.
        equal: tables that are followed to the end.
        left: the table is followed no further, its rows stay.
    """

    statements: tuple[str, ...] = ()
    options: dict[str, str] | None = None
    equal: tuple[str, ...] = ("u",)
    left: bool = True


EDITS = {
    "renamed out": Meanwhile(("RENAME TABLE t TO {other}.t",)),
    "renamed out, another one in": Meanwhile(
        (
            "CREATE TABLE {other}.n LIKE t", "INSERT INTO {other}.n VALUES (7, 'n')",
            "RENAME TABLE t TO {other}.t, {other}.n TO t",
        ),
        equal=("t", "u"), left=False,
    ),
    "renamed out and back": Meanwhile(
        ("RENAME TABLE t TO {other}.t", "INSERT INTO {other}.t VALUES (9000, 'away')", "RENAME TABLE {other}.t TO t"),
        equal=("t", "u"), left=False,
    ),
    "renamed out, a new one made": Meanwhile(
        (
            "RENAME TABLE t TO {other}.t", "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(9))",
            "INSERT INTO t VALUES (7, 'n')",
        ),
        equal=("t", "u"), left=False,
    ),
    "renamed inside": Meanwhile(
        ("RENAME TABLE t TO v", "INSERT INTO v VALUES (9000, 'v')"), equal=("u", "v"), left=False
    ),
    "two swapped": Meanwhile(("RENAME TABLE t TO x, u TO t, x TO u",), equal=("t", "u"), left=False),
    "dropped": Meanwhile(("DROP TABLE t",), left=False),
    "excluded": Meanwhile(options={"tables.exclude": "{database}.t"}),
    "renamed out and excluded": Meanwhile(("RENAME TABLE t TO {other}.t",), {"tables.exclude": "{database}.t"}),
}  # fmt: skip


def edited(steps: Steps, server: MySqlServer, name: str) -> Meanwhile:
    """A batch is planned, what `name` says happens, and the batch is read by a process that begins after it."""
    found = EDITS[name]
    other = server.new_database("outside")
    end = steps.plan(SMALL)
    assert end != steps.offset
    splits = steps.source.splits(steps.offset, end, 2)
    statements = [statement.format(other=other) for statement in found.statements]
    server.execute(*statements, database=steps.database)
    for key, text in (found.options or {}).items():
        steps._options[key] = text.format(database=steps.database)
    steps.started_on(server)
    steps.read(end, splits=splits)
    server.execute("INSERT INTO u VALUES (9999, 'after')", database=steps.database)
    return found


def filled(server: MySqlServer) -> str:
    database = server.new_database("planned")
    rows = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
    for name in "tu":
        server.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, note VARCHAR(20))", f"INSERT INTO {name} VALUES {rows}",
            database=database,
        )  # fmt: skip
    return database


@pytest.mark.parametrize("name", EDITS)
def test_a_planned_part_of_a_snapshot_is_valid_or_planned_again(
    any_server: MySqlServer, tmp_path: Path, name: str
) -> None:
    database = filled(any_server)
    steps = Steps(any_server, database, tmp_path, **{"scan.incremental.snapshot.chunk.size": 20})
    steps.step()
    steps.step()
    found = edited(steps, any_server, name)
    steps.finish(any_server)
    steps.assert_equal(any_server, *found.equal)
    if found.left:
        assert len(steps.sink.rows(TableId(database, "t"))) < ROWS


@pytest.mark.parametrize("name", EDITS)
def test_a_planned_part_of_a_re_snapshot_is_valid_or_planned_again(
    mysql_server: MySqlServer, tmp_path: Path, name: str
) -> None:
    """A table that is followed no further keeps the rows that it had, and nothing is left beside it."""
    database = filled(mysql_server)
    table = TableId(database, "t")
    steps = Steps(mysql_server, database, tmp_path, **{"scan.incremental.snapshot.chunk.size": 20})
    steps.finish(mysql_server)
    steps.ask(table)
    steps.step_until(lambda: CreateShadow(table) in steps.changes, SMALL)
    found = edited(steps, mysql_server, name)
    steps.finish(mysql_server)
    steps.assert_equal(mysql_server, *found.equal)
    assert steps.sink.tables <= {TableId(database, each) for each in "tuvx"}
    if found.left:
        assert len(steps.sink.rows(table)) == ROWS

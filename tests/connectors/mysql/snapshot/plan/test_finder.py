"""Cutting tables that the server alters meanwhile, or cannot read yet: nothing stops."""

from __future__ import annotations

import pytest
from servers import source_of

from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.follow.streams import Streams
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.information_schema import table_reader
from connectors.mysql.snapshot.plan.finder import Finder, TableToSplit
from connectors.mysql.snapshot.plan.split_points import ChunkSize

pytestmark = pytest.mark.mysql


@pytest.mark.parametrize(
    ("key", "alter"),
    [("VARCHAR(20) CHARACTER SET latin1", "CONVERT TO CHARACTER SET utf8mb4"), ("INT", "MODIFY k VARCHAR(20)")],
)
def test_a_table_that_was_altered_since_waits_for_the_log(any_server: MySqlServer, key: str, alter: str) -> None:
    database = any_server.new_database("finder")
    rows = ", ".join(f"({number})" for number in range(1, 60))
    any_server.execute(
        f"CREATE TABLE t (k {key} PRIMARY KEY)", f"INSERT INTO t VALUES {rows}", "ANALYZE TABLE t", database=database
    )
    finder = finder_of(any_server, database, "t")
    any_server.execute(f"ALTER TABLE t {alter}", database=database)
    finder.start()
    chunks = []
    while (found := finder.peek(30.0)) is not None:
        chunks.append(finder.pop().chunk)
        assert found.table == TableId(database, "t")
    finder.join(120.0)
    assert chunks[-1] is None


def finder_of(server: MySqlServer, database: str, *tables: str) -> Finder:
    """A finder for the tables as they are now; not started."""
    streams = Streams(MySqlSourceOptions.model_validate(source_of(server, rf"{database}.\.*")))
    with streams.session() as session:
        read = table_reader(session)
        tasks = [TableToSplit(found) for name in tables if (found := read(TableId(database, name))) is not None]
    assert len(tasks) == len(tables)
    return Finder(streams, tasks, ChunkSize(4, 0.05, 1000.0), 1 << 20, lambda table: None)


def test_a_table_without_a_tablespace_does_not_hold_up_the_others(any_server: MySqlServer) -> None:
    database = any_server.new_database("finder")
    any_server.execute(
        "CREATE TABLE t (k INT PRIMARY KEY)", "ALTER TABLE t DISCARD TABLESPACE", "CREATE TABLE u (k INT PRIMARY KEY)",
        "INSERT INTO u VALUES (1)", database=database,
    )  # fmt: skip
    finder = finder_of(any_server, database, "t", "u")
    finder.start()
    found = finder.peek(60.0)
    assert found is not None
    assert (found.table.table, found.chunk is None) == ("u", False)
    finder.pop()
    any_server.execute("DROP TABLE t", database=database)
    found = finder.peek(60.0)
    assert found is not None
    assert found.table.table == "t"  # no part of it, or all that there is: its reader finds that it is gone
    finder.pop()
    finder.join(120.0)

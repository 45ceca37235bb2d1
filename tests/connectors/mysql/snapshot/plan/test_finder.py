"""Cutting a table that the server alters meanwhile: the log tells how, so nothing stops."""

from __future__ import annotations

import pytest
from servers import source_of

from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.follow.streams import Streams
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.information_schema import table_reader
from connectors.mysql.snapshot.plan.finder import Finder, TableToCut
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
    streams = Streams(MySqlSourceOptions.model_validate(source_of(any_server, rf"{database}.\.*")))
    table = TableId(database, "t")
    session = streams.session()
    definition = table_reader(session)(table)
    assert definition is not None
    session.close()
    any_server.execute(f"ALTER TABLE t {alter}", database=database)
    finder = Finder(streams, [TableToCut(definition)], ChunkSize(4, 0.05, 1000.0), 1 << 20, lambda table: None)
    finder.start()
    parts = []
    while (found := finder.peek(30.0)) is not None:
        parts.append(finder.pop().part)
        assert found.table == table
    finder.join(120.0)
    assert parts[-1] is None

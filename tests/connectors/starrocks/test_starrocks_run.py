"""From a real MySQL into StarRocks: schema changes between rows, and the same tables in the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cdc_process import Pipeline, mysql_pipeline, present_end
from direct import DirectRuns
from starrocks_servers import StarRocksServer, own_starrocks

from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql

FIRST = (
    "CREATE TABLE sr.orders (id INT PRIMARY KEY, note VARCHAR(20), at DATETIME(3))",
    "CREATE TABLE sr.log (line TEXT)",
    "INSERT INTO sr.orders VALUES (1, 'a\\tb\\n\\\\', '2020-01-01 00:00:00.123'), (2, NULL, NULL), (3, 'x', NULL)",
    "INSERT INTO sr.log VALUES ('one'), ('one')",
)
SECOND = (
    "UPDATE sr.orders SET id = 4 WHERE id = 3",
    "DELETE FROM sr.orders WHERE id = 2",
    "ALTER TABLE sr.orders ADD COLUMN qty INT UNSIGNED NOT NULL DEFAULT 7, MODIFY note VARCHAR(50)",
    "INSERT INTO sr.orders VALUES (5, REPEAT('\U0001f600', 50), NULL, 4294967295)",
    "ALTER TABLE sr.orders MODIFY id BIGINT",
    "INSERT INTO sr.log VALUES ('two')",
)


@dataclass
class StarRocksPipeline(Pipeline):
    """The same pipeline with another sink."""

    server: StarRocksServer | None = None

    def write(self) -> None:
        assert self.server is not None
        document = {
            "source": self.source,
            "sink": {
                "type": "starrocks", "username": self.server.user, "password": self.server.password,
                "jdbc-url": f"jdbc:mysql://{self.server.host}:{self.server.sql_port}",
                "load-url": f"{self.server.host}:{self.server.http_port}",
            },
            "pipeline": {"name": "proof", "schema.change.behavior": "evolve"},
        }  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")


@pytest.fixture
def pipeline(mysql_server: MySqlServer, tmp_path: Path) -> Iterator[StarRocksPipeline]:
    mysql_server.execute("DROP DATABASE IF EXISTS sr", "CREATE DATABASE sr")
    made = mysql_pipeline(tmp_path / "p", mysql_server, r"sr.\.*", **present_end(mysql_server))
    with own_starrocks() as server:
        yield StarRocksPipeline(made.folder, made.source, made.password, server=server)


def test_tables_follow_through_schema_changes(pipeline: StarRocksPipeline, mysql_server: MySqlServer) -> None:
    server = pipeline.server
    assert server is not None
    assert server.standin is not None
    runs = DirectRuns(pipeline)
    for sql in FIRST:
        mysql_server.execute(sql)
    runs.catch_up(Limits(1 << 26, 10**6))
    assert sorted(server.query("SELECT id, note FROM sr.orders")) == [(1, "a\tb\n\\"), (2, None), (3, "x")]
    for sql in SECOND:
        mysql_server.execute(sql)
    runs.catch_up(Limits(1 << 26, 10**6))
    expected = sorted(mysql_server.execute("SELECT id, note, CAST(qty AS CHAR) FROM sr.orders"))
    assert sorted(server.query("SELECT id, note, CAST(qty AS VARCHAR) FROM sr.orders")) == expected
    assert sorted(server.query("SELECT line FROM sr.log")) == [("one",), ("one",), ("two",)]
    assert {item["state"] for item in server.standin.transactions()} == {"VISIBLE"}

"""A StarRocks for tests: the one at an address in the environment, else a stand-in. The same tests run on both.

CDC_TEST_STARROCKS_JDBC=jdbc:mysql://host:9030 CDC_TEST_STARROCKS_HTTP=host:8030, CDC_TEST_STARROCKS_USER (root) and
CDC_TEST_STARROCKS_PASSWORD (empty) name a real cluster; tests that inject faults are left out there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from cdc.schema import DataType, Kind, TableId
from cdc.source import Context
from cdc.testing.blocks import Row
from cdc.testing.sink_conformance import VALUES
from cdc.testing.standins import StandIn, start_starrocks
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.sink import StarRocksSink
from connectors.streamload.sql import quoted

PIPELINE = "pipeline-1"
TYPES = TableId("shop", "types")


@dataclass
class Server:
    """Where it is, and who may do everything there. `standin` is None for a real one."""

    jdbc_url: str
    load_url: str
    username: str = "root"
    password: str = ""
    standin: StandIn | None = None

    @classmethod
    def of(cls, standin: StandIn) -> Server:
        return cls(f"jdbc:mysql://127.0.0.1:{standin.sql_port}", f"127.0.0.1:{standin.http_port}", standin=standin)

    @classmethod
    def from_environment(cls) -> Server | None:
        jdbc, load = os.environ.get("CDC_TEST_STARROCKS_JDBC"), os.environ.get("CDC_TEST_STARROCKS_HTTP")
        if not jdbc or not load:
            return None
        user = os.environ.get("CDC_TEST_STARROCKS_USER", "root")
        return cls(jdbc, load, user, os.environ.get("CDC_TEST_STARROCKS_PASSWORD", ""))

    @property
    def faulty(self) -> StandIn:
        """The stand-in, for tests that inject faults; a real server skips them."""
        if self.standin is None:
            pytest.skip("a real StarRocks has no faults on demand")
        return self.standin

    def options(self, **more: Any) -> StarRocksSinkOptions:
        given = {
            "type": "starrocks", "jdbc-url": self.jdbc_url, "load-url": self.load_url,
            "username": self.username, "password": self.password, "table.create.properties.replication_num": "1",
        }  # fmt: skip
        return StarRocksSinkOptions.model_validate(given | more)

    def sink(self, state: Path, **more: Any) -> StarRocksSink:
        """A new sink object on the same state, as after a restart."""
        return StarRocksSink(self.options(**more), Context(PIPELINE, state))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows; text that is not UTF-8 stays bytes."""
        host, _, port = self.jdbc_url.rpartition("/")[2].partition(":")
        with pymysql.connect(
            host=host, port=int(port), user=self.username, password=self.password, use_unicode=False, autocommit=True,
            conv={**conversions, FIELD_TYPE.DECIMAL: _decimal, FIELD_TYPE.NEWDECIMAL: _decimal},
        ) as connection, connection.cursor() as cursor:  # fmt: skip
            cursor.execute(sql)
            return list(cursor.fetchall())

    def drop_all(self) -> None:
        """Remove what tests made."""
        for (name,) in self.query("SHOW DATABASES"):
            if _text(name) in ("shop", "ods"):
                self.query(f"DROP DATABASE {quoted(_text(name))} FORCE")


@contextmanager
def starrocks_server(folder: Path) -> Iterator[Server]:
    """The server of the environment, or a stand-in in this folder."""
    real = Server.from_environment()
    if real is not None:
        yield real
        return
    with start_starrocks(folder) as standin:
        yield Server.of(standin)


@dataclass
class Harness:
    """One pipeline's sink and its tables; what the conformance suite asks for."""

    server: Server
    state: Path
    options: dict[str, Any]

    def sink(self) -> StarRocksSink:
        return self.server.sink(self.state, **self.options)

    def rows(self, table: TableId) -> list[Row] | None:
        """Visible rows, each value as Arrow gives that of the source."""
        described = self.sink().describe(table)
        if described is None:
            return None
        known = {column.name: column.type for column in described.columns}
        if table == TYPES:
            known |= {f"c{index}": DataType.parse(text) for index, (text, _) in enumerate(VALUES)}
        rows = self.server.query(f"SELECT {', '.join(map(quoted, known))} FROM {quoted(table.database, table.table)}")
        return [
            {name: value(cell, kind) for (name, kind), cell in zip(known.items(), row, strict=True)} for row in rows
        ]


def value(cell: Any, source: DataType) -> Any:
    """A cell as Arrow gives a value of the source's type; the driver gives text and bytes as bytes here."""
    if cell is None:
        return None
    kind = source.kind
    if kind in (Kind.BINARY, Kind.VARBINARY, Kind.BYTES, Kind.GEOMETRY):
        return bytes(cell)
    if kind is Kind.TIMESTAMP_LTZ:
        return cell.replace(tzinfo=UTC)
    if kind is Kind.TIME:
        return _span(_text(cell))
    if kind is Kind.VECTOR:
        return json.loads(cell)
    if kind is Kind.BOOLEAN:
        return bool(int(cell))
    return int(cell) if "INT" in kind.value else _text(cell) if isinstance(cell, bytes) else cell


def _span(text: str) -> timedelta:
    hours, minutes, seconds = text.lstrip("-").split(":")
    span = timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds) * 1_000_000))
    return -span if text.startswith("-") else span


def _decimal(text: bytes) -> Decimal:
    return Decimal(text.decode())


def _text(cell: Any) -> str:
    return bytes(cell).decode() if isinstance(cell, bytes) else str(cell)

"""The StarRocks sink in tests: made for a server, and read back as the source's values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions
from sink_calls import TYPES, span
from starrocks_servers import StarRocksServer

from cdc.schema import DataType, Kind, TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import Row
from connectors.shared.sql.text import quoted
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.sink import StarRocksSink

PIPELINE = "pipeline-1"


def sink_options(server: StarRocksServer, **more: Any) -> StarRocksSinkOptions:
    """Options for a server; `more` by the names of the pipeline file. A server that is gone is not waited for."""
    given = {
        "type": "starrocks", "username": server.user, "password": server.password,
        "jdbc-url": f"jdbc:mysql://{server.host}:{server.sql_port}", "load-url": f"{server.host}:{server.http_port}",
        "table.create.properties.replication_num": "1", "retry-timeout": "300 ms",
    }  # fmt: skip
    return StarRocksSinkOptions.model_validate(given | more)


@dataclass
class Harness:
    """One pipeline's sink and its tables; what the conformance suite asks for."""

    server: StarRocksServer
    state: Path
    options: dict[str, Any] = field(default_factory=dict)

    def sink(self, **more: Any) -> StarRocksSink:
        """A new sink object on the same state, as after a restart."""
        options = sink_options(self.server, **self.options, **more)
        return StarRocksSink(options, Context(PIPELINE, LocalStore(self.state)))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows; text stays bytes, as it may be none."""
        with pymysql.connect(
            host=self.server.host, port=self.server.sql_port, user=self.server.user, password=self.server.password,
            use_unicode=False, ssl_disabled=True,
            conv={**conversions, FIELD_TYPE.DECIMAL: _decimal, FIELD_TYPE.NEWDECIMAL: _decimal},
        ) as connection, connection.cursor() as cursor:  # fmt: skip
            cursor.execute(sql)
            return list(cursor.fetchall())

    def rows(self, table: TableId) -> list[Row] | None:
        """Visible rows, each value as Arrow gives that of the source."""
        described = self.sink().describe(table)
        if described is None:
            return None
        known = {column.name: column.type for column in described.columns}
        if table.table == "types":
            known |= TYPES
        rows = self.query(f"SELECT {', '.join(map(quoted, known))} FROM {quoted(table.database, table.table)}")
        return [
            {name: value(cell, kind) for (name, kind), cell in zip(known.items(), row, strict=True)} for row in rows
        ]

    def states(self) -> list[str]:
        """States of all loads the stand-in knows, oldest first."""
        assert self.server.standin is not None
        return [item["state"] for item in self.server.standin.transactions()]


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
        return span(_text(cell))
    if kind is Kind.VECTOR:
        return json.loads(cell)
    if kind is Kind.BOOLEAN:
        return bool(int(cell))
    return int(cell) if "INT" in kind.value else _text(cell) if isinstance(cell, bytes) else cell


def _decimal(text: bytes) -> Decimal:
    return Decimal(text.decode())


def _text(cell: Any) -> str:
    return bytes(cell).decode() if isinstance(cell, bytes) else str(cell)

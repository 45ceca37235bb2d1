"""The sinks for MySQL, MariaDB and OceanBase in tests: made for a server, and read back as the source's values."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from sink_calls import TYPES

from cdc.schema import DataType, Kind, TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import Row
from cdc_services.server import MySqlServer
from connectors.mysql.sink.options import MySqlSinkOptions, OceanBaseSinkOptions, ServerSinkOptions
from connectors.mysql.sink.sink import MySqlSink
from connectors.shared.sql.text import quoted


def sink_options(server: MySqlServer, **more: Any) -> ServerSinkOptions:
    """Options for a server; `more` by the names of the pipeline file. A server that is gone is not waited for."""
    given = {
        "username": server.user, "password": server.password,
        "retry-timeout": "300 ms", "sink.lock-wait-timeout": "5 s",
    }  # fmt: skip
    if server.flavor == "oceanbase":
        url = f"jdbc:mysql://{server.host}:{server.port}/test"
        return OceanBaseSinkOptions.model_validate(given | {"type": "oceanbase", "url": url} | more)
    place = {"type": "mysql", "hostname": server.host, "port": server.port}
    return MySqlSinkOptions.model_validate(given | place | more)


@dataclass
class Harness:
    """One pipeline's sink and its tables; what the conformance suite asks for."""

    server: MySqlServer
    state: Path
    pipeline: str = "pipeline-1"
    options: dict[str, Any] = field(default_factory=dict)

    def sink(self, **more: Any) -> MySqlSink:
        """A new sink object on the same state, as after a restart."""
        options = sink_options(self.server, **(self.options | more))
        return MySqlSink(options, Context(self.pipeline, LocalStore(self.state)))

    def rows(self, table: TableId) -> list[Row] | None:
        """The rows, None when there is no such table."""
        connection = self.server.connect(init_command="SET time_zone = '+00:00'")
        try:
            with connection.cursor() as cursor:
                known = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
                cursor.execute(f"{known} ORDER BY ORDINAL_POSITION", (table.database, table.table))
                names = [str(name) for (name,) in cursor.fetchall()]
                if not names:
                    return None
                types = TYPES if table.table == "types" else {}
                as_text = self.server.flavor == "oceanbase"
                chosen = ", ".join(quoted(name) if as_text else _chosen(name, types.get(name)) for name in names)
                cursor.execute(f"SELECT {chosen} FROM {quoted(table.database, table.table)}")
                found = cursor.fetchall()
        finally:
            connection.close()
        return [{name: _plain(value, types.get(name)) for name, value in zip(names, row, strict=True)} for row in found]


def _chosen(name: str, kind: DataType | None) -> str:
    """The driver takes vectors for text."""
    return f"CAST({quoted(name)} AS BINARY)" if kind is not None and kind.kind is Kind.VECTOR else quoted(name)


def _plain(value: Any, kind: DataType | None) -> Any:
    """A value of the driver as Arrow gives it for a column of the source's type."""
    if value is None or kind is None:
        return value
    match kind.kind:
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.TIMESTAMP_LTZ:
            return value.replace(tzinfo=UTC)
        case Kind.VECTOR if isinstance(value, str):
            return [float(item) for item in value.strip("[]").split(",")]
        case Kind.VECTOR:
            return list(struct.unpack(f"<{len(value) // 4}f", value))
        case Kind.DECIMAL if (kind.length or 0) > 38:
            return str(value).rstrip("0").rstrip(".")
    return value

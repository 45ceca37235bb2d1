"""The Doris sink in tests: made for a server, and read back as the source's values."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from doris_servers import DorisServer
from sink_calls import TYPES, span

from cdc.schema import DataType, Kind, TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import Row
from connectors.doris.options import DorisSinkOptions
from connectors.doris.sink import DorisSink
from connectors.shared.sql.text import quoted

_VISIBLE_S = 300


def sink_options(server: DorisServer, **more: Any) -> DorisSinkOptions:
    """Options for a server; `more` by the names of the pipeline file. A server that is gone is not waited for."""
    return DorisSinkOptions.model_validate(given_options(server) | more)


def given_options(server: DorisServer) -> dict[str, Any]:
    """The same as a pipeline file has them."""
    return {
        "type": "doris", "username": server.user, "password": server.password,
        "fenodes": f"{server.host}:{server.http_port}", "jdbc-url": f"jdbc:mysql://{server.host}:{server.sql_port}",
        "table.create.properties.replication_num": "1", "retry-timeout": "300 ms",
    }  # fmt: skip


@dataclass
class Harness:
    """One pipeline's sink and its tables; what the conformance suite asks for."""

    server: DorisServer
    state: Path
    pipeline: str = "pipeline-1"
    options: dict[str, Any] = field(default_factory=dict)

    def sink(self, **more: Any) -> DorisSink:
        """A new sink object on the same state, as after a restart."""
        return DorisSink(
            sink_options(self.server, **self.options, **more), Context(self.pipeline, LocalStore(self.state))
        )

    def rows(self, table: TableId) -> list[Row] | None:
        """The rows once all that is committed is visible, None when there is no such table."""
        columns = (
            "SELECT COLUMN_NAME FROM information_schema.columns "
            f"WHERE TABLE_SCHEMA = '{table.database}' AND TABLE_NAME = '{table.table}' ORDER BY ORDINAL_POSITION"
        )
        names = [str(name) for (name,) in self.server.query(columns)]
        if not names:
            return None
        self.finished(table.database)
        chosen = ", ".join(quoted(name) for name in names)
        types = TYPES if table.table == "types" else {}
        found = self.server.query(f"SELECT {chosen} FROM {quoted(table.database, table.table)}")
        return [{name: _plain(value, types.get(name)) for name, value in zip(names, row, strict=True)} for row in found]

    def finished(self, database: str) -> None:
        """Wait until nothing of a database is committed and not visible: publishing is asynchronous."""
        deadline = time.monotonic() + _VISIBLE_S
        while any(state == "COMMITTED" for state in self._label_states(database)):
            assert time.monotonic() < deadline, "a committed transaction does not become visible"
            time.sleep(0.01)

    def _label_states(self, database: str) -> list[str]:
        """The states of all loads that pipelines on this state directory have noted."""
        notes = [json.loads(line) for file in self.state.glob("labels/*") for line in file.read_text().splitlines()]
        labels = {note["label"] for note in notes if note["database"] == database}
        return [self.server.state(database, label) for label in labels]

    def states(self) -> list[str]:
        """The states of all transactions of the stand-in."""
        return [str(item["state"]) for item in self.server.own.transactions()]


def _plain(value: Any, kind: DataType | None) -> Any:
    """A value of the SQL port as Arrow gives it for a column of the source's type."""
    if value is None:
        return None
    if kind is None:
        return value.decode() if isinstance(value, bytes) else value
    match kind.kind:
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.TIMESTAMP_LTZ:
            return value.replace(tzinfo=UTC)
        case Kind.FLOAT:
            return struct.unpack("f", struct.pack("f", value))[0]
        case Kind.BIGINT_UNSIGNED:
            return int(value)
    text = value.decode() if isinstance(value, bytes) else value
    match kind.kind:
        case Kind.BINARY | Kind.VARBINARY | Kind.BYTES:
            return bytes.fromhex(text)
        case Kind.GEOMETRY:
            head, _, point = text.rpartition("POINT")
            x, y = point.strip("()").split()
            return struct.pack("<IBIdd", int(head.removeprefix("SRID=").rstrip(";") or 0), 1, 1, float(x), float(y))
        case Kind.TIME:
            return span(text)
        case Kind.VECTOR:
            return [float(item) for item in text.strip("[]").split(",") if item]
    return text

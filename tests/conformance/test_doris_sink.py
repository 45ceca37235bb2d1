"""The behaviours of a sink, over Doris: the stand-in."""

import itertools
import struct
from collections.abc import Iterator
from datetime import UTC, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdc.errors import SinkError
from cdc.schema import DataType, Kind, TableId
from cdc.source import Context
from cdc.testing import SinkConformance
from cdc.testing.sink_conformance import VALUES, keyless, prepare, row
from cdc.testing.standins import StandIn, start_doris
from connectors.doris.options import DorisSinkOptions
from connectors.doris.sink import DorisSink

NUMBER = itertools.count()
TYPES = {f"c{index}": DataType.parse(text) for index, (text, _) in enumerate(VALUES)}


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with start_doris(tmp_path_factory.mktemp("doris")) as running:
        yield running


class DorisHarness:
    def __init__(self, standin: StandIn, folder: Path) -> None:
        self._standin = standin
        self._context = Context(f"pipeline-{next(NUMBER)}", folder / "state" / "sink")
        self._options = DorisSinkOptions.model_validate(
            {
                "type": "doris",
                "fenodes": standin.fe,
                "jdbc-url": f"jdbc:mysql://127.0.0.1:{standin.sql_port}",
                "username": "root",
                "table.create.properties.replication_num": "1",
            }
        )

    def sink(self) -> DorisSink:
        return DorisSink(self._options, self._context)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        known = f"SELECT 1 FROM information_schema.tables WHERE TABLE_SCHEMA = '{table.database}'"
        if not self._standin.query(f"{known} AND TABLE_NAME = '{table.table}'"):
            return None
        names = [str(line[0]) for line in self._standin.query(f"SHOW FULL COLUMNS FROM `shop`.`{table.table}`")]
        chosen = ", ".join(f"`{name}`" for name in names)
        found = self._standin.query(f"SELECT {chosen} FROM `shop`.`{table.table}`")
        types = TYPES if table.table == "types" else {}
        return [
            {name: plain(value, types.get(name)) for name, value in zip(names, line, strict=True)} for line in found
        ]


def plain(value: Any, kind: DataType | None) -> Any:
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
            srid = int(head.removeprefix("SRID=").removesuffix(";") or 0)
            return struct.pack("<IBIdd", srid, 1, 1, float(x), float(y))
        case Kind.TIME:
            hours, minutes, seconds = text.lstrip("-").split(":")
            span = timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds) * 10**6))
            return -span if text.startswith("-") else span
        case Kind.DECIMAL if (kind.length or 0) > 38:
            return text
        case Kind.VECTOR:
            return [float(item) for item in text.strip("[]").split(",") if item]
    return text


class TestDorisSink(SinkConformance):
    @pytest.fixture
    def harness(self, standin: StandIn, tmp_path: Path) -> DorisHarness:
        standin.query("DROP DATABASE IF EXISTS shop FORCE")
        return DorisHarness(standin, tmp_path)

    def test_a_delete_takes_one_of_equal_rows(self, harness: DorisHarness) -> None:
        """Doris cannot do that: it is an error that says so, and nothing is lost silently."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1))], create=True))
        with pytest.raises(SinkError, match="without a key"):
            prepare(sink, 1, [keyless("-D", row(1))])

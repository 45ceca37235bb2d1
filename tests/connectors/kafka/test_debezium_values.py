"""Values that a live Debezium was seen to write in its own way."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from together import together

from cdc.errors import SinkError
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.testing import block
from connectors.kafka.delivery.task import count_beyond_a_day
from connectors.kafka.encoding import debezium
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.layout import Naming
from connectors.kafka.modes import EncodingModes

TABLE = TableId("shop", "orders")


def messages(column: Column, *values: Any, modes: EncodingModes | None = None) -> list[Any]:
    schema = TableSchema((Column("id", DataType.parse("INT"), False), column), ("id",))
    rows = [("+I", {"id": number, column.name: value}) for number, value in enumerate(values)]
    layout = debezium.layout(TABLE, schema, Naming("x", "1"), modes or EncodingModes(), with_schema=True)
    encoder = Encoder(layout, tombstones=True, now_ms=lambda: 0)
    (found,) = encoder.encode(block(TABLE, schema, rows))
    return [json.loads(record["value"]) for record in found.records]


def of_column(message: Any) -> tuple[Any, Any]:
    """The column's schema and its value."""
    return message["schema"]["fields"][1]["fields"][1], message["payload"]["after"]["c"]


@together(
    "kind, time, epoch",
    [
        ("DATE", "adaptive_time_microseconds", 0), ("TIMESTAMP(0)", "adaptive_time_microseconds", 0),
        ("TIMESTAMP(6)", "adaptive_time_microseconds", 0), ("TIMESTAMP(6)", "connect", 0),
        ("TIMESTAMP_LTZ(0)", "adaptive_time_microseconds", "1970-01-01T00:00:00Z"),
    ],
)  # fmt: skip
def test_a_date_that_cannot_be_is_the_epoch_where_the_schema_has_no_null(kind: str, time: Any, epoch: Any) -> None:
    data_type, modes = DataType.parse(kind), EncodingModes(time=time)
    schema, value = of_column(messages(Column("c", data_type, False), None, modes=modes)[0])
    assert (schema["optional"], value) == (False, epoch)
    schema, value = of_column(messages(Column("c", data_type), None, modes=modes)[0])
    assert (schema["optional"], value) == (True, None)


def test_times_that_connects_time_does_not_take_are_null_and_counted() -> None:
    modes, times = EncodingModes(time="connect"), [timedelta(hours=-1), timedelta(hours=838), timedelta(hours=1)]
    column = Column("c", DataType.parse("TIME(0)"))
    assert [of_column(item)[1] for item in messages(column, *times, modes=modes)] == [None, None, 3_600_000]
    schema = TableSchema((column,), ())
    assert count_beyond_a_day(block(TABLE, schema, [("+I", {"c": each}) for each in [*times, None]])) == 2
    with pytest.raises(SinkError, match=r"column c: .* is not a time of day.*adaptive_time_microseconds"):
        messages(replace(column, nullable=False), *times, modes=modes)


def test_a_shape_is_optional_whatever_the_column_is() -> None:
    point = bytes(4) + bytes.fromhex("0101000000000000000000F03F000000000000F03F")
    (found,) = messages(Column("c", DataType.parse("GEOMETRY"), False, source_type="geometry"), point)
    assert of_column(found)[0]["optional"] is True


@together(
    "kind, default, time, wanted",
    [
        ("DATE", "2000-12-19", "connect", 11310),
        ("TIMESTAMP(3)", "2000-01-01 00:00:01.5", "adaptive_time_microseconds", 946_684_801_500),
        ("TIMESTAMP(6)", "2000-01-01 00:00:01.5", "adaptive_time_microseconds", 946_684_801_500_000),
        ("TIME(6)", "-01:00:00.5", "adaptive_time_microseconds", -3_600_500_000),
        ("TIME(0)", "01:00:00", "connect", 3_600_000), ("TIME(0)", "-01:00:00", "connect", None),
        ("TIME(0)", "24:00:00", "connect", None), ("DATE", "0000-00-00", "connect", None),
        ("TIMESTAMP(0)", "CURRENT_TIMESTAMP", "connect", None),
        ("BIGINT UNSIGNED", "18446744073709551615", "connect", -1),
    ],
)  # fmt: skip
def test_defaults_are_in_the_encoding_of_the_values(kind: str, default: str, time: Any, wanted: int | None) -> None:
    column = Column("c", DataType.parse(kind), default=default)
    assert of_column(messages(column, None, modes=EncodingModes(time=time))[0])[0].get("default") == wanted


def test_the_default_of_a_decimal_keeps_all_digits() -> None:
    default = "-12345678901234567890123456789012345.67890"
    column = Column("c", DataType.parse("DECIMAL(40, 5)"), default=default)
    (found,) = messages(column, None)
    bits = base64.b64decode(of_column(found)[0]["default"])
    assert int.from_bytes(bits, "big", signed=True) == int(default.replace(".", ""))
    (found,) = messages(column, None, modes=EncodingModes(decimal="string"))
    assert of_column(found)[0]["default"] == default

"""Types that the pipeline file declares, where the messages do not tell them."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kafka_log import Follower, TopicLog
from together import together

from cdc.errors import CorruptLog
from cdc.schema import CreateTable, DataType


def test_a_declared_type_that_values_do_not_show_does_not_hold_up_the_topic(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", b'{"id":1,"doc":"{}","flag":"true"}', b'{"id":2,"doc":{"a":1},"flag":false}')
    columns: Any = {"orders": {"doc": "JSON", "flag": "BOOLEAN"}}
    found = Follower(log, tmp_path, columns=columns, **{"value.format": "json"})
    (batch,) = found.follow()
    assert [item[1] for item in batch if isinstance(item, tuple)] == [
        {"id": 1, "doc": "{}", "flag": True},
        {"id": 2, "doc": '{"a":1}', "flag": False},
    ]


def test_a_declared_binary_takes_the_number_that_its_bits_are_and_no_bytes_take_a_number(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", b'{"id":1,"bits":129}', b'{"id":2,"bits":null}')
    given: dict[str, Any] = {"value.format": "json", "columns": {"orders": {"bits": "BINARY(2)"}}}
    (batch,) = Follower(log, tmp_path / "bits", **given).follow()
    assert [item[1]["bits"] for item in batch if isinstance(item, tuple)] == [b"\x00\x81", None]
    given["columns"] = {"orders": {"bits": "BYTES"}}
    with pytest.raises(CorruptLog, match="column bits: is a number, not bytes as base64"):
        Follower(log, tmp_path / "bytes", **given).follow()


def test_rows_taken_out_of_debeziums_envelope_are_read_as_its_options_say(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", b'{"id":1,"price":"BBo=","at":1795178096789012,"code":"00ff"}')
    given: dict[str, Any] = {
        "value.format": "json", "debezium.binary.handling.mode": "hex",
        "columns": {"orders": {"price": "DECIMAL(10, 2)", "at": "TIMESTAMP(6)", "code": "BYTES"}},
    }  # fmt: skip
    (batch,) = Follower(log, tmp_path, **given).follow()
    (row,) = [item[1] for item in batch if isinstance(item, tuple)]
    at = datetime(2026, 11, 20, 12, 34, 56, 789012)
    assert row == {"id": 1, "price": Decimal("10.50"), "at": at, "code": b"\x00\xff"}


def _connect(kind: str, name: str = "", **parameters: str) -> dict[str, Any]:
    return {"type": kind, "optional": True, **({"name": name} if name else {}), "parameters": parameters}


_DECIMAL = _connect("bytes", "org.apache.kafka.connect.data.Decimal", scale="2")
_DAY = _connect("int32", "io.debezium.time.Date")
_MILLIS = _connect("int64", "io.debezium.time.Timestamp")
BECOMES: dict[str, tuple[Any, Any, str, Any]] = {
    "a decimal, a text": (_DECIMAL, "BBo=", "STRING", "10.50"),
    "a decimal, a double": (_DECIMAL, "BBo=", "DOUBLE", 10.5),
    "a decimal, another one": (_DECIMAL, "BBo=", "DECIMAL(20, 4)", Decimal("10.5000")),
    "a decimal, a whole number": (_connect("bytes", _DECIMAL["name"], scale="0"), "ASw=", "BIGINT", 300),
    "a day, a text": (_DAY, 20000, "STRING", "2024-10-04"),
    "a day, a moment": (_DAY, 20000, "TIMESTAMP(3)", datetime(2024, 10, 4)),
    "a moment, a day": (_MILLIS, 1728000000000, "DATE", date(2024, 10, 4)),
    "a count of days without a name, a day": (_connect("int32"), 20000, "DATE", date(2024, 10, 4)),
    "bytes, the text that they are": (_connect("bytes"), "w7w=", "STRING", "ü"),
    "bytes, fewer than declared": (_connect("bytes"), "AQ==", "BINARY(2)", b"\x01\x00"),
    "a text, a number": (_connect("string"), "12", "INT", 12),
    "a number, a text": (_connect("int32"), 12, "STRING", "12"),
    "a number of 64 bits that went below zero": (_connect("int64"), -1, "BIGINT UNSIGNED", 2**64 - 1),
    "a moment with its zone, as it is written": (
        _connect("string", "io.debezium.time.ZonedTimestamp"), "2026-01-01T00:00:00Z", "STRING", "2026-01-01T00:00:00Z",
    ),
}  # fmt: skip


@together("case", BECOMES)
def test_a_schema_says_how_a_value_is_written_and_columns_what_it_becomes(tmp_path: Path, case: str) -> None:
    described, written, declared, value = BECOMES[case]
    log = TopicLog(t=1)
    fields = [{"field": "id", "type": "int32"}, {"field": "v", **described}]
    rows = [{"id": 1, "v": written}, {"id": 2, "v": None}]
    schema = {"type": "struct", "fields": fields}
    log.write("t", *(json.dumps({"schema": schema, "payload": row}).encode() for row in rows))
    follower = Follower(log, tmp_path, columns={"t": {"v": declared}}, **{"value.format": "json"})
    found = [item for batch in follower.follow() for item in batch]
    assert [item[1]["v"] for item in found if isinstance(item, tuple)] == [value, None]
    (created,) = [item for item in found if isinstance(item, CreateTable)]
    assert created.schema.column("v").type == DataType.parse(declared)


@together(
    "described, written, declared",
    [
        (_DECIMAL, "BBo=", "BIGINT"),
        (_DECIMAL, "BBo=", "DATE"),
        (_MILLIS, 1, "DATE"),
        (_connect("bytes"), "/w==", "STRING"),
    ],
)
def test_a_value_that_cannot_become_what_is_declared_is_refused(
    tmp_path: Path, described: Any, written: Any, declared: str
) -> None:
    log = TopicLog(t=1)
    fields = [{"field": "id", "type": "int32"}, {"field": "v", **described}]
    message = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, "v": written}}
    log.write("t", json.dumps(message).encode())
    with pytest.raises(CorruptLog, match="t-0@0: a message cannot be read: column v: "):
        Follower(log, tmp_path, columns={"t": {"v": declared}}, **{"value.format": "json"}).follow()


UNFIT: dict[str, tuple[Any, Any]] = {
    "TIMESTAMP(0)": ("2024-01-01 10:00:00.5", "2024-01-01 10:00:00.000"),
    "TIMESTAMP(3)": ("2024-01-01 10:00:00.123456", "2024-01-01 10:00:00.123"),
    "TIMESTAMP_LTZ(0)": ("2024-01-01T10:00:00.5Z", "2024-01-01T10:00:00Z"),
    "TIME(3)": ("-10:00:00.000001", "-10:00:00.001"),
    "DATE": ("2024-01-01 10:00:00", "2024-01-01 00:00:00"),
    "DECIMAL(5, 2)": ("1.235", "999.99"),
    "DECIMAL(40, 2)": ("1.235", "1.5"),
    "DECIMAL(41, 2)": ("9" * 40, "9" * 39),
    "CHAR(3)": ("abcd", "äöü"),
    "VARCHAR(3)": ("äöüß", "abc"),
    "BINARY(2)": ("AQID", "AQI="),
    "VARBINARY(1)": ("AQI=", "AQ=="),
    "TINYINT": (128, 127),
    "FLOAT": ("1e39", "-Infinity"),
    "DOUBLE": ("1e400", "1e308"),
}
"""By declared type: a value that it does not hold, and one that it does."""


@together("declared", UNFIT)
def test_a_value_that_its_type_would_cut_or_round_is_unreadable(tmp_path: Path, declared: str) -> None:
    """Sinks would do either, each in its own way."""
    log = TopicLog(t=1)
    for id_, value in enumerate(UNFIT[declared]):
        log.write("t", json.dumps({"id": id_, "v": value}).encode())
    given: dict[str, Any] = {"columns": {"t": {"v": declared}}, "value.format": "json", "unreadable-messages": "skip"}
    found = Follower(log, tmp_path, **given)
    assert [item[1]["id"] for batch in found.follow() for item in batch if isinstance(item, tuple)] == [1]
    assert found.counts == {"unreadable-message t": 1}


def test_a_time_without_digits_in_its_type_has_those_that_are_written(tmp_path: Path) -> None:
    log = TopicLog(t=1)
    log.write("t", b'{"id":1,"v":"2024-01-01 10:00:00.123456"}')
    columns = {"t": {"v": "TIMESTAMP"}}
    (batch,) = Follower(log, tmp_path, columns=columns, **{"value.format": "json"}).follow()
    found = [item[1]["v"] for item in batch if isinstance(item, tuple)]
    assert found == [datetime(2024, 1, 1, 10, 0, 0, 123456)]


def test_decimals_of_more_than_38_digits_have_all_digits_of_their_scale(tmp_path: Path) -> None:
    log = TopicLog(t=1)
    log.write("t", b'{"id":1,"v":"1.5"}', b'{"id":2,"v":2e1}', b'{"id":3,"v":null}')
    columns = {"t": {"v": "DECIMAL(40, 2)"}}
    (batch,) = Follower(log, tmp_path, columns=columns, **{"value.format": "json"}).follow()
    assert [item[1]["v"] for item in batch if isinstance(item, tuple)] == ["1.50", "20.00", None]


def test_a_double_that_becomes_a_decimal_is_passed_by_what_is_declared(tmp_path: Path) -> None:
    """`ALTER TABLE t MODIFY w DECIMAL(10,2)` in Debezium's messages: the table keeps its DOUBLE."""
    log = TopicLog(t=1)
    for number, (described, written) in enumerate(((_connect("double"), 10.5), (_DECIMAL, "BBo="))):
        fields = [{"field": "id", "type": "int32"}, {"field": "w", **described}]
        row = {"id": number, "w": written}
        log.write("t", json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": row}).encode())
    follower = Follower(log, tmp_path, columns={"t": {"w": "DOUBLE"}}, **{"value.format": "json"})
    found = [item for batch in follower.follow() for item in batch]
    assert [item if isinstance(item, tuple) else type(item).__name__ for item in found] == [
        "CreateTable", ("+I", {"id": 0, "w": 10.5}), ("+I", {"id": 1, "w": 10.5}),
    ]  # fmt: skip


def test_labels_of_canals_numbers_are_not_lost(tmp_path: Path) -> None:
    log = TopicLog(t=1)
    message = {
        "type": "INSERT", "database": "s", "table": "t", "data": [{"id": "1", "e": "2"}], "old": None, "es": 1,
        "mysqlType": {"id": "int", "e": "enum('a','b')"}, "pkNames": ["id"], "isDdl": False, "sql": "",
    }  # fmt: skip
    log.write("t", json.dumps(message).encode())
    (batch,) = Follower(log, tmp_path, columns={"s.t": {"e": "VARCHAR(10)"}}, **{"value.format": "canal-json"}).follow()
    assert [item[1]["e"] for item in batch if isinstance(item, tuple)] == ["b"]

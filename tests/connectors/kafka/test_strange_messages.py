"""Messages that are not as their tool writes them, or that hold what cannot be kept: none is a wrong row in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debezium_messages import INT64, envelope, text, with_schema
from kafka_log import Follower, TopicLog
from read_messages import messages
from together import together

from cdc.errors import CdcError, CorruptLog, SchemaUnknown, UnsupportedChange
from connectors.kafka.formats import connect
from connectors.kafka.formats.debezium import DebeziumFormat
from connectors.kafka.formats.wrapped import Unwrapper

PLAIN = {"value.format": "json"}
KEY = {"id": 1}


def canal(kind: str = "INSERT", data: Any = None, old: Any = None, **more: Any) -> dict[str, Any]:
    described = {"mysqlType": {"id": "int", "v": "varchar(10)"}, "pkNames": ["id"], "isDdl": False, "sql": ""}
    return {"type": kind, "database": "s", "table": "t", "data": data, "old": old, "es": 1, **described, **more}


def followed(folder: Path, *records: tuple[Any, Any], **options: Any) -> tuple[list[Any], dict[str, int]]:
    """The changes of rows that the messages tell, and what was counted."""
    log = TopicLog(topic=1)
    for record in records:
        log.write_keyed("topic", tuple(  # type: ignore[arg-type]
            item if item is None or isinstance(item, bytes) else json.dumps(item).encode() for item in record
        ))  # fmt: skip
    found = Follower(log, folder, **options)
    return [item for batch in found.follow() for item in batch if isinstance(item, tuple)], found.counts


REFUSED: dict[str, tuple[type[CdcError], str, tuple[tuple[Any, Any], ...], dict[str, Any]]] = {
    "rows of Canal that are none": (CorruptLog, "neither rows", ((None, canal(data=None)),), {}),
    "a list of Canal that is an object": (CorruptLog, "neither rows", ((None, canal(data={"id": "1"})),), {}),
    "a type that Canal does not write": (CorruptLog, "neither rows", ((None, canal("insert", [{"id": "1"}])),), {}),
    "rows that Canal tells as a statement": (
        CorruptLog, "neither rows", ((None, canal("QUERY", sql="insert into t values (1)")),), {},
    ),
    "a row before that is none": (
        CorruptLog, "of `old`", ((None, canal("UPDATE", [{"id": "1", "v": "b"}], [None])),), {},
    ),
    "a member without a type": (
        CorruptLog, "its description does not have", ((None, canal(data=[{"id": "1", "v": "a", "w": "b"}])),), {},
    ),
    "a key that is NULL": (CorruptLog, "each key column", ((None, canal(data=[{"id": None, "v": "a"}])),), {}),
    "a declared key that is missing": (
        CorruptLog, "each key column", ((None, {"id": 1}), (None, {"v": 1})),
        {**PLAIN, "primary-keys": {"topic": ["id"]}},
    ),
    "a number beyond a double": (CorruptLog, "beyond a double", ((KEY, b'{"id":1,"v":1e400}'),), PLAIN),
    "a whole number beyond a double": (
        CorruptLog, "beyond a double", ((KEY, b'{"id":1,"v":%s}' % (b"9" * 5000)),),
        {**PLAIN, "columns": {"topic": {"v": "DOUBLE"}}},
    ),
    **{
        f"a large decimal that is {value}": (
            CorruptLog, f"'{value}' is not a decimal", ((KEY, {"id": 1, "v": value}),),
            {**PLAIN, "columns": {"topic": {"v": "DECIMAL(50,2)"}}},
        )
        for value in ("hello", "xyz", "1e99999")
    },
    "keys of two kinds": (
        SchemaUnknown, r"\(k\), the table's are \(id\)",
        ((KEY, {"id": 1, "k": 1}), ({"k": 2}, {"id": 1, "k": 2})), PLAIN,
    ),
    "an empty value": (CorruptLog, "no JSON object", ((KEY, b""),), PLAIN),
}  # fmt: skip


@together("case", REFUSED)
def test_what_cannot_be_rows_is_refused(tmp_path: Path, case: str) -> None:
    error, words, records, options = REFUSED[case]
    with pytest.raises(error, match=words):
        followed(tmp_path, *records, **options)


def test_a_vector_with_something_else_in_it_is_left_out_and_no_other(tmp_path: Path) -> None:
    """The third number of all is that of the second row."""
    records = [({"id": at}, {"id": at, "v": value}) for at, value in enumerate(["[5, 6]", "[1, x]", "[3, 4]"])]
    options = {**PLAIN, "columns": {"topic": {"v": "VECTOR(2)"}}, "unreadable-messages": "skip"}
    rows, counts = followed(tmp_path, *records, **options)
    assert [row["v"] for _, row in rows] == [[5.0, 6.0], [3.0, 4.0]]
    assert counts == {"unreadable-message topic": 1}


def test_a_first_row_without_its_key_before_a_statement_is_named_or_left_out(tmp_path: Path) -> None:
    """After the statement there are rows with the key; the table before it has only this one."""

    def row(**data: int) -> dict[str, Any]:
        return {"database": "s", "table": "t", "type": "insert", "ts": 1, "primary_key_columns": ["id"], "data": data}

    columns = [{"type": "int", "name": name, "signed": True} for name in ("id", "v")]
    old = {"database": "s", "charset": "utf8mb4", "table": "t", "columns": columns, "primary-key": ["id"]}
    renamed = {"type": "table-alter", "database": "s", "table": "t", "old": old, "def": {**old, "table": "t2"}}
    records = [(None, row(v=1)), (None, {**renamed, "ts": 1, "sql": "rename table t to t2"}), (None, row(id=2, v=2))]
    options = {"value.format": "maxwell-json"}
    with pytest.raises(SchemaUnknown, match=r"topic-0@0: s.t: the key column id is not among the columns"):
        followed(tmp_path / "fail", *records, **options)
    rows, counts = followed(tmp_path / "skip", *records, **options, **{"unreadable-messages": "skip"})
    assert ([row["id"] for _, row in rows], counts) == ([2], {"unreadable-message topic": 1})


STORED: dict[str, Callable[[str], float]] = {"DOUBLE": float, "FLOAT": lambda value: float(np.float32(value))}
DIGITS = {
    "DOUBLE": (["9007199254740993", "0.1234567890123456789", "9007199254740992", "0.12345678901234568", "1e300"], 2),
    "FLOAT": (["16777217", "-123456789", "0.1234567891", "16777216", "0.123456789", "1.100000023841858", "3e38"], 3),
}


@pytest.mark.parametrize("kind", DIGITS)
def test_digits_that_a_number_does_not_hold_are_counted(tmp_path: Path, kind: str) -> None:
    values, lost = DIGITS[kind]
    for name, quote in (("numbers", ""), ("text", '"')):
        records = [({"id": at}, f'{{"id":{at},"v":{quote}{value}{quote}}}'.encode()) for at, value in enumerate(values)]
        rows, counts = followed(tmp_path / name, *records, **PLAIN, columns={"topic": {"v": kind}})
        assert [row["v"] for _, row in rows] == list(map(STORED[kind], values))
        assert counts == {f"digits-beyond-a-{kind.lower()} topic.v": lost}


def test_digits_behind_the_sixth_of_times_are_counted(tmp_path: Path) -> None:
    values = [
        ("2026-11-20T12:34:56.123456789", "12:34:56.1234567"),
        ("2026-11-20T12:34:56.123456000", "12:34:56.123456"),
    ]
    records = [({"id": at}, {"id": at, "a": moment, "b": time}) for at, (moment, time) in enumerate(values)]
    options = {**PLAIN, "columns": {"topic": {"a": "TIMESTAMP(9)", "b": "TIME(9)"}}}
    rows, counts = followed(tmp_path, *records, **options)
    assert {row["a"].microsecond for _, row in rows} == {123456}
    assert counts == {"digits-beyond-microseconds topic.a": 1, "digits-beyond-microseconds topic.b": 1}


@pytest.mark.parametrize("deleted", ["true", True])
def test_rows_out_of_envelopes_say_that_they_are_deleted(tmp_path: Path, deleted: Any) -> None:
    there = {"id": 1, "v": "a", "__deleted": "false" if deleted == "true" else False}
    rows, _ = followed(tmp_path, (KEY, there), (KEY, {**there, "__deleted": deleted}), **PLAIN)
    assert [(kind, row["id"]) for kind, row in rows] == [("+U", 1), ("-D", 1)]


@together("source", [{"db": "s"}, {"db": "s", "schema": "", "table": ""}])
def test_a_logical_message_has_no_table(tmp_path: Path, source: Any) -> None:
    note = {"op": "m", "ts_ms": 1, "source": source, "message": {"prefix": "p", "content": "YQ=="}}
    rows, counts = followed(tmp_path, (None, note), (KEY, envelope("c", None, KEY)))
    assert (rows, counts) == ([("+I", {"id": 1})], {"logical-messages-left-out topic": 1})


@together("snapshot", ["first", "first_in_data_collection", "last", "incremental", True])
def test_rows_of_every_snapshot_are_inserts(tmp_path: Path, snapshot: Any) -> None:
    message = envelope("r", None, KEY)
    message["source"]["snapshot"] = snapshot
    assert followed(tmp_path, (KEY, message))[0] == [("+I", {"id": 1})]


ISO = {"d": ("DATE", "2026-06-27Z", "2026-06-27"), "t": ("TIME(3)", "01:02:03.5Z", "1:02:03.500000"),
       "i": ("TIMESTAMP_LTZ(3)", "2026-06-27T01:02:03Z", "2026-06-27 01:02:03+00:00")}  # fmt: skip


def test_moments_that_say_of_which_clock_they_are(tmp_path: Path) -> None:
    """What has a zone is not moved to the clock of what has none."""
    row = {"id": 1, **{name: written for name, (_, written, _) in ISO.items()}, "o": "2026-06-27 01:02:03"}
    types = {**{name: kind for name, (kind, _, _) in ISO.items()}, "o": "TIMESTAMP_LTZ(3)"}
    options = {**PLAIN, "time-zone": "Asia/Tokyo", "columns": {"topic": types}}
    ((_, found),), _ = followed(tmp_path, (KEY, row), **options)
    assert {name: str(found[name]) for name in ISO} == {name: read for name, (_, _, read) in ISO.items()}
    assert str(found["o"]) == "2026-06-26 16:02:03+00:00"
    skipped = {**row, "o": "2026-03-29 02:30:00", "i": "2026-03-29T02:30:00Z"}
    with pytest.raises(CdcError, match="is in an hour that the clocks of Europe/Berlin skip"):
        followed(tmp_path / "skipped", (KEY, skipped), **{**options, "time-zone": "Europe/Berlin"})


def test_heartbeats_tell_no_format_and_are_passed_over(tmp_path: Path) -> None:
    """As Debezium writes them to a topic of its own, or among rows where one topic has everything."""
    log = TopicLog(beats=1, rows=1)
    log.write("beats", b'{"ts_ms":1}', b'{"ts_ms":2}')
    log.write("rows", b'{"ts_ms":3}', b'{"ts_ms":4}', text(envelope("c", None, {"id": 1})), b'{"ts_ms":5}')
    found = Follower(log, tmp_path)
    rows = [item[1] for batch in found.follow() for item in batch if isinstance(item, tuple)]
    assert (rows, found.counts, found.notices) == ([{"id": 1}], {}, ())
    log.write("beats", b'{"ts_ms":6,"id":1}')
    with pytest.raises(UnsupportedChange, match="the format of this message is not known"):
        found.follow()


def test_each_schema_that_stands_behind_its_payload_is_its_own() -> None:
    def wrapped(name: str) -> bytes:
        fields = [{"field": name, "type": "int64", "optional": False}]
        return text({"payload": {name: 1}, "schema": {"type": "struct", "fields": fields, "optional": False}})

    opener = Unwrapper(connect.fields_of)
    _, found = opener.unwrap(messages([wrapped("a"), wrapped("b"), wrapped("a")]))
    columns = [[field.name for field in opener.shapes[shape].fields or ()] for shape in found.shapes.tolist()]
    assert columns == [["a"], ["b"], ["a"]]


def test_more_beside_schema_and_payload_is_refused_whatever_was_read_before() -> None:
    """Connect's own converter refuses it, too."""
    plain = with_schema({"id": INT64}, envelope("c", None, {"id": 1}))
    more = plain[:-1] + b',"PAYLOAD":1}'
    written = DebeziumFormat()
    assert [list(written.read(messages(values)).unreadable) for values in ([more], [plain, more], [more])] == [
        [0],
        [1],
        [0],
    ]

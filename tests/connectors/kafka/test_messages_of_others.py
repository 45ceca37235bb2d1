"""Messages as other settings and other programs write them: none is a wrong value in silence, or a hint that leads
nowhere."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from debezium_messages import INT64, TEXT, envelope, key_with_schema, struct, with_schema
from kafka_log import Follower, TopicLog
from together import together

from cdc.errors import CdcError, CorruptLog, SchemaUnknown, UnsupportedChange
from cdc.schema import CreateTable
from cdc.source import Limits
from cdc.testing.blocks import images
from cdc.transform.rules import Rules
from cdc.transform.runner import RuleRunner
from cdc.transform.sqltext import SqlText
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts

UNAVAILABLE = "__debezium_unavailable_value"
PLAIN = {"value.format": "json"}
ROW_IMAGES = ("before", "after")
SKIP = {"unreadable-messages": "skip"}


def followed(folder: Path, *records: tuple[Any, Any], **options: Any) -> Follower:
    log = TopicLog(topic=1)
    for record in records:
        key, value = (item if item is None or isinstance(item, bytes) else json.dumps(item).encode() for item in record)
        log.write_keyed("topic", (key, value))
    return Follower(log, folder, **options)


def rows(found: Follower) -> list[Any]:
    return [item for batch in found.follow() for item in batch if isinstance(item, tuple)]


def postgres(after: dict[str, Any], database: str = "d") -> dict[str, Any]:
    message = envelope("u", None, after)
    message["source"].update(connector="postgresql", schema="public", db=database)
    return message


PLACEHOLDERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a text": (postgres({"id": 1, "v": UNAVAILABLE}), {}),
    "a text with a schema": (with_schema({"id": INT64, "v": TEXT}, postgres({"id": 1, "v": UNAVAILABLE})), {}),
    "a list": (postgres({"id": 1, "v": [UNAVAILABLE]}), {"columns": {"public.orders": {"v": "JSON"}}}),
    "bytes": (
        with_schema(
            {"id": INT64, "v": {"type": "bytes"}},
            postgres({"id": 1, "v": base64.b64encode(UNAVAILABLE.encode()).decode()}),
        ),
        {},
    ),
    "a row out of its envelope": ({"id": 1, "v": UNAVAILABLE}, PLAIN),
}


@together("case", PLACEHOLDERS)
def test_a_value_that_debezium_did_not_have_is_not_written(tmp_path: Path, case: str) -> None:
    value, options = PLACEHOLDERS[case]
    with pytest.raises(CorruptLog, match=r"column v: is Debezium's placeholder .*REPLICA IDENTITY FULL"):
        rows(followed(tmp_path / "fail", ({"id": 1}, value), **options))
    skipping = followed(tmp_path / "skip", ({"id": 1}, value), **options, **SKIP)
    assert rows(skipping) == []
    assert skipping.counts == {"unreadable-message topic": 1}


def test_an_old_row_without_its_key_names_the_replica_identity_that_has_it(tmp_path: Path) -> None:
    """PostgreSQL sends the columns of the index alone with REPLICA IDENTITY USING INDEX."""
    message = postgres({"id": 1, "v": "b"}) | {"before": {"id": None, "v": "a"}}
    with pytest.raises(CorruptLog, match=r"a value for each key column .*REPLICA IDENTITY FULL, not USING INDEX"):
        rows(followed(tmp_path, ({"id": 1}, message)))


def test_tables_of_two_keyspaces_are_two(tmp_path: Path) -> None:
    """Vitess writes no name of a database."""
    messages = [envelope("c", None, {"id": number}) for number in range(2)]
    for message, keyspace in zip(messages, ("commerce", "other"), strict=True):
        message["source"].update(connector="vitess", db="", keyspace=keyspace)
    found = followed(tmp_path, *(({"id": number}, message) for number, message in enumerate(messages)))
    made = [item for batch in found.follow() for item in batch if isinstance(item, CreateTable)]
    assert {str(change.table) for change in made} == {"commerce.orders", "other.orders"}


CHANGES_ALONE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"value_capture_type": "NEW_VALUES"}, {"id": 1, "v": None}, "an update of Spanner with the columns that changed"),
    ({}, {"id": {"value": 1, "set": True}, "v": None}, "its values are {value, set}, as YugabyteDB and Cassandra"),
]


@pytest.mark.parametrize(("source", "row", "said"), CHANGES_ALONE, ids=["Spanner", "YugabyteDB"])
def test_columns_that_a_change_leaves_alone_are_not_read_as_null(
    tmp_path: Path, source: dict[str, Any], row: dict[str, Any], said: str
) -> None:
    message = postgres(row)
    message["source"].update(source)
    with pytest.raises(CorruptLog, match=said):
        rows(followed(tmp_path, ({"id": 1}, message)))


def test_documents_are_refused_with_the_way_to_read_them(tmp_path: Path) -> None:
    message = envelope("c", None, {})
    del message["source"]["table"]
    message["source"].update(connector="mongodb", collection="orders")
    with pytest.raises(CorruptLog, match="a document of MongoDB has no columns"):
        rows(followed(tmp_path / "raw", ({"id": "5"}, {**message, "after": '{"_id":5}'})))
    records = [({"id": "5"}, {"_id": "5", "a": 1}), ({"id": "5"}, {"_id": "5", "__deleted": True})]
    found = rows(followed(tmp_path / "rows", *records, **PLAIN, **{"primary-keys": {"topic": ["_id"]}}))
    assert [kind for kind, _ in found] == ["+U", "-D"]


def test_tables_of_two_databases_do_not_become_one(tmp_path: Path) -> None:
    """They have the same schema and name; the table of a message of PostgreSQL is named by these."""
    found = followed(tmp_path, ({"id": 1}, postgres({"id": 1}, "one")), ({"id": 1}, postgres({"id": 1}, "two")))
    with pytest.raises(UnsupportedChange, match="a table of the databases one and two"):
        rows(found)


def test_bytes_in_base64_for_urls(tmp_path: Path) -> None:
    options = {"columns": {"shop.orders": {"v": "BYTES"}}, "debezium.binary.handling.mode": "base64-url-safe"}
    found = followed(tmp_path, ({"id": 1}, envelope("c", None, {"id": 1, "v": "_-8="})), **options)
    assert rows(found) == [("+I", {"id": 1, "v": b"\xff\xef"})]


def test_rows_with_a_schema_and_without_an_envelope_are_no_envelopes(tmp_path: Path) -> None:
    """The hint names the format, not the option that would leave all of them out."""
    schema = {"type": "struct", "fields": struct({"id": INT64})}
    value = {"schema": schema, "payload": {"id": 1}}
    with pytest.raises(UnsupportedChange, match="not known") as caught:
        rows(followed(tmp_path / "auto", ({"id": 1}, value)))
    assert "value.format (json for rows as they are)" in caught.value.hint
    with pytest.raises(CorruptLog, match=r"has no `op` \(rows without an envelope are value\.format: json\)"):
        rows(followed(tmp_path / "told", ({"id": 1}, value), **{"value.format": "debezium-json"}))
    assert rows(followed(tmp_path / "plain", ({"id": 1}, value), **PLAIN)) == [("+U", {"id": 1})]


@pytest.mark.parametrize("key", [b"7", b"Struct{id=7}", b"[7]"])
def test_keys_that_name_no_columns_are_told_once(tmp_path: Path, key: bytes) -> None:
    found = followed(tmp_path / "untold", (key, {"id": 7}), (key, {"id": 7}), **PLAIN)
    assert rows(found) == [("+I", {"id": 7})] * 2
    assert [notice.partition(": ")[0] for notice in found.notices] == ["topic"]
    assert "say which columns are the key (primary-keys: {topic: [id]})" in found.notices[0]
    declared = {"primary-keys": {"topic": ["id"]}}
    for records, more, kind in (((key, {"id": 7}), declared, "+U"), ((None, {"id": 7}), {}, "+I")):
        quiet = followed(tmp_path / kind, records, **PLAIN, **more)
        assert (rows(quiet), quiet.notices) == ([(kind, {"id": 7})], ())


TOMBSTONES = {"null": b"null", "with a schema": with_schema({"id": INT64}, None), "nothing": None}


@pytest.mark.parametrize("case", TOMBSTONES)
def test_a_tombstone_of_rows_out_of_their_envelopes(tmp_path: Path, case: str) -> None:
    """Connect's JsonConverter writes a null where the record has a schema, as ExtractNewRecordState leaves it."""
    found = followed(tmp_path, ({"id": 1}, {"id": 1}), ({"id": 1}, TOMBSTONES[case]), ({"id": 2}, {"id": 2}), **PLAIN)
    assert rows(found) == [("+U", {"id": 1}), ("-D", {"id": 1}), ("+U", {"id": 2})]


def test_keys_of_tables_that_a_router_put_into_one_topic(tmp_path: Path) -> None:
    """ByLogicalTableRouter adds the name of the table to the key, not to the row."""
    routed = "__dbz__physicalTableIdentifier"
    key = key_with_schema({"id": INT64, routed: TEXT}, {"id": 1, routed: "srv.shop.orders"})
    added = with_schema({"id": INT64, "v": TEXT}, envelope("c", None, {"id": 1, "v": "a"}), ("id",))
    removed = with_schema({"id": INT64, "v": TEXT}, envelope("d", None, None), ("id",))
    found = followed(tmp_path, (key, added), (key, removed), (key, added), (key, None))
    assert rows(found) == [("+I", {"id": 1, "v": "a"}), ("-D", {"id": 1, "v": None})] * 2


def test_rows_out_of_their_envelopes_with_keys_of_a_router(tmp_path: Path) -> None:
    key = {"id": 1, "__dbz__physicalTableIdentifier": "srv.shop.orders"}
    found = followed(tmp_path, (key, {"id": 1, "v": "a"}), (key, None), **PLAIN)
    assert rows(found) == [("+U", {"id": 1, "v": "a"}), ("-D", {"id": 1, "v": None})]


def flinks(op: str, *, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"db": "s", "table": "t"}}


FLINK_ROW = {"id": 1, "v": "a"}


@together("name", ["s.t", "t"])
def test_keys_of_flink_cdcs_sink_name_the_table(tmp_path: Path, name: str) -> None:
    """It names a routed table alone where its route gives no database."""
    added, removed = flinks("c", after=FLINK_ROW), flinks("d", before=FLINK_ROW)
    lone = flinks("d")
    key = {"TableId": name, "id": 1}
    found = followed(tmp_path, *((key, message) for message in (added, removed, added, lone)))
    assert rows(found) == [("+I", FLINK_ROW), ("-D", FLINK_ROW), ("+I", FLINK_ROW), ("-D", {"id": 1, "v": None})]


def test_a_key_of_flink_cdcs_sink_without_columns_is_none(tmp_path: Path) -> None:
    value, more = flinks("c", after=FLINK_ROW), {"primary-keys": {"s.t": ["id"]}}
    for folder, options, key in (("none", {}, ()), ("given", more, ("id",))):
        found = followed(tmp_path / folder, ({"TableId": "s.t"}, value), **options)
        created, row = [item for batch in found.follow() for item in batch]
        assert (created.schema.primary_key, row) == (key, ("+I", FLINK_ROW))


def test_a_column_that_is_named_as_flink_cdc_names_the_table(tmp_path: Path) -> None:
    row = {"TableId": "other", "v": "a"}
    assert rows(followed(tmp_path, ({"TableId": "other"}, envelope("c", None, row)))) == [("+I", row)]


def test_bytes_of_flink_cdcs_sink_are_not_the_bits_that_its_schema_says(tmp_path: Path) -> None:
    """`debezium-json.include-schema.enabled`: Bits whose length is the number of bytes, and bytes in their order."""
    fields = [{"type": "int32", "optional": False, "field": "id"}] + [
        {"type": "bytes", "optional": True, "field": name, "name": "io.debezium.data.Bits", "version": 1,
         "parameters": {"length": str(length)}}
        for name, length in (("b", 3), ("v", 10), ("w", 2147483647))
    ]  # fmt: skip
    schema = {
        "type": "struct", "optional": False,
        "fields": [{"type": "struct", "fields": fields, "optional": True, "field": name} for name in ROW_IMAGES],
    }  # fmt: skip
    value = {"schema": schema, "payload": flinks("c", after={"id": 1, "b": "AQI=", "v": "AwQ=", "w": "BQYH"})}
    found = followed(tmp_path, ({"TableId": "s.t", "id": 1}, value))
    created, row = [item for batch in found.follow() for item in batch]
    assert [str(column.type) for column in created.schema.columns] == ["INT", "VARBINARY(3)", "VARBINARY(10)", "BYTES"]
    assert row == ("+I", {"id": 1, "b": b"\1\2", "v": b"\3\4", "w": b"\5\6\7"})


def test_a_delete_by_its_key_gets_past_a_filter(tmp_path: Path) -> None:
    changed = envelope("u", None, {"id": 1, "v": "a"})
    found = followed(tmp_path, ({"id": 1}, changed), ({"id": 1}, envelope("d", None, None)))
    end = found.source.latest_offset(found.at, Limits(1000, 1 << 20), 0.01)
    list(found.source.events(found.at, end))
    (split,) = found.source.splits(found.at, end, 1)
    blocks = list(found.source.read(split, lambda reason, number: None, lambda report: None))
    texts = RuleTexts(filter=SqlText("v = 'b'", "rule.yaml", "filter"))
    with RuleRunner(Rules([RuleSource("transform[0]", r"\.*.\.*", texts)], RuleSettings())) as runner:
        made = images([runner.apply(block, datetime.now(UTC)) for block in blocks])
    assert made == [("-D", {"id": 1, "v": "a"}), ("-D", {"id": 1, "v": None})]


def maxwell(kind: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"database": "s", "table": "t", "type": kind, "ts": 1, "data": data, **more}


NO_ROWS: dict[str, bytes] = {
    "Debezium's": json.dumps(envelope("c", None, {"id": 1, "v": float("nan")})).encode(),
    "Maxwell's": json.dumps(maxwell("insert", {"id": 1, "v": float("nan")}, primary_key_columns=["id"])).encode(),
    "of two columns that differ in case": json.dumps(envelope("c", None, {"id": 1, "V": 1, "v": 2})).encode(),
}


@pytest.mark.parametrize("case", NO_ROWS)
def test_a_first_row_that_is_none_is_told_as_that(tmp_path: Path, case: str) -> None:
    """Not as a key that the row lacks, with a hint to declare it."""
    with pytest.raises(CdcError, match=r"a row that is not a JSON object|columns 'V' and 'v' differ only") as caught:
        rows(followed(tmp_path / "fail", ({"id": 1}, NO_ROWS[case])))
    assert isinstance(caught.value, SchemaUnknown | CorruptLog)
    assert "unreadable-messages" in caught.value.hint
    skipping = followed(tmp_path / "skip", ({"id": 1}, NO_ROWS[case]), **SKIP)
    assert (rows(skipping), skipping.counts) == ([], {"unreadable-message topic": 1})


def test_keys_of_maxwell_that_are_lists(tmp_path: Path) -> None:
    key = ["s", "t", [{"id": 1}, {"k": 2}]]
    found = followed(
        tmp_path, (key, maxwell("insert", {"id": 1, "k": 2, "v": 3})), (b"[1", maxwell("delete", {"id": 1, "k": 2}))
    )
    batches = found.follow()
    assert batches[0][0].schema.primary_key == ("id", "k")  # type: ignore[union-attr]
    assert [item[0] for batch in batches for item in batch if isinstance(item, tuple)] == ["+I", "-D"]


def canal(kind: str, data: Any, **more: Any) -> dict[str, Any]:
    types = {"id": "int", "v": "varchar"}
    told = {"mysqlType": types, "pkNames": ["id"], "isDdl": False, "sql": "", "es": 1, "old": None}
    return {"type": kind, "database": "s", "table": "t", "data": data, **told, **more}


def test_canals_form_as_other_programs_write_it(tmp_path: Path) -> None:
    """TiCDC's marks between rows, its text columns without a length, and rows of a first copy."""
    mark = canal("TIDB_WATERMARK", None, database="", table="", mysqlType=None, pkNames=None)
    found = followed(tmp_path, (None, mark), (None, canal("INIT", [{"id": "1", "v": "abc"}])), (None, mark))
    created, row = (item for batch in found.follow() for item in batch)
    assert str(created.schema.columns[1].type) == "STRING"  # type: ignore[union-attr]
    assert row == ("+I", {"id": 1, "v": "abc"})
    assert found.counts == {}


def test_members_that_their_type_does_not_name(tmp_path: Path) -> None:
    """TiCDC's ENUM and SET are numbers, and their type has no list: a declared column takes the number."""
    row = canal("INSERT", [{"id": "1", "e": "2", "s": "3"}], mysqlType={"id": "int", "e": "enum", "s": "set"})
    with pytest.raises(CorruptLog, match=r"column e: is not a member .* declare the column \(`columns`\)"):
        rows(followed(tmp_path / "fail", (None, row)))
    declared = followed(tmp_path / "told", (None, row), columns={"s.t": {"e": "INT", "s": "STRING"}})
    assert rows(declared) == [("+I", {"id": 1, "e": 2, "s": "3"})]


def test_times_with_fractional_digits_that_their_type_does_not_name(tmp_path: Path) -> None:
    """TiCDC's types have no sizes."""
    row = canal("INSERT", [{"id": "1", "v": "2024-01-01 10:00:00.5"}], mysqlType={"id": "int", "v": "datetime"})
    with pytest.raises(CorruptLog, match=r"column v: has more fractional digits than a TIMESTAMP\(0\) \(see columns\)"):
        rows(followed(tmp_path / "fail", (None, row)))
    declared = followed(tmp_path / "told", (None, row), columns={"s.t": {"v": "TIMESTAMP(3)"}})
    assert rows(declared) == [("+I", {"id": 1, "v": datetime(2024, 1, 1, 10, 0, 0, 500000)})]


def test_messages_of_flink_cdcs_sink_are_canals(tmp_path: Path) -> None:
    row = {"old": None, "data": [{"id": 1}], "type": "INSERT", "database": "s", "table": "t", "pkNames": ["id"]}
    assert rows(followed(tmp_path, ({"TableId": "s.t", "id": 1}, row))) == [("+I", {"id": 1})]

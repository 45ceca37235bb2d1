"""Topics in Avro through the source, with a Schema Registry beside them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from avro_values import framed
from kafka_log import Follower, TopicLog
from read_messages import options
from schema_registry import SchemaRegistry
from together import together

from cdc.errors import CorruptLog, SourceError, SourceUnavailable, UnsupportedChange
from cdc.retry import RetryPolicy
from cdc.schema import AddColumn
from connectors.kafka.avro.registry import Registry, RegistrySettings, UnreadableSchema
from connectors.kafka.client import SOURCE

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
SOURCE_FIELDS = {
    "type": "record", "name": "Source",
    "fields": [{"name": name, "type": "string"} for name in ("db", "table")] + [{"name": "ts_ms", "type": "long"}],
}  # fmt: skip
FROM = {"db": "shop", "table": "orders", "ts_ms": 1_700_000_000_000}


def rows(*fields: tuple[str, Any]) -> dict[str, Any]:
    """The schema of a row."""
    return {"type": "record", "name": "Value", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def envelope(row: dict[str, Any]) -> dict[str, Any]:
    """The schema of Debezium's envelope around it."""
    fields = [("before", ["null", row]), ("after", ["null", "Value"]), ("source", SOURCE_FIELDS), ("op", "string")]
    return {**rows(*fields), "name": "Envelope"}


PLAIN = rows(("id", "long"), ("name", ["null", "string"]))
WIDER = rows(("id", "long"), ("name", ["null", "string"]), ("qty", {"type": "int", "connect.type": "int16"}))


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as found:
        found.add(KEY), found.add(envelope(PLAIN)), found.add(envelope(WIDER)), found.add(PLAIN)
        yield found


def change(op: str, before: Any, after: Any, *, schema_id: int = 2, key: int = 1) -> tuple[bytes, bytes]:
    row = WIDER if schema_id == 3 else PLAIN
    images = {
        name: (0, None) if image is None else (1, image) for name, image in (("before", before), ("after", after))
    }
    return framed(1, KEY, {"id": key}), framed(schema_id, envelope(row), {**images, "source": FROM, "op": op})


def follow(
    registry: SchemaRegistry, folder: Path, *records: tuple[bytes | None, bytes | None], **more: Any
) -> Follower:
    log = TopicLog(orders=1)
    log.write_keyed("orders", *records)
    return Follower(log, folder, **{"value.format": "debezium-avro", "schema-registry.url": registry.url, **more})


def row(number: int, name: str | None, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": (0, None) if name is None else (1, name), **more}


def test_a_debezium_topic_becomes_its_table(registry: SchemaRegistry, tmp_path: Path) -> None:
    follower = follow(
        registry, tmp_path, change("c", None, row(1, "é")), change("u", row(1, "é"), row(1, None)),
        change("d", row(1, None), None), (framed(1, KEY, {"id": 1}), None), change("r", None, row(7, "b"), key=7),
    )  # fmt: skip
    schemas, *changes = (item for batch in follower.follow() for item in batch)
    assert str(schemas.table) == "shop.orders"
    assert schemas.schema.primary_key == ("id",)
    assert [str(column.type) for column in schemas.schema.columns] == ["BIGINT", "STRING"]
    assert changes == [
        ("+I", {"id": 1, "name": "é"}), ("-U", {"id": 1, "name": "é"}), ("+U", {"id": 1, "name": None}),
        ("-D", {"id": 1, "name": None}), ("+I", {"id": 7, "name": "b"}),
    ]  # fmt: skip
    # A number stands for one schema for ever: it is asked for once.
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/2"]


@pytest.mark.parametrize("value_format", ["auto", "debezium-avro-confluent"])
def test_a_new_schema_adds_its_column_before_the_rows_that_need_it(
    registry: SchemaRegistry, tmp_path: Path, value_format: str
) -> None:
    follower = follow(
        registry, tmp_path, change("c", None, row(1, "a")), change("c", None, row(2, "b", qty=-3), schema_id=3, key=2),
        change("c", None, row(3, "c"), key=3), **{"value.format": value_format},
    )  # fmt: skip
    first, second = follower.follow()
    assert first[1:] == [("+I", {"id": 1, "name": "a"})]
    added, *changes = second
    assert isinstance(added, AddColumn)
    assert (added.column.name, str(added.column.type)) == ("qty", "SMALLINT")
    assert changes == [("+I", {"id": 2, "name": "b", "qty": -3}), ("+I", {"id": 3, "name": "c", "qty": None})]


def test_rows_as_they_are_with_deletes_by_their_key(registry: SchemaRegistry, tmp_path: Path) -> None:
    key = framed(1, KEY, {"id": 1})
    records = (key, framed(4, PLAIN, row(1, "a"))), (key, None)
    follower = follow(registry, tmp_path, *records, **{"value.format": "avro"})
    (batch,) = follower.follow()
    assert [item[0] for item in batch[1:]] == ["+U", "-D"]
    assert str(batch[0].table) == "orders"
    assert batch[0].schema.primary_key == ("id",)


def test_a_delete_without_the_row_before_is_found_by_its_avro_key(registry: SchemaRegistry, tmp_path: Path) -> None:
    follower = follow(registry, tmp_path, change("c", None, row(5, "a"), key=5), change("d", None, None, key=5))
    changes = [item for batch in follower.follow() for item in batch][1:]
    assert changes == [("+I", {"id": 5, "name": "a"}), ("-D", {"id": 5, "name": None})]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, framed(99, PLAIN, row(1, "a")), "the registry has no schema 99"),
        (None, bytes(8) + framed(1, PLAIN, row(1, "a")), r"no schema 0 \(Apicurio's numbers of eight bytes begin so"),
        (None, framed(5, PLAIN, row(1, "a")), "schema 5 is of the type PROTOBUF, not AVRO"),
        (None, b'{"op":"c"}', "no Avro with the number of its schema before it"),
        (None, framed(2, "long", 7), "its bytes are not of schema 2"),
        (framed(98, KEY, {"id": 1}), change("c", None, row(1, "a"))[1], "its key: the registry has no schema 98"),
        (framed(1, KEY, {"id": 1})[:-1], change("c", None, row(1, "a"))[1], "its key: its bytes are not of schema 1"),
    ],
)
def test_messages_that_cannot_be_read_are_named_or_left_out(
    registry: SchemaRegistry, tmp_path: Path, key: bytes | None, value: bytes, reason: str
) -> None:
    registry.add("syntax", 5, schemaType="PROTOBUF")
    bad, good = (key, value), change("c", None, row(1, "a"))
    with pytest.raises(CorruptLog, match=reason) as caught:
        list(follow(registry, tmp_path / "fail", good, bad).follow())
    assert caught.value.where == "orders-0@1"
    follower = follow(registry, tmp_path / "skip", good, bad, good, **{"unreadable-messages": "skip"})
    assert [item[1]["id"] for batch in follower.follow() for item in batch if isinstance(item, tuple)] == [1, 1]
    assert follower.counts["unreadable-message orders"] == 1


def test_avro_without_a_registry_says_what_is_missing(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write_keyed("orders", change("c", None, row(1, "a")))
    with pytest.raises(UnsupportedChange, match="begin with a zero byte, as Avro does") as caught:
        list(Follower(log, tmp_path).follow())
    assert "schema-registry.url" in caught.value.hint


def asking(url: str, **more: Any) -> Registry:
    settings = RegistrySettings((url,), **more)
    return Registry(settings, RetryPolicy(timeout_s=1.0, first_pause_s=0.0, sleep=lambda seconds: None), SOURCE)


def test_a_registry_that_is_away_for_a_while_is_waited_for(registry: SchemaRegistry) -> None:
    registry.fail = [(503, {"error_code": 50302, "message": "not ready"}), (429, b"slow down")]
    registry.fail += [(200, b"")]  # an answer that was cut in its head
    assert len(asking(registry.url).program(4, 1).nodes) == 5


def test_what_a_registry_refuses_is_said_with_the_next_step() -> None:
    with SchemaRegistry(login="ann:secret") as closed:
        closed.add(KEY)
        assert asking(closed.url, user_info="ann:secret").program(1, 1).connect["fields"][0]["type"] == "int64"
        with pytest.raises(SourceError, match="the login is refused: HTTP 401") as caught:
            asking(closed.url, user_info="ann:wrong").program(1, 1)
        assert "wrong" not in str(caught.value)
        with pytest.raises(SourceError, match="no answer of a Schema Registry: HTTP 404"):
            asking(f"{closed.url}/elsewhere", user_info="ann:secret").program(1, 1)
        with pytest.raises(SourceError, match="no TLS connection"):
            asking(closed.url.replace("http:", "https:")).program(1, 1)
    policy = RetryPolicy(timeout_s=0.0)
    with pytest.raises(SourceUnavailable, match="no answer"):
        Registry(RegistrySettings((closed.url,)), policy, SOURCE).program(1, 1)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "the registry's answer about schema 1 is not an object"),
        ({}, "schema 1 cannot be read: the registry's answer has no schema"),
        ({"schema": 5}, "schema 1 cannot be read"),
        ({"schema": '"int"', "references": [{"name": "a"}]}, "schema 1 cannot be read"),
        ({"schema": '"int"', "references": 5}, "schema 1 cannot be read"),
    ],
)
def test_answers_without_a_schema_make_messages_unreadable(registry: SchemaRegistry, answer: Any, said: str) -> None:
    registry.fail = [(200, answer)]
    with pytest.raises(UnreadableSchema, match=said):
        asking(registry.url).program(1, 1)


def test_answers_without_an_end_are_not_kept(registry: SchemaRegistry) -> None:
    registry.fail = [(200, b"[" * 1000 + b" " * (17 << 20))]
    with pytest.raises(SourceError, match="an answer has more than 16 MiB"):
        asking(registry.url).program(1, 1)
    registry.fail = [(200, b"[" * 100_000)]
    with pytest.raises(SourceError, match="no answer of a Schema Registry"):
        asking(registry.url).program(1, 1)


def test_schemas_that_name_others_without_an_end_are_unreadable(registry: SchemaRegistry) -> None:
    for number in range(1, 400):
        reference = {"name": "a", "subject": f"s{number + 1}", "version": 1}
        registry.subjects[f"s{number}"] = [registry.add('"int"', number, references=[reference])]
    with pytest.raises(UnreadableSchema, match="names more than 256 others"):
        asking(registry.url).program(1, 1)


def test_a_number_that_is_none_is_not_written(registry: SchemaRegistry) -> None:
    for answer in ([], {}, {"id": "7"}, {"id": -1}, {"id": 1 << 32}):
        registry.fail = [(200, answer)]
        with pytest.raises(SourceError, match="gave no number of a schema"):
            asking(registry.url).register("orders", "value", {"type": "int"})


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    whole = json.dumps({"schema": json.dumps(KEY)}).encode()
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def answer() -> None:
            for size in (10, len(whole)):
                with server.accept()[0] as peer:
                    while not peer.recv(1 << 16).endswith(b"\r\n\r\n"):
                        pass
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(whole) + whole[:size])

        thread = threading.Thread(target=answer)
        thread.start()
        found = asking(f"http://127.0.0.1:{server.getsockname()[1]}").program(1, 1)
        thread.join()
    assert found.connect["fields"][0]["type"] == "int64"


def test_one_of_several_addresses_is_enough_and_schemas_may_name_others(registry: SchemaRegistry) -> None:
    named = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
    registry.subjects["money"] = [registry.add(named, 6)]
    reference = {"name": "shop.Money", "subject": "money", "version": 1}
    registry.add(rows(("price", "shop.Money")), 7, references=[reference])
    with SchemaRegistry() as gone:
        pass
    several = Registry(RegistrySettings((gone.url, registry.url)), RetryPolicy(timeout_s=0.0), SOURCE)
    assert several.program(7, 1).connect["fields"][0]["name"] == "shop.Money"


@together(
    "more, said",
    [
        ({"value.format": "avro"}, "schema-registry.url is missing"),
        ({"value.format": "json", "schema-registry.url": "http://h:1"}, "has no effect with value.format: json"),
        (
            {"value.format": "canal-json", "debezium.decimal.handling.mode": "string"},
            "debezium.decimal.handling.mode has no effect with value.format: canal-json",
        ),
        ({"schema-registry.basic-auth.user-info": "a:b"}, "has no effect without schema-registry.url"),
        ({"schema-registry.url": "http://h:1", "schema-registry.basic-auth.user-info": "ann"}, "has no colon"),
        (
            {"schema-registry.url": "http://h:1", "schema-registry.bearer-auth.token": "t\n"},
            "holds a blank, a line's end",
        ),
        ({"schema-registry.url": "http://h:1", "schema-registry.ssl.key.location": "k.pem"}, "has no certificate"),
    ],
)
def test_options_that_miss_each_other_are_told(more: dict[str, Any], said: str) -> None:
    assert any(said in f"{remark.key} {remark.message}" for remark in options(**more).problems())


@together("url", ["h:8081", "http://ann:secret@h:8081", "ftp://h", " , "])
def test_addresses_that_are_none_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        options(**{"schema-registry.url": url})
    assert "secret" not in json.dumps(str(caught.value))

"""Options of the StarRocks sink: Flink CDC's names, what is refused, what is warned about, what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from together import together

from cdc.schema import Column, DataType, TableId, TableSchema
from connectors.shared.streamload.settings import http_servers, sql_servers
from connectors.starrocks import settings
from connectors.starrocks.options import StarRocksSinkOptions

GIVEN = {
    "type": "starrocks",
    "jdbc-url": "jdbc:mysql://fe1:9030,fe2",
    "load-url": "fe1:8030;https://fe2",
    "username": "root",
    "password": "a-secret",
}


def options(**more: Any) -> StarRocksSinkOptions:
    return StarRocksSinkOptions.model_validate(GIVEN | more)


def test_addresses_of_several_front_ends() -> None:
    made = options()
    assert [str(address) for address in http_servers(made).frontends] == ["http://fe1:8030", "https://fe2:8030"]
    assert [address.host_header for address in sql_servers(made).frontends] == ["fe1:9030", "fe2:9030"]


@together(
    "key, text",
    [
        ("jdbc-url", "mysql://fe1:9030"),
        ("jdbc-url", "jdbc:mysql://user:pw@fe1:9030"),
        ("load-url", ""),
        ("load-url", "fe1:99999"),
        ("sink.label-prefix", "has blanks"),
        ("sink.time-zone", "Mars/Olympus"),
        ("sink.delivery-guarantee", "exactly-twice"),
        ("unicode-char.max-bytes", 5),
    ],
)
def test_values_that_cannot_be_are_refused(key: str, text: object) -> None:
    with pytest.raises(ValidationError):
        options(**{key: text})


@together(
    "key",
    [
        "sink.buffer-flush.max-bytes", "sink.buffer-flush.interval-ms", "sink.scan-frequency.ms",
        "sink.metric.histogram-window-size", "sink.at-least-once.use-transaction-stream-load",
    ],
)  # fmt: skip
def test_options_of_flink_without_meaning_are_accepted_and_explained(key: str) -> None:
    assert options(**{key: "1"})
    assert StarRocksSinkOptions.ignored(key)


@together(
    "header, text",
    [
        ("max_filter_ratio", "0.1"),
        ("where", "id > 1"),
        ("partial_update", "true"),
        ("label", "mine"),
        ("compression", "bzip2"),
    ],
)
def test_headers_that_would_lose_rows_are_refused(header: str, text: str) -> None:
    key = f"sink.properties.{header}"
    assert [remark.key for remark in options(**{key: text}).problems()] == [key]


@together("header, text", [("format", "json"), ("strip_outer_array", "true"), ("strict_mode", "false")])
def test_headers_of_the_format_have_no_effect_and_that_is_said(header: str, text: str) -> None:
    made = options(**{f"sink.properties.{header}": text})
    assert list(made.problems()) == []
    assert "has no effect" in next(made.warnings()).message
    assert made.load_headers() == {}


def test_other_headers_and_table_properties_are_passed_on() -> None:
    made = options(**{"sink.properties.load_mem_limit": "1000", "table.create.properties.replication_num": "1"})
    assert made.load_headers() == {"load_mem_limit": "1000"}
    assert settings.dialect(made).properties == (("replication_num", "1"),)
    assert list(made.warnings()) == []


@together("text, packing", [("gzip", "gzip"), ("LZ4_FRAME", "lz4"), ("zstd", "zstd")])
def test_bodies_are_compressed_as_the_header_says(text: str, packing: str) -> None:
    made = options(**{"sink.properties.compression": text})
    assert list(made.problems()) == list(made.warnings()) == []
    assert (made.load_headers(), made.packing()) == ({"compression": text}, packing)


def test_dead_letters_need_a_folder() -> None:
    assert [remark.key for remark in options(**{"sink.invalid-values": "dead-letter"}).problems()] == [
        "sink.dead-letter.path"
    ]


def test_what_loses_something_is_warned_about() -> None:
    made = options(**{"unicode-char.max-bytes": 3, "sink.delivery-guarantee": "at-least-once"})
    assert [remark.key for remark in made.warnings()] == ["sink.delivery-guarantee", "unicode-char.max-bytes"]


def test_times_are_seconds_inside() -> None:
    made = options(**{"sink.connect.timeout-ms": 500, "sink.prepared-timeout": "3 d", "sink.load.timeout": "10 min"})
    assert http_servers(made).limits.connect_s == 0.5
    limits = settings.transaction_limits(made)
    assert (limits.load_s, limits.prepared_s) == (600, 259_200)


def test_the_password_shows_nowhere() -> None:
    made = options()
    for shown in (repr(made), repr(http_servers(made)), repr(sql_servers(made))):
        assert "a-secret" not in shown


def test_properties_of_primary_key_tables_are_left_out_for_others() -> None:
    given = options(**{
        "table.create.properties.enable_persistent_index": "true", "table.create.properties.replication_num": "1",
    })  # fmt: skip
    dialect = settings.dialect(given)

    def created(*key: str) -> str:
        schema = TableSchema((Column("id", DataType.parse("INT")),), key)
        return dialect.create_table(dialect.new_table(TableId("shop", "t"), schema))[0]

    assert "'enable_persistent_index' = 'true'" in created("id")
    assert "PROPERTIES ('replication_num' = '1')" in created()
    assert [remark.key for remark in given.warnings()] == ["table.create.properties.enable_persistent_index"]

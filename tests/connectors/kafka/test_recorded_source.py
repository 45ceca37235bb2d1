"""Recorded messages of real tools through the source: rows of every type equal those of the server log."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kafka_log import Follower, TopicLog
from recorded import blocks, theirs
from schema_registry import SchemaRegistry

from cdc.block import RowKind

Rows = dict[Any, dict[str, Any]]
_TYPES = "types_db.all_types"


def out_of_log(flavor: str) -> tuple[Rows, dict[str, str]]:
    """The rows of the table of all types by their key, and its columns' types, as the binlog has them."""
    found: Rows = {}
    types: dict[str, str] = {}
    for block in blocks(flavor):
        if str(block.table) == _TYPES:
            types = {column.name: str(column.type) for column in block.schema.columns}
            for kind, row in zip(block.kinds.to_pylist(), block.rows.to_pylist(), strict=True):
                _fold(found, RowKind(kind).symbol, row)
    return found, types


def out_of_topics(log: TopicLog, folder: Path, **more: Any) -> Rows:
    """The same as the source reads them."""
    found: Rows = {}
    follower = Follower(log, folder, tables=_TYPES, **more)
    for batch in follower.follow():
        for item in batch:
            if isinstance(item, tuple):
                _fold(found, *item)
    return found


def _fold(rows: Rows, kind: str, row: dict[str, Any]) -> None:
    if kind in ("-U", "-D"):
        rows.pop(row["id"], None)
    else:
        rows[row["id"]] = row


def recorded(name: str, registry: SchemaRegistry) -> TopicLog:
    """The messages of a file, in their topics where it has them; schemas among them go to the registry."""
    lines = theirs(name)
    for line in lines:
        if "schema_id" in line:
            registry.add(line["schema"], line["schema_id"])
    lines = [line for line in lines if "schema_id" not in line]
    if "topic" not in lines[0]:
        log = TopicLog(recorded=1)
        log.write("recorded", *(json.dumps(line).encode() for line in lines))
        return log
    log = TopicLog(**dict.fromkeys((line["topic"] for line in lines), 1))
    for line in lines:
        key, value = line["key"], line["value"]
        text = b64decode if registry.schemas else str.encode
        log.write_keyed(line["topic"], (key and text(key), value and text(value)))
    return log


_ONLY_SPACES = "Debezium's log reader writes JSON without the server's spaces"
_NEGATIVE = "Maxwell's TIME below zero, and from 24 h on, is another time"
_GEOMETRY = "Maxwell writes geometry as text (WKT)"
_GARBLED = "Canal garbles text that is not UTF-8"
_CONNECT = "time.precision.mode=connect: a TIME below zero or from 24 h on is NULL, microseconds are cut"


@dataclass(frozen=True)
class Case:
    """A recorded file. `lost` are the columns that the messages do not hold as the server does, and why.

    `declared`: the pipeline file tells the types of all columns but these.
    """

    file: str
    flavor: str
    lost: dict[str, str]
    declared: tuple[str, ...] | None = None
    options: dict[str, str] = field(default_factory=dict)


CASES = {
    "debezium": Case(
        "debezium-json-schema.jsonl", "mysql", {"c_year": "Debezium makes 2000 of YEAR 0", "c_json": _ONLY_SPACES}
    ),
    "debezium-avro": Case(
        "debezium-avro.jsonl", "mysql", {"c_year": "Debezium makes 2000 of YEAR 0", "c_json": _ONLY_SPACES}
    ),
    "debezium-options": Case(
        "debezium-json.jsonl",
        "mysql",
        {
            "c_year": "Debezium makes 2000 of YEAR 0", "c_json": _ONLY_SPACES, "c_datetime6": _CONNECT,
            **dict.fromkeys(("c_time", "c_time3", "c_time6"), _CONNECT),
            **dict.fromkeys(("c_ubigint", "c_bit8", "c_bit64"), "not declared: base64 of numbers, in no mode of ours"),
        },
        ("c_ubigint", "c_bit8", "c_bit64"),
        {
            "debezium.decimal.handling.mode": "string", "debezium.time.precision.mode": "connect",
            "debezium.binary.handling.mode": "hex",
        },
    ),
    "canal": Case("canal-json.jsonl", "mariadb", dict.fromkeys(("c_latin1", "c_gbk", "c_utf16"), _GARBLED)),
    "maxwell": Case(
        "maxwell-json.jsonl",
        "mariadb",
        {
            "c_year": "Maxwell makes 1900 of YEAR 0", "c_enum": "an invalid ENUM is NULL", "c_set": "a SET is a list",
            "c_decimal65": "Maxwell's decimals have the digits of a double",
            **dict.fromkeys(("c_time", "c_time3", "c_time6"), _NEGATIVE),
            **dict.fromkeys(("c_point", "c_geom", "c_poly"), _GEOMETRY),
        },
        ("c_point", "c_geom", "c_poly", "c_decimal65"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_of_all_types_are_the_servers(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    wanted, types = out_of_log(case.flavor)
    more: dict[str, Any] = dict(case.options)
    if case.declared is not None:
        more["columns"] = {_TYPES: {column: text for column, text in types.items() if column not in case.declared}}
    with SchemaRegistry() as registry:
        log = recorded(case.file, registry)
        more |= {"schema-registry.url": registry.url} if registry.schemas else {}
        found = out_of_topics(log, tmp_path / "topics", **more)
    assert found.keys() == wanted.keys()
    wrong = {
        column
        for key, row in wanted.items()
        for column, value in row.items()
        if found[key].get(column) != value
    }  # fmt: skip
    assert wrong == case.lost.keys()

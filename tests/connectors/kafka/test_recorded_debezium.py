"""Our Debezium messages of a recorded binlog against those that Debezium 3.6 made of it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest
from recorded import Record, differences, ours, theirs

from connectors.kafka.encoding import debezium
from connectors.kafka.encoding.layout import Naming
from connectors.kafka.modes import EncodingModes

EXCEPTIONS = {
    r"source\.(version|ts_\w+)": "ours is another tool, and knows when a transaction was committed to the millisecond",
    r"source\.thread": "the thread is not known",
    r"(before|after)\.c_time\d?": "with time.precision.mode=connect Debezium has null for a negative TIME, and for one "
    "of 24 hours and more",
    r"(before|after)\.c_year": "Debezium makes 2000 of YEAR 0",
    r"(before|after)\.c_json": "Debezium's snapshot has the server's spaces, its log reader has none",
    r"(before|after)\.c_enum": "Debezium's log reader puts a backslash before the comma in a label",
    r"schema\..*\.doc": "Debezium keeps the comment of a column that was changed without one, the server does not",
    r"schema\..*\.default": "defaults of expressions and of zero dates have no value; Debezium has the epoch",
}
OF_SNAPSHOT = {
    r"op": "Debezium read the types by its snapshot, here they are read from the log",
    r"after\.c_float": "Debezium's snapshot reads a rounded FLOAT",
    r"after\.c_ts[36]": "Debezium's snapshot leaves zeros of the fraction out",
}
"""Where messages may differ, and why; the second of rows that Debezium has not read from the log."""


def recorded(name: str) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in theirs(name):
        key, value = record["key"], record["value"]
        table = record["topic"].partition(".")[2]
        found[table].append((key and json.loads(key), value and json.loads(value), record["headers"]))
    return found


@pytest.mark.parametrize(
    ("name", "prefix", "modes", "with_schema"),
    [
        ("debezium-json.jsonl", "dbz", EncodingModes("string", "precise", "hex", "connect"), False),
        ("debezium-json-schema.jsonl", "dbzs", EncodingModes(), True),
    ],
    ids=["options", "schema"],
)
def test_messages_are_debeziums(name: str, prefix: str, modes: EncodingModes, with_schema: bool) -> None:
    made = ours(
        "mysql",
        lambda block: debezium.layout(block.table, block.schema, Naming(prefix, "1"), modes, with_schema=with_schema),
    )  # fmt: skip
    wanted = recorded(name)
    # Two rows of the types were written twice in the log, before the table was made again.
    made["types_db.all_types"] = made["types_db.all_types"][-len(wanted["types_db.all_types"]) :]
    assert {table: len(records) for table, records in made.items()} == {t: len(r) for t, r in wanted.items()}
    wrong: list[Any] = []
    for table, records in wanted.items():
        for index, (mine, real) in enumerate(zip(made[table], records, strict=True)):
            assert mine[0] == real[0], (table, index)
            assert mine[2] == real[2], (table, index)
            wrong += [(table, index, *each) for each in _unexplained(mine[1], real[1])]
    assert wrong == []


def _unexplained(mine: Any, real: Any) -> list[tuple[str, Any, Any]]:
    if mine is None or real is None:
        return [] if mine is real else [("value", mine, real)]
    found = []
    if "payload" in real:
        found += list(differences("schema", mine["schema"], real["schema"]))
        mine, real = mine["payload"], real["payload"]
    # Where Debezium's snapshot was is not where the log has the row.
    parts = ("before", "after", "op", *(() if real["op"] == "r" else ("source",)))
    for part in parts:
        found += list(differences(part, mine[part], real[part]))
    exceptions = EXCEPTIONS | (OF_SNAPSHOT if real["op"] == "r" else {})
    return [each for each in found if not any(re.fullmatch(pattern, each[0]) for pattern in exceptions)]

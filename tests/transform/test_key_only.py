"""Changes that do not tell what their row was, after a filter: none leaves a row in the sink that the source lacks."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from together import together
from transform_rules import NOW, ROW, SCHEMA, changes, compiled

from cdc.block import RowKind
from cdc.errors import TransformError
from cdc.schema import Column, DataType, TableSchema
from cdc.testing.blocks import images

OLD = ("-D", {"id": 1})
LEAVES = ("+U", {"id": 1, "s": "b", "n": 0})
MOVED = (("-U", {"id": 1}), ("+U", {"id": 2, "s": "a", "n": 2}))
STAYS = ("+U", {"id": 1, "s": "a", "n": 2})


def passed(*rows: tuple[str, dict[str, Any]], whole: bool = False, **rule: Any) -> list[tuple[str, Any, Any]]:
    block = replace(changes(*rows), whole=whole)
    return [(kind, row["id"], row.get("q")) for kind, row in images([compiled(**rule).apply(block, NOW)])]


@pytest.mark.parametrize("projection", [r"\*, 4 / n AS q", "id + 0 AS id, s, 4 / n AS q"])
def test_a_row_that_the_filter_cannot_judge_goes_by_its_key(projection: str) -> None:
    rule = {"filter": "s = 'a'", "projection": projection}
    assert passed(STAYS, OLD, LEAVES, ("-D", {"id": 3, "s": "b"}), ("+I", {"id": 4, "s": "b"}), **rule) == [
        ("+U", 1, 2), ("-D", 1, None), ("-D", 1, None),
    ]  # fmt: skip
    assert passed(*MOVED, **rule) == [("-U", 1, None), ("+U", 2, 2)]
    assert passed(OLD, LEAVES, whole=True, **rule) == []


def test_a_filter_that_can_judge_it_does() -> None:
    assert passed(OLD, LEAVES, filter="id > 1") == []
    assert passed(OLD, filter="s = 'a' AND __data_event_type__ <> '-D'") == []
    assert passed(OLD, filter="s = 'a'", converter="SOFT_DELETE", projection=r"\*, __data_event_type__ AS q") == [
        ("+I", 1, "-D")
    ]


@together("more, goes", [
    ({}, True), ({name: value for name, value in ROW.items() if name not in ("id", "s")}, False),
    ({"n": 0, "tiny": 0, "u": 0, "d": Decimal(0), "f": 0.0, "s": "", "b": b"\0", "t": datetime(1970, 1, 1),
      "day": date(1970, 1, 1), "c": timedelta(), "j": "{}", "z": False, "vec": [0.0, 0.0]}, True),
    *(({name: ROW[name]}, False) for name in ("n", "u", "d", "g", "v", "b", "t", "l", "day", "c", "j", "z", "vec")),
])  # fmt: skip
def test_what_debezium_writes_into_columns_that_are_not_null_is_none_of_its_values(
    more: dict[str, Any], *, goes: bool
) -> None:
    assert bool(passed(("-D", {"id": 1, **more}), filter="s = 'a'")) is goes


def test_what_debezium_adds_to_a_deleted_row_is_none_of_its_values() -> None:
    schema = TableSchema((*SCHEMA.columns, Column("__deleted", DataType.parse("STRING"))), SCHEMA.primary_key)
    rows = replace(changes(("-D", {"id": 1, "__deleted": "true"}), schema=schema), whole=False)
    made = compiled(schema, filter="s = 'a'").apply(rows, NOW)
    assert made.kinds.to_pylist() == [RowKind.DELETE]


def test_a_row_that_cannot_be_computed_goes() -> None:
    assert passed(LEAVES, projection=r"\*, 4 / n AS q", on_error="dead-letter") == [("-D", 1, None)]


def test_a_key_of_the_rule_that_the_change_does_not_tell() -> None:
    with pytest.raises(TransformError, match="the old row of the change at 1 has no s") as caught:
        passed(OLD, primary_keys="s")
    assert "REPLICA IDENTITY FULL" in caught.value.hint
    assert passed(("-D", {"id": 1, "s": "a"}), primary_keys="s") == [("-D", 1, None)]

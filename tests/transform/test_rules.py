"""Several rules together: the first that matches a table counts, and a task has the same rules as the driver."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from transform_rules import NOW, SCHEMA, TABLE, changes, text

from cdc.errors import SpecError
from cdc.schema import AddColumn, Column, CreateTable, DataType, DropTable, TableId, TableSchema
from cdc.testing.blocks import images
from cdc.transform.rules import Rules
from cdc.transform.runner import RuleRunner
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts, UserFunction

OTHER = TableId("shop", "items")
CODE = """
opened = []
def open(options): opened.append(options["word"])
def close(): opened.clear()
def eval(a: int) -> str: return opened[0] + str(a)
"""


def source(number: int, tables: str, **texts: str) -> RuleSource:
    return RuleSource(f"transform[{number}]", tables, RuleTexts(**{key: text(value) for key, value in texts.items()}))


SETTINGS = RuleSettings(
    zone="Asia/Shanghai", functions=(UserFunction("own", CODE, options={"word": "x"}),), hash_key=b"secret key"
)
RULES = [
    source(0, "shop.orders", projection="id, own(n) AS a, HASH(s) AS h", table_options="k=v", partition_keys="id"),
    source(1, r"shop.\.*", projection="id", filter="id > 1"),
]


def test_the_first_rule_that_matches_counts_and_others_pass() -> None:
    rules = Rules(RULES, SETTINGS)
    names = [rule.name if rule else None for rule in map(rules.rule, (TABLE, OTHER, TableId("x", "y")))]
    assert names == ["transform[0]", "transform[1]", None]
    result = rules.result(TABLE, SCHEMA)
    assert result.schema.names == ("id", "a", "h")
    assert (result.partition_keys, result.table_options) == (("id",), (("k", "v"),))
    assert rules.result(TableId("x", "y"), SCHEMA).schema is SCHEMA


def test_a_task_applies_them_from_a_pickle_and_opens_functions_once() -> None:
    rules = pickle.loads(pickle.dumps(Rules(RULES, SETTINGS)))
    rows = changes(("+I", {"id": 1, "n": 7, "s": "a"}), ("+I", {"id": 2, "n": 8, "s": "a"}))
    with RuleRunner(rules) as runner:
        first = [row["a"] for _, row in images([runner.apply(rows, NOW)])]
        again = [row["a"] for _, row in images([runner.apply(rows, NOW)])]
        others = images([runner.apply(replace(rows, table=OTHER), NOW)])
        passed = runner.apply(replace(rows, table=TableId("x", "y")), NOW)
    assert first == again == ["x7", "x8"]
    assert others == [("+I", {"id": 2})]
    assert passed.rows is rows.rows


class Steps:
    """A loaded function that notes what is called, and fails at one call."""

    def __init__(self, steps: list[str], name: str, fails: str = "") -> None:
        self._steps, self._name, self._fails = steps, name, fails

    def _step(self, call: str) -> None:
        self._steps.append(f"{call} {self._name}")
        if call == self._fails:
            raise ValueError(self._name)

    def open(self) -> None:
        self._step("open")

    def close(self) -> None:
        self._step("close")


@pytest.mark.parametrize(
    ("fails", "steps"),
    [
        ("open", ["open a", "open b", "close a"]),
        ("close", ["open a", "open b", "open c", "close c", "close b", "close a"]),
    ],
)
def test_a_function_that_fails_leaves_no_other_one_open(fails: str, steps: list[str]) -> None:
    called: list[str] = []
    rules: Any = Rules([], RuleSettings(hash_key=fails.encode()))
    rules.loaded = (Steps(called, "a"), Steps(called, "b", fails), Steps(called, "c"))
    with pytest.raises(ValueError, match="b"), RuleRunner(rules):
        pass
    assert called == steps


def test_a_new_schema_of_a_table_is_compiled_anew() -> None:
    wider = TableSchema((*SCHEMA.columns, Column("extra", DataType.parse("INT"))), SCHEMA.primary_key)
    rules = Rules([source(0, "shop.orders", projection=r"\*, n + 1 AS m")], RuleSettings())
    with RuleRunner(rules) as runner:
        assert runner.apply(changes(("+I", {"id": 1})), NOW).schema.names == (*SCHEMA.names, "m")
        block = changes(("+I", {"id": 1, "extra": 5}), schema=wider)
        assert runner.apply(block, NOW).schema.names == (*wider.names, "m")


def test_problems_of_all_rules_are_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        Rules([source(0, "a.b", filter="n >"), source(1, "a.c", projection="UPPR(x) AS y")], RuleSettings())
    assert len(caught.value.problems) == 2


def test_schema_changes_go_through_the_tables_rule() -> None:
    rules = Rules(RULES, SETTINGS)
    add = AddColumn(OTHER, Column("q", DataType.parse("INT")))
    assert rules.changes(OTHER, SCHEMA, add) == []
    assert rules.changes(TableId("x", "y"), SCHEMA, add) == [add]
    (made,) = rules.changes(OTHER, None, CreateTable(OTHER, SCHEMA))
    assert isinstance(made, CreateTable)
    assert made.schema.names == ("id",)
    assert rules.changes(OTHER, None, DropTable(OTHER)) == [DropTable(OTHER)]
    (made,) = rules.changes(TABLE, None, CreateTable(TABLE, SCHEMA))
    assert isinstance(made, CreateTable)
    assert (made.options, made.partition_keys) == ((("k", "v"),), ("id",))


def test_the_key_of_hash_is_never_shown() -> None:
    assert "secret" not in repr(SETTINGS)

"""What a thread keeps of rules from task to task: as if every task had recreated it, only sooner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transform_rules import NOW, TABLE, rule, text

from cdc.schema import Column, DataType, TableSchema
from cdc.testing.blocks import block, images
from cdc.transform import rule_cache
from cdc.transform.compiler import compile_rule
from cdc.transform.engine import Engine
from cdc.transform.rules import Rules
from cdc.transform.runner import RuleRunner
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts, UserFunction

SCHEMA = TableSchema((Column("id", DataType.parse("INT")),), ("id",))
OTHER = TableSchema((Column("id", DataType.parse("INT")), Column("b", DataType.parse("STRING"))), ("id",))
COUNTER = "n = 0\ndef eval(x: int) -> int:\n    global n\n    n += 1\n    return n\n"


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    rule_cache.forget()
    yield
    rule_cache.forget()


def rules(projection: str, *functions: UserFunction) -> Rules:
    source = RuleSource("transform[0]", TABLE.database + r".\.*", RuleTexts(projection=text(projection)))
    return Rules((source,), RuleSettings(functions=functions))


def one(made: Rules, schema: TableSchema = SCHEMA) -> dict[str, object]:
    with RuleRunner(made) as runner:
        ((_, row),) = images([runner.apply(block(TABLE, schema, [("+I", {"id": 1})]), NOW)])
    return row


def test_equal_rules_are_compiled_once_per_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    real = rule_cache.compile_rule
    monkeypatch.setattr(
        rule_cache, "compile_rule", lambda *given, **more: compiled.append(given) or real(*given, **more)
    )
    wide = TableSchema((*SCHEMA.columns, Column("n", DataType.parse("INT"))), ("id",))
    for schema in (SCHEMA, SCHEMA, wide, SCHEMA):
        assert one(rules("id, id + 1 AS next"), schema) == {"id": 1, "next": 2}
    assert len(compiled) == 2


def test_blocks_keep_the_types_that_only_the_source_tells_apart() -> None:
    made = rules("*")
    for own in ("int", "year"):
        schema = TableSchema((Column("id", DataType.parse("INT"), source_type=own),), ("id",))
        with RuleRunner(made) as runner:
            found = runner.apply(block(TABLE, schema, [("+I", {"id": 1})]), NOW)
        assert found.schema.columns[0].source_type == own


def test_other_rules_are_other_rules() -> None:
    for number in range(rule_cache.MOST_RULE_SETS * 2):
        assert one(rules(f"id, id + {number} AS m"))["m"] == 1 + number
    assert one(rules("id, id + 0 AS m"))["m"] == 1


def test_compiled_rules_of_schemas_that_are_gone_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_cache, "MOST_COMPILED", 2)
    schemas = [TableSchema((*SCHEMA.columns, Column(f"c{n}", DataType.parse("INT"))), ("id",)) for n in range(4)]
    for schema in [*schemas, *schemas]:
        assert one(rules("id, id + 1 AS next"), schema)["next"] == 2


def test_functions_keep_what_they_know_until_they_are_forgotten() -> None:
    counter = UserFunction("counted", code=COUNTER)
    made = [one(rules("id, counted(id) AS n", counter))["n"] for _ in range(3)]
    rule_cache.forget()
    assert (made, one(rules("id, counted(id) AS n", counter))["n"]) == ([1, 2, 3], 1)


def test_tables_that_need_the_same_statement_share_it_until_the_last_is_let_go() -> None:
    engine = Engine()
    made = [compile_rule(rule(projection=r"\*, id + 1 AS m"), schema, engine) for schema in (SCHEMA, OTHER)]
    assert made[0].statement is made[1].statement
    made[0].close()
    rows = made[1].apply(block(TABLE, OTHER, [("+I", {"id": 4, "b": "x"})]), NOW)
    assert images([rows]) == [("+I", {"id": 4, "b": "x", "m": 5})]
    made[1].close()
    again = compile_rule(rule(projection=r"\*, id + 1 AS m"), SCHEMA, engine)
    assert images([again.apply(block(TABLE, SCHEMA, [("+I", {"id": 1})]), NOW)])[0][1]["m"] == 2

"""Rules on a table with a column of every type, for the tests of transforms."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import yaml

from cdc.block import ChangeBlock
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.testing.blocks import block, images
from cdc.transform.compiled import CompiledRule
from cdc.transform.compiler import compile_rule
from cdc.transform.engine import Engine
from cdc.transform.failures import Counts
from cdc.transform.rule import Rule, parse_rule
from cdc.transform.sqltext import SqlText
from cdc.transform.texts import OnError, RuleTexts

NOW = datetime.datetime(2026, 1, 1, 16, 30, 15, 123456, tzinfo=datetime.UTC)
TABLE = TableId("shop", "orders")
ZONE = "Asia/Shanghai"
_TYPES = {
    "id": "BIGINT", "n": "INT", "tiny": "TINYINT", "u": "BIGINT UNSIGNED", "d": "DECIMAL(10, 2)",
    "w": "DECIMAL(38, 10)",
    "x": "DECIMAL(50, 2)", "f": "FLOAT", "g": "DOUBLE", "s": "STRING", "v": "VARCHAR(10)", "b": "BYTES",
    "t": "TIMESTAMP(3)", "l": "TIMESTAMP_LTZ(3)", "day": "DATE", "c": "TIME(6)", "j": "JSON", "z": "BOOLEAN",
    "geo": "GEOMETRY", "status": "VARCHAR(10)", "vec": "VECTOR(2)",
}  # fmt: skip
SCHEMA = TableSchema(
    tuple(Column(name, DataType.parse(kind), nullable=name != "id") for name, kind in _TYPES.items()), ("id",)
)
ROW: dict[str, Any] = {
    "id": 1, "n": 7, "tiny": 100, "u": 2**64 - 1, "d": Decimal("12.34"), "w": Decimal("1.5"), "x": "1.00", "f": 0.5,
    "g": 2.5, "s": "Hello Wörld", "v": "abc", "b": b"xy", "t": datetime.datetime(2024, 1, 31, 3, 4, 5, 678000),
    "l": datetime.datetime(2024, 1, 31, 18, 4, 5, 678000, tzinfo=datetime.UTC), "day": datetime.date(2024, 1, 31),
    "c": -datetime.timedelta(hours=25, microseconds=5), "j": '{"a": [1, "x"], "k": "v"}', "z": True, "geo": b"\0",
    "vec": [1.0, 2.5],
}  # fmt: skip
EMPTY = {"id": 2}


def text(value: str, path: str = "projection") -> SqlText:
    """A text that stands in the first line of a file."""
    return SqlText(value, "rule.yaml", path)


def rule(
    *, mask: Mapping[str, str] | None = None, on_error: OnError = "fail", metadata: tuple[str, ...] = (),
    own: Mapping[str, Any] | None = None, **keys: str,
) -> Rule:  # fmt: skip
    """A parsed rule; keys as `RuleTexts` names them."""
    texts: dict[str, Any] = {
        key: text(value, key.replace("_", "-")) for key, value in keys.items() if key != "delimiter"
    }
    if "delimiter" in keys:
        texts["delimiter"] = keys["delimiter"]
    masks = {column: text(value, f"mask.{column}") for column, value in (mask or {}).items()}
    return parse_rule("transform[0]", RuleTexts(**texts, mask=masks), metadata=metadata, own=own, on_error=on_error)


def compiled(schema: TableSchema = SCHEMA, engine: Engine | None = None, **keys: Any) -> CompiledRule:
    """A rule for a table. Most share one engine, which takes longer to make than a rule."""
    return compile_rule(rule(**keys), schema, engine or _shared_engine())


@cache
def _shared_engine() -> Engine:
    return Engine(zone=ZONE, hash_key=b"key")


def changes(*rows: tuple[str, Mapping[str, Any]], schema: TableSchema = SCHEMA) -> ChangeBlock:
    """A block of the table."""
    return block(TABLE, schema, rows)


def applied(
    made: CompiledRule, rows: Sequence[tuple[str, Mapping[str, Any]]], counts: Counts | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """The row images that a rule makes of others."""
    return images([made.apply(changes(*rows, schema=made.source), NOW, counts)])


def texts_in(document: str, file: str) -> list[dict[str, Any]]:
    """The rules of a YAML document with a `transform` list, each key with its place."""
    found = []
    root = yaml.compose(document, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    (rules,) = (value for key, value in root.value if key.value == "transform")
    for number, node in enumerate(rules.value):
        keys = {}
        for key, value in node.value:
            path = f"transform[{number}].{key.value}"
            nodes = {k.value: v for k, v in value.value} if isinstance(value, yaml.MappingNode) else {"": value}
            made = {
                name: SqlText.in_file(
                    each.value, file=file, path=path + (f".{name}" if name else ""), source=document,
                    line=each.start_mark.line + 1, column=each.start_mark.column + 1,
                )
                for name, each in nodes.items()
            }  # fmt: skip
            keys[key.value.replace("-", "_")] = made if isinstance(value, yaml.MappingNode) else made[""]
        found.append(keys)
    return found

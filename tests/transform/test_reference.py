"""The page of functions is fresh, and what it says of each difference is what the engine answers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from functions_page import DIFFERENCES, PAGE, RESULTS, page
from transform_rules import ZONE, applied, compiled

from cdc.errors import CdcError
from cdc.schema import Column, DataType, TableSchema
from cdc.transform.catalogue import FUNCTIONS
from cdc.transform.compiled import CompiledRule
from cdc.transform.engine import Engine

EXAMPLES = [*DIFFERENCES, *(each.example for each in FUNCTIONS.values() if each.example and not each.alias_of)]
SCHEMA = TableSchema((Column("id", DataType.parse("INT"), nullable=False),), ("id",))


def test_the_page_is_what_the_catalogue_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make schemas`"


def test_every_function_is_on_the_page_with_its_result() -> None:
    text = page()
    for function in FUNCTIONS.values():
        assert f"`{function.name}" in text
        assert function.alias_of or function.name in RESULTS or not callable(function.result), function.name


def test_the_differences_are_as_the_page_says() -> None:
    told = {expression: here.partition(" (")[0] for expression, here, _ in EXAMPLES}  # others' answers cannot be run
    answered = [expression for expression, here in told.items() if here != "an error"]
    columns = ", ".join(f"{expression} AS a{number}" for number, expression in enumerate(answered))
    row = applied(_rule(columns), [("+I", {"id": 1})])[0][1]
    shown = {expression: _shown(row[f"a{number}"]) for number, expression in enumerate(answered)}
    assert shown == {expression: told[expression] for expression in answered}
    for expression in told.keys() - shown.keys():
        with pytest.raises(CdcError):
            applied(_rule(f"{expression} AS a"), [("+I", {"id": 1})])


def _rule(columns: str) -> CompiledRule:
    return compiled(SCHEMA, Engine(zone=ZONE, hash_key=b"k"), projection=f"id, {columns}")


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    return value.isoformat() if isinstance(value, dt.date) else str(value)

"""Random expressions over random rows: the engine answers as plain Python does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from expression_model import Expr, Fails, Maker, Row, row
from tiers import EXHAUSTIVE
from transform_rules import SCHEMA, ZONE, applied, rule

from cdc.errors import SpecError
from cdc.transform.compiler import compile_rule
from cdc.transform.engine import Engine
from cdc.transform.failures import Counts

AT_ONCE = 5


def answer(expression: Expr, values: Row) -> Any:
    try:
        return expression.of(values)
    except (Fails, OverflowError):
        return Fails


def disagreements(seed: int, engine: Engine) -> list[str]:
    """Where the engine says something else than the model; a value that fails in the model may be anything."""
    maker, source = Maker(seed), random.Random(seed)
    rows = [row(source, number) for number in range(30)]
    made = [maker.any(4) for _ in range(AT_ONCE)]
    items = ", ".join(f"{each.sql} AS a{number}" for number, each in enumerate(made))
    try:
        compiled = compile_rule(rule(projection=f"id, {items}", on_error="null"), SCHEMA, engine)
    except SpecError as error:  # a part without a column that fails for every row
        if "cannot be evaluated" not in str(error):
            raise
        return []
    counts = Counts()
    out = [given for _, given in applied(compiled, [("+I", each) for each in rows], counts)]
    found = []
    for number, each in enumerate(made):
        for values, given in zip(rows, out, strict=True):
            wanted = answer(each, values)
            if wanted is not Fails and given[f"a{number}"] != wanted:
                found.append(f"seed {seed}: {each.sql}\n  row {values}\n  is {given[f'a{number}']!r}, not {wanted!r}")
                break
    return found


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(zone=ZONE)


@pytest.mark.parametrize(("first", "last"), [(0, 20), pytest.param(20, 220, marks=EXHAUSTIVE)])
@pytest.mark.slow
def test_the_engine_and_the_model_agree(first: int, last: int, engine: Engine) -> None:
    assert [each for seed in range(first, last) for each in disagreements(seed, engine)] == []


def test_a_filter_passes_what_the_model_says(engine: Engine) -> None:
    for seed in range(40):
        maker, source = Maker(seed), random.Random(seed)
        rows = [row(source, number) for number in range(30)]
        condition = maker.boolean(3)
        compiled = compile_rule(rule(filter=condition.sql, on_error="null"), SCHEMA, engine)
        passed = {given["id"] for _, given in applied(compiled, [("+I", each) for each in rows])}
        for values in rows:
            wanted = answer(condition, values)
            assert wanted is Fails or (values["id"] in passed) == (wanted is True), (seed, condition.sql, values)

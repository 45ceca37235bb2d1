"""A list of sinks in a pipeline file: each is known by its name, and writes tables that no other one writes."""

from __future__ import annotations

import pytest
from together import together

from cdc.errors import SpecError
from cdc.schema import TableId
from cdc.spec.check import check
from cdc.spec.compiled import compile_spec
from cdc.spec.model import Checked

ORDERS, LINES = TableId("shop", "orders"), TableId("shop", "lines")
ROUTE = "route: [{source-table: shop.orders, sink-table: ods.orders}]"


def checked(*sinks: str) -> Checked:
    listed = "".join(f"- {{{sink}}}\n" for sink in sinks)
    rest = "pipeline: {name: p, schema.change.behavior: evolve}\n"
    text = f"source: {{type: values, rows: []}}\nsink:\n{listed}{rest}"
    return check("p.yaml", text.encode(), env={})


def duck(name: str, file: str, more: str = "") -> str:
    return f"name: {name}, type: duckdb, path: {file}{', ' if more else ''}{more}"


def test_each_has_its_own_route_and_behavior_and_the_rest_of_the_file() -> None:
    found = checked(duck("a", "a.db"), duck("b", "b.db", f"schema.change.behavior: lenient, {ROUTE}"))
    first, second = found.specs
    assert [spec.label for spec in found.specs] == ["p/a", "p/b"]
    assert [compile_spec(spec).policy.behavior.value for spec in found.specs] == ["evolve", "lenient"]
    assert compile_spec(first).routes(ORDERS) == (ORDERS,)
    assert compile_spec(second).routes(ORDERS) == (TableId("ods", "orders"),)
    assert found.with_sink("b").spec == second


def test_each_has_its_own_word_on_rows_that_are_there_and_on_values_that_get_lost() -> None:
    own = "existing-rows: replace, schema.change.lost-values: 'null'"
    first, second = (compile_spec(spec) for spec in checked(duck("a", "a.db"), duck("b", "b.db", own)).specs)
    assert [each.existing_rows.value for each in (first, second)] == ["upsert", "replace"]
    assert [each.coercion.lost for each in (first, second)] == ["fail", "null"]
    with pytest.raises(SpecError, match=r"4:\d+: sink\[1\]\.existing-rows: "):
        checked(duck("a", "a.db"), duck("b", "b.db", "existing-rows: keep"))


def test_one_sink_is_what_it_was() -> None:
    text = b"source: {type: values, rows: []}\nsink: {type: duckdb, path: a.db}\n"
    assert check("p.yaml", text, env={}).spec.label == "p"


def test_a_command_for_one_sink_names_them() -> None:
    found = checked(duck("a", "a.db"), duck("b", "b.db"))
    with pytest.raises(SpecError, match=r"has several sinks.*--sink.*: a, b"):
        _ = found.spec
    with pytest.raises(SpecError, match=r"has no sink 'c' \(there is: a, b\)"):
        found.with_sink("c")


@together(
    "sinks, told",
    [
        ((), ["2:1: sink: is an empty list"]),
        (("type: duckdb, path: a.db",), ["3:3: sink[0].name: is missing"]),
        (("name: a/b, type: duckdb, path: a.db",), ["3:10: sink[0].name: cannot be the name of a sink: 'a/b'"]),
        ((duck("a", "a.db"), duck("A", "b.db")), ["4:10: sink[1].name: is the name of sink[0] too"]),
        (
            (duck("a", "a.db", "pth: 1"), "name: b, type: duckdb"),
            ["sink[0].pth: unknown key", "sink[1].path: is missing"],
        ),
        ((duck("a", "a.db", "schema.change.behavior: x"),), ["sink[0].schema.change.behavior: must be one of"]),
        ((duck("a", "a.db", "route: [{source-table: s.t}]"),), ["sink[0].route[0].sink-table: is missing"]),
        ((duck("a", "a.db"), duck("b", "a.db")), ["4:3: sink[1]: writes the same tables as a"]),
    ],
)
def test_what_is_wrong_is_told_at_its_place_in_the_list(sinks: tuple[str, ...], told: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        checked(*sinks) if sinks else check("p.yaml", b"source: {type: values, rows: []}\nsink: []\n", env={})
    lines = [str(problem) for problem in caught.value.problems]
    assert [text for text in told if any(text in line for line in lines)] == told, lines


def test_one_cluster_may_have_indexes_of_two_sinks() -> None:
    search = "type: elasticsearch, hosts: 'http://127.0.0.1:9200'"
    found = checked(f"name: a, {search}", f"name: b, {search}, index.prefix: b-")
    assert [spec.rivals for spec in found.specs] == [{}, {}]
    with pytest.raises(SpecError, match="writes the same tables as a"):
        checked(f"name: a, {search}", f"name: b, {search}")


def test_tables_that_two_sinks_would_write_are_refused_once_they_are_known() -> None:
    first, _ = checked(duck("a", "a.db"), duck("b", "a.db", ROUTE)).specs
    routes = compile_spec(first).routes
    routes.check([ORDERS])
    with pytest.raises(SpecError, match=r"shop\.lines would also be written by the sink b"):
        routes.check([LINES, ORDERS])

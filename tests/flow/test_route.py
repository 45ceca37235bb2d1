"""Where the rows of a table go."""

from __future__ import annotations

import pytest
from together import together

from cdc.errors import SpecError
from cdc.route import RouteTable, Target, collisions, missing_groups, route
from cdc.schema import TableId
from cdc.spec.model import RouteRule

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def rule(source: str, sink: str, symbol: str | None = None, shard: str | None = None) -> RouteRule:
    return RouteRule(source_table=source, sink_table=sink, replace_symbol=symbol, shard_column=shard)


def sinks(table: TableId, *rules: RouteRule, first_match: bool = False) -> list[str]:
    return [str(target.table) for target in route(table, rules, first_match=first_match)]


def test_a_table_without_a_rule_keeps_its_id() -> None:
    assert sinks(ORDERS, rule("other.orders", "ods.x")) == ["shop.orders"]


def test_a_table_goes_where_its_rule_says() -> None:
    assert sinks(ORDERS, rule("shop.orders", "ods.sales")) == ["ods.sales"]


def test_the_symbol_stands_for_the_table_name_wherever_it_is() -> None:
    assert sinks(ITEMS, rule(r"shop.\.*", "ods_<>.t_<>_all", "<>")) == ["ods_items.t_items_all"]


def test_a_symbol_is_text_and_no_regular_expression() -> None:
    assert sinks(ITEMS, rule(r"shop.\.*", "ods.$", "$")) == ["ods.items"]


@together(
    "source, sink, expected",
    [
        (r"db_(\.*).(\.*)_tbl", "sink_$1.t_$2", "sink_7.t_orders"),
        (r"db_(\d+).\.*", "ods.all_$1$1", "ods.all_77"),
        (r"(\.*).x,db_(7).(\.*)_tbl", "ods.[$1]$2_$3", "ods.[]7_orders"),
        (r"(db_7.orders_tbl|db_8.items)", "ods.all", "ods.all"),
        (r"(db_(\d).(\.*)_tbl|db_8.items)", "ods.$2_$3", "ods.7_orders"),
        (r"db_(\d).(\.*)_tbl", r"ods.\$1_$1", "ods.$1_7"),
        (r"db_(\d).(\.*)_tbl", "ods.t$10", "ods.t70"),
    ],
)
def test_groups_of_the_pattern_in_the_sink_table(source: str, sink: str, expected: str) -> None:
    assert sinks(TableId("db_7", "orders_tbl"), rule(source, sink)) == [expected]


def test_a_group_that_is_not_there_is_known_by_name() -> None:
    assert missing_groups(rule(r"db_(\d).(\.*)", "ods.$1_$3")) == ["$3"]
    assert missing_groups(rule("shop.orders", "ods.$1")) == ["$1"]
    assert missing_groups(rule(r"db_(\d).(\.*)", "ods.$2_$1")) == []


def test_every_matching_rule_counts_or_the_first() -> None:
    rules = [rule("shop.orders", "a.first"), rule(r"shop.\.*", "b.<>", "<>"), rule(r"\.*.orders", "a.first")]
    assert sinks(ORDERS, *rules) == ["a.first", "b.orders"]
    assert sinks(ORDERS, *rules, first_match=True) == ["a.first"]


def test_several_tables_may_go_to_one() -> None:
    table = RouteTable([rule(r"shop.\.*", "ods.all", shard="origin")])
    assert table(ORDERS) == table(ITEMS) == (TableId("ods", "all"),)
    assert table.targets(ITEMS) == (Target(TableId("ods", "all"), "origin"),)
    assert collisions([ORDERS, ITEMS], table) == []


def test_sink_tables_whose_names_differ_only_in_case_are_refused() -> None:
    table = RouteTable([rule("shop.orders", "ods.All"), rule("shop.items", "ods.all")], file="p.yaml")
    told = "shop.items would go to ods.all; shop.orders would go to ods.All"
    assert collisions([ORDERS, ITEMS], table) == [told]
    assert collisions([ORDERS, TableId("Shop", "Orders")], RouteTable())
    with pytest.raises(SpecError, match=rf"p\.yaml:1:1: route: {told} \(some sinks treat such names as equal"):
        table.check([ORDERS, ITEMS])


def test_tables_of_one_spelling_are_refused() -> None:
    """Their shard columns would hold the same, and commands, reports and files of the state name them so."""
    twins = [TableId("a.b", "c"), TableId("a", "b.c")]
    with pytest.raises(SpecError, match=r"2 tables are spelled a\.b\.c \("):
        RouteTable([rule(r"\.*.\.*", "ods.all", shard="origin")]).check(twins)
    assert collisions([TableId("a.b", "c"), ITEMS], RouteTable([rule("shop.items", "a.b.c")]))

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cdc.errors import SpecError
from cdc.flow.route import check_collisions, collisions, route
from cdc.schema import TableId


@dataclass(frozen=True)
class Rule:
    source_table: str
    sink_table: str
    replace_symbol: str | None = None


ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def test_a_table_without_a_rule_keeps_its_id() -> None:
    assert route(ORDERS, [Rule("other.orders", "ods.x")]) == ORDERS


def test_a_table_goes_where_its_rule_says() -> None:
    assert route(ORDERS, [Rule("shop.orders", "ods.sales")]) == TableId("ods", "sales")


def test_the_symbol_stands_for_the_table_name_wherever_it_is() -> None:
    rules = [Rule(r"shop.\.*", "ods_<>.t_<>_all", "<>")]
    assert route(ITEMS, rules) == TableId("ods_items", "t_items_all")


def test_a_symbol_is_text_and_no_regular_expression() -> None:
    assert route(ITEMS, [Rule(r"shop.\.*", "ods.$", "$")]) == TableId("ods", "items")


def test_the_first_matching_rule_counts() -> None:
    rules = [Rule("shop.orders", "a.first"), Rule(r"shop.\.*", "a.second")]
    assert route(ORDERS, rules) == TableId("a", "first")


def test_two_tables_into_one_are_refused() -> None:
    rules = [Rule(r"shop.\.*", "ods.all")]
    assert collisions([ORDERS, ITEMS], rules) == ["shop.items, shop.orders would all go to ods.all"]
    with pytest.raises(SpecError, match=r"p\.yaml:1:1: route: shop\.items, shop\.orders would all go to ods\.all"):
        check_collisions([ORDERS, ITEMS], rules, file="p.yaml")


def test_a_route_onto_the_name_of_an_unrouted_table_is_refused() -> None:
    assert collisions([ORDERS, ITEMS], [Rule("shop.orders", "shop.items")])


def test_names_that_differ_only_in_case_collide() -> None:
    assert collisions([ORDERS, TableId("Shop", "Orders")], [])


def test_a_table_that_several_rules_match_needs_first_match() -> None:
    rules = [Rule("shop.orders", "a.first"), Rule(r"shop.\.*", "b.<>", "<>")]
    assert collisions([ORDERS], rules) == ["shop.orders matches several rules (route[0], route[1])"]
    assert collisions([ORDERS, ITEMS], rules, first_match=True) == []


def test_one_to_one_rules_pass() -> None:
    check_collisions([ORDERS, ITEMS], [Rule(r"shop.\.*", "ods.<>", "<>")])

from __future__ import annotations

import pickle

import pytest
from together import together

from cdc.pattern import PatternError, TablePattern, split_patterns
from cdc.schema import TableId


@together(
    "pattern, table, expected",
    [
        ("shop.orders", "shop.orders", True),
        ("shop.orders", "SHOP.Orders", True),
        ("shop.orders", "shop.orders2", False),
        ("shop.orders", "myshop.orders", False),
        (r"shop.\.*", "shop.anything", True),
        (r"shop.\.*", "shops.anything", False),
        (r"\.*.\.*", "a.b", True),
        (r"db\..\.*", "db1.t", True),
        (r"db\..\.*", "db12.t", False),
        ("app_[0-9]+.(users|orders)", "app_12.orders", True),
        ("app_[0-9]+.(users|orders)", "app_x.orders", False),
        ("app_[0-9]+.(users|orders)", "app_12.items", False),
        ("a.b, c.d", "c.d", True),
        (r"a.x{1\,2}", "a.xx", True),
        (r"a.x{1\,2}", "a.xxx", False),
        (r"shop.(?<kind>o\.*)", "shop.orders", True),
        (r"\.*.shop.orders", "shop.orders", True),
        (r"shop\.*", "shop.orders", False),
        ("orders", "shop.orders", False),
        ("orders", "orders", True),
        ("a..b", "a.b", True),
        (r"shop.\.*", "shop.two\nlines\u2028", True),
        (r"shop.(\.*)", "shop.two\nlines\u2028", True),
    ],
)
def test_flinks_dot_rule(pattern: str, table: str, expected: bool) -> None:
    assert TablePattern(pattern).matches(TableId.parse(table)) is expected


def test_excluded_tables_are_left_out() -> None:
    pattern = TablePattern(r"shop.\.*", r"shop.tmp_\.*, shop.secret")
    names = ["orders", "tmp_1", "secret", "secrets"]
    assert [name for name in names if pattern.matches(TableId("shop", name))] == ["orders", "secrets"]


EMPTY_PARTS = (".a.b", "a.b.")


@together("pattern", [*EMPTY_PARTS, "", " , ", "a.b.c.d", "a.*", "a.(", "a.[", r"a.\p{L}", "a.[a-z&&[b]]", "a.b\\"])
def test_a_pattern_that_cannot_be_read_is_refused_with_the_next_step(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        TablePattern(pattern)
    assert caught.value.hint


def test_the_error_explains_the_dot_rule() -> None:
    with pytest.raises(PatternError, match=r"is not a regular expression") as caught:
        TablePattern("shop.(orders")
    assert r"regex 'any character' is written \." in caught.value.hint


@together(
    "written, meant",
    [(r"app_db\..*", r"app_db.\.*"), (r"db_[0-9]+\..*", r"db_[0-9]+.\.*"), ("shop.*", r"shop.\.*")],
)
def test_a_pattern_of_the_usual_regular_expressions_is_turned_into_one_of_ours(written: str, meant: str) -> None:
    with pytest.raises(PatternError) as caught:
        TablePattern(written)
    assert f"did you mean `{meant}`?" in caught.value.hint


def test_a_bad_exclude_pattern_is_refused_too() -> None:
    with pytest.raises(PatternError):
        TablePattern("shop.orders", "shop.*")


def test_the_shortest_alternative_counts_as_fewest_parts() -> None:
    assert TablePattern(r"shop.a, shop\.*").fewest_parts == 1
    assert TablePattern("shop.a, x.shop.b").fewest_parts == 2


def test_a_pattern_travels_to_other_processes() -> None:
    pattern = TablePattern(r"shop.\.*", "shop.a")
    again = pickle.loads(pickle.dumps(pattern))
    assert again == pattern
    assert again.matches(TableId("shop", "b"))


def test_an_escaped_comma_does_not_separate() -> None:
    assert split_patterns(r" a.b , c\,d ,, ") == ["a.b", r"c\,d"]


@together("name", ["Orders", "(O|o)rders+", "o(r|R)+ders"])
def test_both_halves_ignore_case_or_neither_does(name: str) -> None:
    upper, lower = TableId("shop", "Orders"), TableId("shop", "orders")
    assert [TablePattern(f"shop.{name}").matches(table) for table in (upper, lower)] == [True, True]
    exact = TablePattern(f"shop.{name}", ignore_case=False)
    assert [exact.matches(table) for table in (upper, lower)] == [name[0] in "O(", name[0] in "o("]
    for ignore_case in (True, False):
        left_out = TablePattern(r"shop.\.*", f"shop.{name}", ignore_case)
        taken = TablePattern(f"shop.{name}", "", ignore_case)
        assert all(left_out.matches(table) is not taken.matches(table) for table in (upper, lower))

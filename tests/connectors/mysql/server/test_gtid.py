"""GTID sets: pure properties, and the real server as the oracle."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from together import together
from trials import trials

from cdc_services.server import MySqlServer
from connectors.mysql.gtid import GtidSet, MariaDbGtid

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "5b2f1a04-71ca-11e1-9e33-c80aa9429562"

numbers = st.integers(1, 40)
runs = st.tuples(st.sampled_from([A, B, f"{A}:tag", f"{A}:a_b2", f"{B}:tag"]), numbers, st.integers(0, 12)).map(
    lambda run: (run[0], run[1], run[1] + run[2])
)
gtid_sets = st.lists(runs, max_size=8).map(lambda some: GtidSet().add_all(some))


def members(gtids: GtidSet) -> set[tuple[tuple[str, str], int]]:
    return {(source, n) for source, intervals in gtids.sources for a, b in intervals for n in range(a, b + 1)}


def test_text_is_read_as_the_server_accepts_it() -> None:
    text = f" {B.upper()}:7:1-3:4,\n{A.replace('-', '')} : 1 - 2 : Tag : 5:9-9 , {A}:3"
    assert str(GtidSet.parse(text)) == f"{A}:1-3:tag:5:9,{B}:1-4:7"
    assert str(GtidSet.parse("")) == ""
    assert not GtidSet.parse(" , ")


@together(
    "text, part",
    [
        (A, "no transaction numbers"),
        (f"{A}:0-3", "0-3"),
        (f"{A}:5-3", "5-3"),
        (f"{A}:1-3:9tag", "9tag"),
        ("0-1-100", "not a server uuid"),
        (f"{A}:9223372036854775807", "9223372036854775807"),
    ],
)
def test_wrong_text_is_refused_with_the_part(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        GtidSet.parse(text)


def test_one_more_transaction_extends_the_interval() -> None:
    seen = GtidSet.parse(f"{A}:1-5").add(A, 6, 6).add(f"{A}:Blue", 1, 2)
    assert str(seen) == f"{A}:1-6:blue:1-2"
    assert seen.count() == 8
    assert str(seen.of_source(B.upper())) == ""
    assert seen.of_source(A.upper()) == seen


def test_what_is_newer_than_a_set_has_higher_numbers_of_its_sources() -> None:
    have = GtidSet.parse(f"{A}:5-9:blue:1-2")
    assert str(GtidSet.parse(f"{A}:1-12:blue:4:red:1,{B}:1-3").newer_than(have)) == f"{A}:10-12:blue:4"
    assert not GtidSet.parse(f"{A}:1-9").newer_than(have)


@given(gtid_sets, gtid_sets)
def test_operations_are_those_of_sets(one: GtidSet, two: GtidSet) -> None:
    assert members(one.union(two)) == members(one) | members(two)
    assert members(one.minus(two)) == members(one) - members(two)
    assert one.contains(two) == (members(one) >= members(two))
    assert (one == two) == (members(one) == members(two))
    assert GtidSet.parse(str(one)) == one
    assert one.count() == len(members(one))


@pytest.mark.mysql
@settings(max_examples=trials(50), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(gtid_sets, gtid_sets), min_size=20, max_size=20))
def test_the_server_agrees(mysql_server: MySqlServer, pairs: list[tuple[GtidSet, GtidSet]]) -> None:
    tests = [
        f"SELECT GTID_SUBTRACT('{one}', '{two}'), GTID_SUBSET('{two}', '{one}'), GTID_SUBTRACT('{one}', '')"
        for one, two in pairs
    ]
    rows = mysql_server.execute(" UNION ALL ".join(tests))
    assert len(rows) == len(pairs)
    for (one, two), (minus, subset, same) in zip(pairs, rows, strict=True):
        assert str(one.minus(two)) == minus.replace("\n", "").replace(" ", "")
        assert str(one) == same.replace("\n", "").replace(" ", "")
        assert one.contains(two) == bool(subset)


def test_mariadb_positions() -> None:
    position = MariaDbGtid.parse("1-2-7, 0-1-100,0-9-101")
    assert str(position) == "0-9-101,1-2-7"
    assert str(position.add(0, 1, 102)) == "0-1-102,1-2-7"
    assert str(position.lacking(MariaDbGtid.parse("0-1-101,1-2-8,5-1-1"))) == "1-2-8,5-1-1"
    assert position.contains(MariaDbGtid.parse("0-1-100"))
    assert MariaDbGtid().contains(MariaDbGtid.parse(""))
    assert not MariaDbGtid().contains(position)
    with pytest.raises(ValueError, match="0-1"):
        MariaDbGtid.parse("0-1 ")

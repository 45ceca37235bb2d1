"""Ranges named by GTIDs: every transaction of the range once, and no other."""

from __future__ import annotations

from hypothesis import given
from test_gtid import A, B, gtid_sets, members

from connectors.mysql.gtid import GtidSet
from connectors.mysql.server.gtid_range import GtidRange, lacking


@given(gtid_sets, gtid_sets)
def test_a_range_has_what_is_in_one_set_and_not_in_the_other(after: GtidSet, upto: GtidSet) -> None:
    part = GtidRange(str(after), str(upto), mariadb=False)
    wanted = members(upto) - members(after)
    assert part.complete == (not wanted)
    for number in range(1, 55):
        for source in (A, B, f"{A}:tag", f"{A}:a_b2", f"{B}:tag"):
            uuid, _, tag = source.partition(":")
            assert part.tick_off(source, number) == (((uuid, tag), number) in wanted)
    assert part.complete


def test_a_mariadb_range_ends_with_the_last_of_each_domain() -> None:
    part = GtidRange("0-1-5,2-1-9", "0-2-8,1-1-1,2-1-9", mariadb=True)
    assert [part.tick_off("0-1", number) for number in (5, 6, 9)] == [False, True, False]
    assert not part.tick_off("2-1", 9)
    assert part.tick_off("1-1", 1)
    assert not part.complete
    assert part.tick_off("0-2", 8)  # numbers may have gaps
    assert part.complete


def test_what_a_server_lacks() -> None:
    assert str(lacking(f"{A}:1-5", f"{A}:4-7,{B}:1", mariadb=False)) == f"{A}:6-7,{B}:1"
    assert not lacking(f"{A}:1-5", f"{A}:2", mariadb=False)
    assert str(lacking("0-1-5", "0-1-6,3-1-1", mariadb=True)) == "0-1-6,3-1-1"
    assert not lacking("0-2-9,1-1-1", "0-1-6", mariadb=True)
    assert str(lacking("0-2-6", "0-1-6", mariadb=True)) == "0-1-6"  # the same number from another server: a fork

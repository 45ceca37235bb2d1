"""Logs written by hand: announcements, table ids, and events that a server writes only in passing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from binlog_builder import Event
from decoded import Decoded, decode
from log_script import BEGIN, XID, chunk, seen
from together import together

from cdc.errors import CorruptLog, SchemaUnknown, UnsupportedChange
from cdc.schema import TableId
from connectors.mysql import events
from connectors.mysql.rows.table_map import parse_table_map
from connectors.mysql.table import MySqlColumn, MySqlTable
from connectors.mysql.value_rules import ValueRules

_INT = bytes([3])
_STATEMENT_END = 1


def _map(number: int, table: TableId, types: bytes = _INT, metadata: bytes = b"", optional: bytes = b"") -> Event:
    names = b"".join(bytes([len(part)]) + part.encode() + b"\0" for part in (table.database, table.table))
    fields = bytes([len(types)]) + types + bytes([len(metadata)]) + metadata + bytes((len(types) + 7) // 8)
    return events.TABLE_MAP, number.to_bytes(6, "little") + b"\1\0" + names + fields + optional


def _insert(number: int, *values: int, flags: int = _STATEMENT_END, extra: bytes = b"") -> Event:
    head = number.to_bytes(6, "little") + flags.to_bytes(2, "little") + (2 + len(extra)).to_bytes(2, "little") + extra
    rows = b"".join(b"\0" + value.to_bytes(4, "little", signed=True) for value in values)
    return events.WRITE_ROWS_V2, head + b"\1\xff" + rows


def _table(name: str) -> MySqlTable:
    return MySqlTable(TableId("d", name), (MySqlColumn("a", "int"),))


_T, _U = _table("t"), _table("u")


def _decoded(script: Iterable[Event], *tables: MySqlTable, database: str = "") -> Decoded:
    return decode({table.id: table for table in tables}, [chunk([seen(1), BEGIN, *script, XID])], database=database)


def test_a_table_id_means_another_table_in_the_next_statement() -> None:
    script = [_map(7, _T.id), _insert(7, 1), _map(7, _U.id), _insert(7, 2), _map(8, _T.id), _insert(8, 3)]
    found = _decoded(script, _T, _U)
    assert found.rows(_T.id) == [(1,), (3,)]
    assert found.rows(_U.id) == [(2,)]


def test_an_id_is_void_after_its_statement() -> None:
    with pytest.raises(CorruptLog, match="no TABLE_MAP announced") as caught:
        _decoded([_map(7, _T.id), _insert(7, 1), _insert(7, 2)], _T)
    assert caught.value.where.startswith("binlog.000001:")
    assert caught.value.hint


def test_several_events_of_one_statement() -> None:
    script = [_map(7, _T.id), _map(8, _U.id), _insert(7, 1, flags=0), _insert(8, 2, flags=0), _insert(7, 3)]
    found = _decoded(script, _T, _U)
    assert found.rows(_T.id) == [(1,), (3,)]
    assert found.rows(_U.id) == [(2,)]


def test_the_empty_event_that_only_ends_a_statement() -> None:
    end = (events.WRITE_ROWS_V2, (0xFFFFFF).to_bytes(6, "little") + b"\1\0\2\0\1\xff")
    found = _decoded([_map(7, _T.id), _insert(7, 1, flags=0), end, _map(7, _U.id), _insert(7, 2)], _T, _U)
    assert found.rows(_T.id) == [(1,)]
    assert found.rows(_U.id) == [(2,)]


def test_an_event_without_rows_gives_no_block() -> None:
    assert _decoded([_map(7, _T.id), _insert(7)], _T).blocks == []


def test_extra_data_is_stepped_over() -> None:
    assert _decoded([_map(7, _T.id), _insert(7, 5, extra=b"\1\2\3")], _T).rows(_T.id) == [(5,)]


def test_rows_of_the_first_version() -> None:
    kind, body = _insert(7, -5)
    assert kind == events.WRITE_ROWS_V2
    old = (events.WRITE_ROWS_V1, body[:8] + body[10:])
    assert _decoded([_map(7, _T.id), old], _T).rows(_T.id) == [(-5,)]


def test_tables_that_are_not_wanted_need_no_definition() -> None:
    other = TableId("other", "x")
    script = [_map(1, other, bytes([200])), _insert(1, 9), _map(2, _T.id), _insert(2, 1)]
    assert _decoded(script, _T).rows(_T.id) == [(1,)]


def test_more_tables_and_ids_than_there_is_room_for_at_first() -> None:
    tables = [_table(f"t{number}") for number in range(1500)]
    script = [_map(1 << 30 | number * 1024, table.id) for number, table in enumerate(tables)]
    script += [_insert(1 << 30 | number * 1024, number, flags=number == 1499) for number in range(1500)]
    found = _decoded(script, *tables)
    assert [block.rows.column(0).to_pylist() for block in found.blocks] == [[number] for number in range(1500)]
    assert {block.table for block in found.blocks} == {table.id for table in tables}


def test_many_announcements_of_one_table() -> None:
    names = [b"\4" + bytes([9]) + bytes([8]) + f"name{n:04}".encode() for n in range(2000)]
    script = [event for n, name in enumerate(names) for event in (_map(n, _T.id, optional=name), _insert(n, n))]
    with pytest.raises(SchemaUnknown, match="rows name it name0000"):
        _decoded(script, _T)
    odd = [b"\x63\4" + n.to_bytes(4, "little") for n in range(2000)]
    script = [event for n, field in enumerate(odd) for event in (_map(n, _T.id, optional=field), _insert(n, n))]
    found = _decoded(script, _T)
    assert found.rows(_T.id) == [(n,) for n in range(2000)]
    assert len(found.blocks) == 1


@together(
    "event, message",
    [
        (_insert(7, 1)[1][:-1], "inconsistent lengths in column a"),
        (_insert(7, 1)[1] + b"\0", "inconsistent lengths in column a"),
        (_insert(7, 1)[1][:10] + b"\2\xff\0", "as many columns as"),
        (_insert(7, 1)[1][:10], "inconsistent lengths"),
        (_insert(7, 1)[1][:10] + b"\1\xfe\0" + bytes(4), "without all of their columns"),
    ],
)
def test_events_that_do_not_add_up(event: bytes, message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        _decoded([_map(7, _T.id), (events.WRITE_ROWS_V2, event)], _T)
    assert "d.t at binlog.000001:" in str(caught.value)


def test_rows_without_their_generated_columns_name_them() -> None:
    table = replace(_T, columns=(replace(_T.columns[0], generated=True),))
    bare = (events.WRITE_ROWS_V2, _insert(7, 1)[1][:10] + b"\1\xfe\0" + bytes(4))
    with pytest.raises(UnsupportedChange, match="without their generated columns a") as caught:
        _decoded([_map(7, table.id), bare], table)
    assert "tables.exclude" in caught.value.hint


def test_a_sign_that_the_definition_does_not_have_is_refused() -> None:
    unsigned = _map(7, _T.id, optional=b"\1\1\x80")
    with pytest.raises(SchemaUnknown, match="rows are unsigned there"):
        _decoded([unsigned, _insert(7, 1)], _T)


def test_the_log_s_own_word_on_a_charset_counts() -> None:
    table = MySqlTable(TableId("d", "s"), (MySqlColumn("a", "varchar", 20, charset="utf8mb4"),))
    latin1 = _map(7, table.id, bytes([15]), b"\x14\0", optional=b"\2\1\x08")
    row = (7).to_bytes(6, "little") + b"\1\0\2\0\1\xff" + b"\0\4caf\xe9"
    assert _decoded([latin1, (events.WRITE_ROWS_V2, row)], table).rows(table.id) == [("café",)]


def test_a_vector_that_is_none_of_floats_is_told_with_the_way_out() -> None:
    table = MySqlTable(TableId("d", "v"), (MySqlColumn("a", "vector", 3),))
    announced = _map(7, table.id, bytes([242]), b"\4")
    row = (7).to_bytes(6, "little") + b"\1\0\2\0\1\xff" + b"\0\5\0\0\0abcde"
    with pytest.raises(
        UnsupportedChange, match="column a holds a VECTOR whose length is not a multiple of 4"
    ) as caught:
        _decoded([announced, (events.WRITE_ROWS_V2, row)], table)
    assert "LENGTH(a) % 4" in caught.value.hint
    assert "tables.exclude" in caught.value.hint


def test_an_announcement_that_is_cut_short() -> None:
    _, body = _map(7, _T.id)
    assert parse_table_map(body[6:], "here").table == _T.id
    for size in range(6, len(body)):
        with pytest.raises(CorruptLog, match="TABLE_MAP event cannot be read"):
            parse_table_map(body[6:size], "here")


@together("size", [8, 9, 12, 14, 16])
def test_an_announcement_that_is_cut_short_in_the_log(size: int) -> None:
    _, body = _map(7, _T.id)
    with pytest.raises(CorruptLog, match=r"binlog\.000001:"):
        _decoded([(events.TABLE_MAP, body[:size])], _T, database="d")


def test_tinyint_1_can_be_boolean() -> None:
    columns = (MySqlColumn("a", "tinyint", 1), MySqlColumn("b", "tinyint", 1, unsigned=True))
    table = MySqlTable(TableId("d", "flags"), columns)
    rows = b"".join(b"\0" + bytes([a, b]) for a, b in ((0, 0), (1, 1), (0xFF, 0xFF), (0, 7), (2, 0))) + b"\3"
    event = (events.WRITE_ROWS_V2, (7).to_bytes(6, "little") + b"\1\0\2\0\2\3" + rows)
    log = [chunk([seen(1), BEGIN, _map(7, table.id, bytes([1, 1])), event, XID])]
    plain = decode({table.id: table}, log).rows(table.id)
    assert plain == [(0, 0), (1, 1), (-1, 255), (0, 7), (2, 0), (None, None)]
    flags = decode({table.id: table}, log, rules=ValueRules(tinyint1_as_boolean=True)).rows(table.id)
    assert flags == [(False, 0), (True, 1), (True, 255), (False, 7), (True, 0), (None, None)]

"""Offsets: read back as written, those of earlier versions too; what cannot be read is refused."""

from __future__ import annotations

from typing import Any

import pytest
from together import together

from cdc.errors import StateError
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.positions import LogPosition

HERE = LogPosition("binlog.000007", 1234)
PLAIN = {"file": "binlog.000007", "position": 1234, "gtids": None, "schemas": 3}
FULL = {**PLAIN, "gtids": "0-1-5", "server": "uuid", "chunks": 4, "files_ahead": 2}


@together("offset", [
    MySqlOffset(HERE, None, 3), MySqlOffset(HERE, "", 0, "uuid"), MySqlOffset(HERE, "0-1-5", 3, "uuid", 4, 2),
])  # fmt: skip
def test_an_offset_is_read_back_as_written(offset: MySqlOffset) -> None:
    assert MySqlOffset.from_json(offset.to_json()) == offset


@pytest.mark.parametrize(("fields", "offset"), [
    (PLAIN, MySqlOffset(HERE, None, 3)), (FULL, MySqlOffset(HERE, "0-1-5", 3, "uuid", 4, 2)),
])  # fmt: skip
def test_offsets_without_a_version_are_read(fields: dict[str, Any], offset: MySqlOffset) -> None:
    assert MySqlOffset.from_json(fields) == offset
    assert MySqlOffset.from_json(fields).to_json() == {"version": 1, **fields}


def test_an_offset_of_a_later_version_is_refused_with_the_way_out() -> None:
    with pytest.raises(StateError, match=r"has version 2, this program reads up to 1 \(continue with the version"):
        MySqlOffset.from_json({**FULL, "version": 2})


@together("broken, reason", [
    ({"position": "4"}, "its position is no count"), ({"position": -1}, "its position is no count"),
    ({"schemas": True}, "its schemas is no count"), ({"file": None}, "its file is not text"),
    ({"gtids": 5}, "its gtids are no text"), ({"moon": 1}, "it has moon"), ({"version": "x"}, "has version x"),
])  # fmt: skip
def test_what_is_no_offset_is_refused(broken: dict[str, Any], reason: str) -> None:
    with pytest.raises(StateError, match=reason):
        MySqlOffset.from_json({**FULL, **broken})
    with pytest.raises(StateError, match="its file is not text"):
        MySqlOffset.from_json({"position": 4, "schemas": 0})


def test_only_what_is_copied_may_differ_on_the_same_log() -> None:
    offset = MySqlOffset(HERE, "0-1-5", 3, "uuid", 4, 2)
    assert offset.same_log(MySqlOffset(HERE, "0-1-5", 3, "uuid", 9, 2))
    assert not offset.same_log(MySqlOffset(HERE, "0-1-5", 2, "uuid", 4, 2))


def test_the_sequence_goes_on_growing_on_another_server() -> None:
    old, new = MySqlOffset(HERE), MySqlOffset(LogPosition("mysql-bin.000001", 4), files_ahead=7)
    assert old.sequence < new.sequence

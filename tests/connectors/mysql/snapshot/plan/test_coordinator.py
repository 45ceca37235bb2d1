"""What a batch's chunks are planned by. No server: the parts that ask one are stand-ins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

from cdc.schema import TableId
from cdc.state.store import LocalStore
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.plan import coordinator
from connectors.mysql.table import MySqlColumn, MySqlTable

COPIED, OTHER = TableId("shop", "t"), TableId("shop", "u")


def table(name: TableId, key: str) -> MySqlTable:
    return MySqlTable(name, (MySqlColumn(key, "int", nullable=False),), (key,))


@pytest.mark.parametrize("altered", [COPIED, OTHER])
def test_chunks_are_found_again_when_a_table_that_is_being_copied_is_redefined(
    tmp_path: Path, altered: TableId
) -> None:
    """Those that were found before are cut by a column that it has no more."""
    before = {name: table(name, "id") for name in (COPIED, OTHER)}
    definitions = {1: before, 2: before | {altered: table(altered, "number")}}
    history, found = MagicMock(tables=definitions.__getitem__), MagicMock(started=True)
    found.unblock.return_value, found.chunks.return_value = False, []
    entries = MagicMock(**{"of.return_value": []})
    with patch.multiple(coordinator, NextChunks=lambda *_: found, LogEntries=lambda *_: entries, Cascading=MagicMock()):
        planner = coordinator.Coordinator(MagicMock(), LocalStore(tmp_path), history, MagicMock(), MagicMock(), [])
        planner.begin([COPIED])
        start = MySqlOffset(LogPosition("binlog.000001", 4), schemas=1, chunks=1)
        end = replace(start, position=LogPosition("binlog.000001", 400), schemas=2)
        assert planner.plan(start, end, None, 0.0) == end
    assert found.start.called == (altered == COPIED)

"""The events of a batch, of the log's changes and the plan's entries. No server."""

from __future__ import annotations

from typing import Any

import pytest
from together import together

from cdc import events as on
from cdc.schema import AddColumn, Column, CreateTable, DataType, DropTable, RenameTable, TableId, TableSchema
from connectors.mysql.snapshot.chunk import DONE, LEFT, Begin, Chunk, Entry, LogLost, Rename, TableEnd
from connectors.mysql.snapshot.plan.events import batch_events

T, U = TableId("shop", "t"), TableId("shop", "u")
INT = DataType.parse("INT")
CREATED = CreateTable(T, TableSchema((Column("id", INT),), ("id",)))
ADD = on.TableChanged(T, AddColumn(T, Column("x", INT)))
RENAMED = on.event(RenameTable(T, U))
BEGUN = on.SnapshotBegun


@together(
    "logged, running, entries, found",
    [
        pytest.param([ADD], [], [], [ADD], id="nothing is snapshotted"),
        pytest.param(
            [on.event(CREATED)], [], [Begin(T, "initial")], [on.TableCreated(T, CREATED, by_snapshot=True)],
            id="a first snapshot",
        ),
        pytest.param([on.event(CREATED)], [], [], [on.event(CREATED)], id="a table whose rows are in the log"),
        pytest.param([], [], [Begin(T, "resync", "r")], [BEGUN(T)], id="asked for"),
        pytest.param([], [T], [Begin(T, "resync", "r")], [on.SnapshotVoid(T), BEGUN(T)], id="asked for while one runs"),
        pytest.param([], [T], [TableEnd(T, DONE)], [on.SnapshotDone(T)], id="done"),
        pytest.param([ADD], [T], [TableEnd(T, DONE)], [on.SnapshotDone(T), ADD], id="done before a change"),
        pytest.param([ADD], [T], [Begin(T, "restart")], [on.SnapshotVoid(T), ADD, BEGUN(T)], id="void at a change"),
        pytest.param([RENAMED], [T], [Rename(T, U)], [RENAMED], id="renamed, and goes on"),
        pytest.param(
            [RENAMED], [T], [Rename(T, U), TableEnd(U, DONE)], [on.SnapshotDone(T), RENAMED], id="done before renamed"
        ),
        pytest.param(
            [RENAMED], [T], [Rename(T, U), Begin(U, "restart")], [on.SnapshotVoid(T), RENAMED, BEGUN(U)],
            id="renamed, and void",
        ),
        pytest.param(
            [on.event(DropTable(T))], [T], [TableEnd(T, "dropped")], [on.TableDropped(T)], id="a table that is gone"
        ),
        pytest.param(
            [on.event(CREATED), RENAMED], [], [Begin(U, "new")],
            [on.TableCreated(T, CREATED, by_snapshot=True), RENAMED], id="a new table that is renamed at once",
        ),
        pytest.param(
            [on.event(DropTable(T)), on.event(CREATED)], [T], [TableEnd(T, "dropped"), Begin(T, "new")],
            [on.TableDropped(T), on.TableCreated(T, CREATED, by_snapshot=True)], id="another one of its name",
        ),
        pytest.param(
            [ADD], [T], [LogLost(), Begin(T, "restart", reason="lost")],
            [on.RowsUncertain(T, on.Uncertain("lost"), gap=True), ADD, BEGUN(T)], id="a part of the log is lost",
        ),
        pytest.param(
            [], [T], [TableEnd(T, LEFT)], [on.CaptureEnded(T, "the source follows it no further")], id="it is left out"
        ),
        pytest.param([], [], [Begin(T, "resync", "r"), Chunk(1, T, last=True)], [BEGUN(T)], id="with its chunks"),
        pytest.param(
            [], [T], [Begin(T, "restart"), Begin(T, "resync", "r")], [on.SnapshotVoid(T), BEGUN(T)], id="two reasons"
        ),
        pytest.param(
            [], [], [Begin(T, "uncertain", keys_certain=True)], [BEGUN(T, keys_certain=True)], id="keys are certain"
        ),
    ],
)  # fmt: skip
def test_the_events_of_a_batch(
    logged: list[Any], running: list[TableId], entries: list[Entry], found: list[Any]
) -> None:
    assert batch_events(logged, running, entries) == found

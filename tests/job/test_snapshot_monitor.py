"""What is shown of tables that are being copied."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc.errors import StateError
from cdc.job.snapshot_monitor import SnapshotMonitor, bar, duration, snapshots_in_progress
from cdc.schema import TableId
from cdc.source import TableProgress
from cdc.state.notices import Notices
from cdc.state.store import LocalStore

T, U = TableId("shop", "orders"), TableId("shop", "items")


class World:
    """A source whose tables a test sets, and a clock."""

    def __init__(self, root: Path) -> None:
        self.tables: list[TableProgress] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.now, self.root = 1000.0, root
        self.snapshots = SnapshotMonitor(lambda: self.tables, LocalStore(root), self.say, lambda: self.now)

    def say(self, message: str, **fields: Any) -> None:
        self.lines.append((message, fields))

    def at(self, seconds: float, *tables: TableProgress) -> None:
        self.now, self.tables = 1000.0 + seconds, list(tables)
        self.snapshots.update()

    def file(self) -> dict[str, Any]:
        return dict(json.loads((self.root / "snapshot.json").read_text()))


def part(rows: int, *, table: TableId = T, state: str = "copying") -> TableProgress:
    return TableProgress(table, state, rows, 1000, rows // 100, 10, 1000.0, 1004.0, 50.0)


def test_a_table_in_flight_has_a_bar() -> None:
    assert bar(part(250)) == (
        "shop.orders                      [#####...............]  25%  250 of 1,000 rows, 50 rows/s, 15 s left, "
        "chunk 2 of 10"
    )


def test_a_rate_of_nothing_promises_nothing() -> None:
    stuck = TableProgress(T, "copying", 0, 0, 0, 1)
    assert stuck.eta_s is None
    assert "left" not in bar(stuck)


def test_durations_are_short() -> None:
    assert [duration(seconds) for seconds in (8.4, 200, 9000)] == ["8 s", "3 min", "2.5 h"]


def test_bars_stand_for_tables_in_flight_and_the_rest_is_a_number(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.at(2, part(10), part(0, table=U, state="waiting"))
    lines = world.snapshots.bars()
    assert len(lines) == 2
    assert lines[1] == "1 tables wait to be copied"
    world.at(-7200, part(1000, state="done"))  # the clock was set back
    assert world.snapshots.bars() == []


def test_other_tools_read_a_file(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.at(2, part(100))
    assert world.file() == {
        "at_s": 1002.0,
        "tables": {
            "shop.orders": {
                "state": "copying", "rows": 100, "estimated_rows": 1000, "rows_per_s": 50, "eta_s": 18, "chunks": 1,
                "planned_chunks": 10,
            }
        },
    }  # fmt: skip
    world.at(2.5, part(200))
    assert world.file()["tables"]["shop.orders"]["rows"] == 100, "asked once a second"
    world.snapshots.update(last=True)
    assert world.file()["tables"]["shop.orders"]["rows"] == 200


def test_a_full_disk_under_what_is_for_information_only_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in the middle of a batch, and Java printed twenty lines before the error."""

    def full(self: LocalStore, *given: object, **more: object) -> None:
        raise StateError("cannot write the state: No space left on device")

    monkeypatch.setattr(LocalStore, "write_json_later", full)
    world = World(tmp_path)
    world.at(2, part(100))
    world.at(4, part(1000, state="done"))
    assert [message for message, _ in world.lines] == ["copying", "copied"]
    notices = Notices(LocalStore(tmp_path))
    notices.add(["a table was skipped"])
    assert (notices.drain(), notices.drain()) == (["a table was skipped"], [])


def test_a_source_that_copies_nothing_leaves_no_file(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.at(2)
    assert list(tmp_path.iterdir()) == []
    assert world.snapshots.bars() == []


def test_the_log_says_when_a_table_is_done_and_now_and_then_how_far_it_is(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.at(2, part(100))
    world.at(4, part(300))
    world.at(14, part(600))
    world.at(16, part(1000, state="done"))
    assert [(message, fields["rows"]) for message, fields in world.lines] == [
        ("copying", 100),
        ("copying", 600),
        ("copied", 1000),
    ]
    assert world.lines[-1][1]["seconds"] == 4.0


def test_a_table_that_is_re_snapshotted_is_told_with_the_reason(tmp_path: Path) -> None:
    """In a log line as it begins, in the file, and in the summary: as long as it is, and once it was in this run."""
    world = World(tmp_path)
    before = replace(part(1000, state="done"), why="of an earlier run")
    world.at(2, before, part(10, table=U))
    assert world.snapshots.re_snapshots() == []
    world.at(4, replace(part(250), why="cdc resync"), part(20, table=U))
    assert ("is re-snapshotted", {"table": "shop.orders", "why": "cdc resync"}) in world.lines
    assert world.file()["tables"]["shop.orders"]["why"] == "cdc resync"
    assert world.snapshots.re_snapshots() == ["shop.orders: is being re-snapshotted, 250 rows: cdc resync"]
    world.at(6, replace(part(1000, state="done"), why="cdc resync"), part(1000, table=U, state="done"))
    assert world.snapshots.re_snapshots() == ["shop.orders: re-snapshotted, 1,000 rows: cdc resync"]


def test_what_is_under_way_is_told_to_who_plans(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert snapshots_in_progress(LocalStore(tmp_path)) == []
    world.at(2, replace(part(250), why="cdc resync"), part(20, table=U), part(9, state="done", table=TableId("a", "b")))
    again, first = snapshots_in_progress(LocalStore(tmp_path))
    assert again.startswith("shop.orders is re-snapshotted, 250 of ")
    assert again.endswith(" rows: cdc resync")
    assert first.startswith(f"{U} is copied, 20 of ")

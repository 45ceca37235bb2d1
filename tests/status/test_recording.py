"""The file of the status document and the file of events, from the start of a run to its end."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cdc_process import wait_for

from cdc.errors import SinkError, StateError
from cdc.progress import BatchReport, Progress, TableTotals
from cdc.schema import TableId
from cdc.source import TableProgress
from cdc.state import durable
from cdc.status import file as status_file
from cdc.status.events import EVENTS, EventFile
from cdc.status.file import BEAT_S, FILE_NAME, SILENT_S, read_status
from cdc.status.model import from_json, to_json
from cdc.status.recording import Outlets, Recording, first_status
from cdc.status.text import status_text

ORDERS = TableId("shop", "orders")


class World:
    """A state directory and the recordings of runs in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.events, self.progress = root, root / "events.jsonl", Progress()
        self.clock, self.warnings = 0.0, list[str]()

    def recording(self) -> Recording:
        first = first_status(
            self.root, "shop-1", name="shop", source="mysql", sink="duckdb", file="shop.yaml", behavior="evolve"
        )
        outlets = Outlets(EventFile(self.events, "shop"))
        return Recording(first, self.root, self.progress, self.warnings.append, outlets, clock=lambda: self.clock)

    def batch(self, recording: Recording, number: int, **fields: Any) -> None:
        report = BatchReport(
            number, {ORDERS: TableTotals(inserts=2)}, {}, 0.5, 1000.0, 0.1, {"shop.orders": 2}, **fields
        )
        self.progress.end(report)
        recording.batch(report)

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.events.read_text().splitlines()]

    def inode(self) -> int:
        return (self.root / FILE_NAME).stat().st_ino


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_document_is_there_from_the_start_to_the_end(world: World) -> None:
    with world.recording() as recording:
        seen = read_status(world.root)
        assert seen is not None
        assert (seen.state, seen.alive) == ("starting", True)
        recording.state("running")
        world.batch(recording, 0)
        recording.tick(at_once=True)
        seen = read_status(world.root)
        assert seen is not None
        assert (seen.state, seen.status.totals.inserts, seen.status.tables[0].table) == ("running", 2, "shop.orders")
    seen = read_status(world.root)
    assert seen is not None
    assert (seen.state, seen.alive, seen.status.written_per_s) == ("ended", False, 0.0)
    assert oct((world.root / FILE_NAME).stat().st_mode & 0o777) == "0o600"


def test_a_run_that_waits_before_its_first_batch_is_alive_and_says_for_what(world: World) -> None:
    def beaten() -> bool:
        seen = read_status(world.root)
        return seen is not None and seen.alive and seen.status.note == "the server is away"

    with world.recording() as recording, recording.ticking(every_s=0.001):
        os.utime(world.root / FILE_NAME, (0, 0))
        world.progress.note_wait("the server is away")
        world.clock = 2 * BEAT_S
        wait_for("a beat", beaten)


def test_what_a_run_failed_with_is_in_the_document(world: World) -> None:
    with pytest.raises(SinkError), world.recording():
        raise SinkError("no room", where="db", hint="make some")
    seen = read_status(world.root)
    assert seen is not None
    assert (seen.state, seen.status.errors[-1].message, seen.status.errors[-1].hint) == (
        "failed",
        "no room",
        "make some",
    )


def test_the_next_run_goes_on_with_rings_and_counts_the_restart(world: World) -> None:
    with suppress(SinkError), world.recording() as recording:
        world.batch(recording, 0, position={"file": "b.1"})
        raise SinkError("no room")
    with world.recording():
        pass
    with world.recording() as recording:
        status = recording.status
    assert (status.runs, status.restarts) == (3, 1)
    assert [batch.batch for batch in status.batches] == [0]
    assert status.errors[-1].message == "no room"
    assert (status.position, status.totals.rows) == ({"file": "b.1"}, 0)


def test_it_is_written_once_a_second_at_most_and_only_when_something_is_new(world: World) -> None:
    with world.recording() as recording:
        first = world.inode()
        world.batch(recording, 0)
        recording.tick()
        assert world.inode() == first, "too soon"
        world.clock = 60.0
        recording.tick()
        second = world.inode()
        assert second != first
        recording._recorder._read.clear()
        recording._recorder._written.clear()
        for world.clock in (120.0, 180.0):
            recording.tick()
        settled = world.inode()
        for world.clock in (240.0, 300.0):
            recording.tick()
        assert world.inode() == settled, "nothing is new"


def test_a_run_that_has_nothing_to_tell_still_touches_its_file(world: World) -> None:
    with world.recording() as recording:
        for world.clock in (60.0, 120.0):
            recording.tick()
        os.utime(world.root / FILE_NAME, (1.0, 1.0))
        world.clock = 180.0
        recording.tick()
        seen = read_status(world.root)
        assert seen is not None
        assert seen.alive


def test_nothing_is_synced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise AssertionError("an fsync")

    monkeypatch.setattr(os, "fsync", refuse)
    with world.recording() as recording:
        world.batch(recording, 0)
        recording.tick(at_once=True)
    assert durable.os is os


def test_a_run_that_was_killed_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = world.recording()
    recording.__enter__()
    seen = read_status(world.root, now=(world.root / FILE_NAME).stat().st_mtime + SILENT_S + 1)
    assert seen is not None
    assert (seen.state, seen.alive) == ("lost", False)

    def gone(pid: int, signal: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(status_file.os, "kill", gone)
    seen = read_status(world.root)
    assert seen is not None
    assert seen.state == "lost"


def test_events_tell_the_run_line_by_line(world: World) -> None:
    with suppress(SinkError), world.recording() as recording:
        recording.set_snapshots([TableProgress(ORDERS, "copying", 5, 10)])
        recording.set_snapshots([TableProgress(ORDERS, "copying", 7, 10)])
        recording.set_snapshots([TableProgress(ORDERS, "done", 10, 10)])
        world.batch(recording, 0, changes=(("shop.orders", "create.table"),))
        recording.notice("a server was away")
        recording.tick(at_once=True)
        raise SinkError("no room", hint="make some")
    told = world.told()
    assert [line["event"] for line in told] == [
        "started", "copy", "copy", "batch", "notice", "schema-change", "error", "stopped",
    ]  # fmt: skip
    assert {line["pipeline"] for line in told} == {"shop"}
    assert [line["state"] for line in told if line["event"] == "copy"] == ["copying", "done"]
    assert (told[3]["rows"], told[5]["change"], told[6]["hint"], told[7]["state"]) == (
        2,
        "create.table",
        "make some",
        "failed",
    )
    assert {line["event"] for line in told} <= set(EVENTS)


def test_events_hold_no_line_feeds_of_others(world: World) -> None:
    EventFile(world.events, "shop").add("notice", text='a\n{"event": "forged"}\x1b[2J')
    (line,) = world.events.read_text().splitlines()
    assert json.loads(line)["event"] == "notice"
    assert "\\x1b" in json.loads(line)["text"]


def test_what_cannot_be_written_is_told_once_and_stops_nothing(world: World) -> None:
    world.events.mkdir()
    with world.recording() as recording:
        recording.notice("one")
        recording.notice("two")
    (warning,) = world.warnings
    assert "cannot append events to the state" in warning
    assert str(world.events) in warning


def test_a_document_of_a_newer_version_is_refused_and_a_field_that_is_new_overlooked(world: World) -> None:
    with world.recording() as recording:
        pass
    fields = json.loads(to_json(recording.status))
    assert from_json(json.dumps({**fields, "later": 1}).encode()) == recording.status
    with pytest.raises(StateError, match="has version 99"):
        from_json(json.dumps({**fields, "version": 99}).encode())
    with pytest.raises(StateError, match="cannot be read"):
        from_json(b'{"version": 1}')


def test_the_text_for_people_has_what_matters(world: World) -> None:
    with suppress(SinkError), world.recording() as recording:
        world.batch(recording, 0, phases={"read": 0.25, "commit": 0.5}, position={"file": "b.1", "position": 4})
        recording.set_snapshots([TableProgress(ORDERS, "copying", 5, 10, why="asked for")])
        raise SinkError("no room", where="db", hint="make some")
    seen = read_status(world.root)
    assert seen is not None
    text = "\n".join(status_text(seen))
    for part in (
        "shop: mysql -> duckdb, failed", "2 in 1 batches", "read 0.25, commit 0.50", "file b.1, position 4",
        "copying 50%, 5 rows: asked for", "SinkError: db: no room (make some)",
    ):  # fmt: skip
        assert part in text

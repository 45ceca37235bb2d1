"""What executors wait for, as the driver sees it."""

from __future__ import annotations

from pathlib import Path

from cdc.state.store import LocalStore
from cdc.state.waits import Waits


def test_the_last_note_counts_for_a_moment(tmp_path: Path) -> None:
    now = 100.0
    waits = Waits(LocalStore(tmp_path), now=lambda: now)
    assert waits.current() == ""
    waits.note("one")
    waits.note("other")
    now += 14
    assert waits.current() == "other"
    now += 2
    assert waits.current() == ""

"""A week of minutes for the plots, in a file that stays small."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from cdc.progress import ChangeCounts
from cdc.status.history import FILE_NAME, HistoryFile, downsample, read_history
from cdc.status.model import Point, SinkLag, StatusDocument

NOW = StatusDocument("s-1", "s", "mysql", "duckdb", "running", 1, "here", 1.0, 1.0)


def at(lag_s: float | None, read: int, written: int) -> StatusDocument:
    return replace(NOW, lag=SinkLag(lag_s), read=read, totals=ChangeCounts(written))


def test_a_minute_has_its_largest_lag_and_its_mean_rates(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path)
    file.add(at(None, 0, 0), 9000.0)  # the clock is set back after that
    for now_s, status in ((1000.0, at(1.0, 0, 0)), (1030.0, at(9.0, 300, 60)), (1060.0, at(2.0, 600, 120))):
        file.add(status, now_s)
    file.add(at(None, 600, 120), 1121.0)
    assert read_history(tmp_path, 0.0) == [Point(1000.0, 9.0, 10.0, 2.0), Point(1060.0, 2.0, 0.0, 0.0)]
    assert read_history(tmp_path, 1030.0) == [Point(1060.0, 2.0, 0.0, 0.0)]


def test_the_file_stays_bounded_and_goes_on_over_runs(tmp_path: Path) -> None:
    for _ in range(3):
        file = HistoryFile(tmp_path, most=5)
        for minute in range(9):
            file.add(at(0.0, 0, 0), 60.0 * minute)
    assert len((tmp_path / FILE_NAME).read_text().splitlines()) <= 10
    assert read_history(tmp_path, 0.0)[-1].at_s == 420.0


def test_lines_that_a_crash_cut_are_left_out(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("[60, 1.0, 2.0, 3.0]\n[120, 1.0,\n{}\n[180, null, 0, 0]\n")
    assert read_history(tmp_path, 0.0) == [Point(60.0, 1.0, 2.0, 3.0), Point(180.0, None, 0.0, 0.0)]
    assert read_history(tmp_path / "none", 0.0) == []


def test_a_long_range_is_thinned_by_the_largest_lag() -> None:
    points = [Point(float(n), float(n % 7), 1.0, 2.0) for n in range(1000)]
    found = downsample(points, 100)
    assert (len(found), max(point.lag_s or 0.0 for point in found)) == (100, 6.0)
    assert json.dumps([found[0].at_s, found[0].read_per_s, found[0].written_per_s]) == "[0.0, 1.0, 2.0]"
    assert downsample(points[:5], 100) == points[:5]

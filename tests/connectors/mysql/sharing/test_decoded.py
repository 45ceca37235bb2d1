"""Ranges of the log that runs share: decoded by whoever comes first, and by each for itself where that fails."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cdc.block import ChangeBlock
from cdc.errors import SourceUnavailable
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.source import Count, Siblings
from cdc.testing.blocks import block, images
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.sharing import decoded
from connectors.mysql.sharing.decoded import Elsewhere, SharedBlocks
from connectors.mysql.sharing.runs import Runs, SharingRun

TABLE = TableId("shop", "t")
SCHEMA = TableSchema((Column("id", DataType(Kind.BIGINT), nullable=False),), ("id",))
FILE = "binlog.000003"
MB = 1 << 20


def part(first: int, last: int) -> LogRange:
    return LogRange(LogPosition(FILE, first), LogPosition(FILE, last), 7, "server")


@dataclass
class Reader:
    """One of two runs. `reads` is how often it has read the log, `fails` what happens in the middle of that."""

    folder: Path
    name: str
    made_of: str = "tables"
    most_bytes: int = decoded.MOST_BYTES
    fails: BaseException | None = None
    reads: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def siblings(self) -> Siblings:
        return Siblings(self.folder, self.name, 2)

    def is_at(self, position: int) -> None:
        Runs(self.siblings).report(SharingRun(sequence_of(FILE, position)))

    def read(self, wanted: LogRange) -> list[int]:
        """The keys of a range's rows."""
        shared = SharedBlocks(self.siblings, self.most_bytes)
        found = shared.read(wanted, [self.made_of], (), self._decode, lambda: self._decode(self._count), self._count)
        return [row["id"] for _, row in images(found)]

    def _count(self, reason: str, number: int) -> None:
        self.counts[reason] += number

    def _decode(self, count: Count) -> Iterator[ChangeBlock]:
        self.reads += 1
        yield block(TABLE, SCHEMA, [("+I", {"id": 1})])
        count("invalid-date-to-null", 2)
        if self.fails is not None:
            failure, self.fails = self.fails, None
            raise failure
        yield block(TABLE, SCHEMA, [("+I", {"id": 2})], sequence=2)


@pytest.fixture
def one(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "log", "one")


@pytest.fixture
def two(one: Reader) -> Reader:
    made = Reader(one.folder, "two")
    made.is_at(4)
    return made


def files(reader: Reader) -> list[str]:
    folder = reader.folder / "blocks"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_range_is_decoded_once_and_goes_when_all_have_it(one: Reader, two: Reader) -> None:
    for reader in (one, two):
        assert reader.read(part(4, MB)) == [1, 2]
        assert reader.counts == {"invalid-date-to-null": 2}
    assert (one.reads, two.reads) == (1, 0)
    assert files(one) == []


def test_nothing_is_kept_for_runs_that_are_ahead_far_behind_or_gone(one: Reader, two: Reader) -> None:
    for place, away_s in ((2 * MB, 0), (4, 3600)):
        two.is_at(place)
        when = two.folder / "runs" / "two"
        os.utime(when, (when.stat().st_atime - away_s, when.stat().st_mtime - away_s))
        assert one.read(part(4, MB)) == [1, 2]
    two.is_at(4)
    assert one.read(part(900 * MB, 901 * MB)) == [1, 2]
    assert files(one) == []


def test_short_ranges_are_not_shared(one: Reader, two: Reader) -> None:
    for reader in (one, two):
        assert reader.read(part(4, 1000)) == [1, 2]
        assert reader.reads == 1


def test_rows_made_of_other_definitions_are_others(one: Reader, two: Reader) -> None:
    two.made_of = "other tables"
    one.read(part(4, MB))
    assert two.read(part(4, MB)) == [1, 2]
    assert two.reads == 1


@pytest.mark.parametrize("failure", [SourceUnavailable("is away"), KeyboardInterrupt()])
def test_a_task_that_fails_or_dies_leaves_nothing_for_others(one: Reader, two: Reader, failure: BaseException) -> None:
    one.fails = failure
    with pytest.raises(type(failure)):
        one.read(part(4, MB))
    assert one.counts == {}
    assert two.read(part(4, MB)) == [1, 2]
    assert two.reads == 1


def test_rows_off_another_server_are_of_that_task_alone(one: Reader, two: Reader) -> None:
    one.fails = Elsewhere()
    assert one.read(part(4, MB)) == [1, 2]
    assert one.counts == {"invalid-date-to-null": 2}
    assert (one.reads, two.read(part(4, MB)), two.reads) == (2, [1, 2], 1)


def test_a_range_that_does_not_fit_is_read_by_each(one: Reader, two: Reader) -> None:
    one.most_bytes = MB
    assert one.read(part(4, 2 * MB)) == [1, 2]
    assert (one.reads, files(one)) == (1, [f for f in files(one) if f.endswith(".lock")])


def test_the_oldest_files_make_room(one: Reader, two: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    one.most_bytes = 4 * MB
    first, second = part(4, MB), part(MB, 2 * MB)
    one.read(first)
    whole = next(name for name in files(one) if "." not in name)
    os.truncate(one.folder / "blocks" / whole, 3 * MB)
    one.read(second)
    assert whole not in files(one)
    assert two.read(second) == [1, 2]
    assert (two.reads, one.reads) == (0, 2)


def test_a_file_that_gets_on_no_more_is_not_waited_for(
    one: Reader, two: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer hangs: the lock stays, and the file does not grow."""
    monkeypatch.setattr(decoded, "STALLED_S", 0.0)
    one.is_at(4)
    one.read(part(4, MB))
    (key,) = [name for name in files(one) if "." not in name]
    (one.folder / "blocks" / key).unlink()
    with (one.folder / "blocks" / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert two.read(part(4, MB)) == [1, 2]
    assert two.reads == 1


def test_a_folder_that_cannot_be_written_is_done_without(one: Reader, two: Reader) -> None:
    (one.folder / "blocks").write_text("no folder")
    assert one.read(part(4, MB)) == [1, 2]
    assert one.reads == 1

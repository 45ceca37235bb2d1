"""Damaged logs: refused with file and position, never a crash, never other events than were written."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from binlog_builder import FIXTURES, flat

from cdc.errors import CorruptLog, UnsupportedChange
from connectors.mysql import events
from connectors.mysql.log.log_file import read_buffers

_IN_USE_BIT = (4 + 17, 0)  # of the format description event: not covered by its checksum, and without effect
_REFUSED = (CorruptLog, UnsupportedChange)


def flips(size: int, count: int) -> list[tuple[int, int]]:
    picked = random.Random(7)
    found = [(picked.randrange(size), picked.randrange(8)) for _ in range(count)]
    return [flip for flip in found if flip != _IN_USE_BIT]


def damaged(tmp_path: Path, data: bytes, byte: int, bit: int) -> Path:
    changed = bytearray(data)
    changed[byte] ^= 1 << bit
    path = tmp_path / "binlog.000001"
    path.write_bytes(changed)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql.binlog", "mariadb.binlog"])
def test_every_flipped_bit_is_refused(tmp_path: Path, name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    for byte, bit in flips(len(data), 400):
        with pytest.raises(_REFUSED) as caught:
            list(read_buffers(damaged(tmp_path, data, byte, bit)))
        assert caught.value.where.startswith("binlog.000001"), (byte, bit)


def test_all_bits_of_the_first_event_are_guarded(tmp_path: Path) -> None:
    data = (FIXTURES / "mysql.binlog").read_bytes()
    for byte in range(4, 127):
        for bit in range(8):
            if (byte, bit) != _IN_USE_BIT:
                with pytest.raises(_REFUSED):
                    list(read_buffers(damaged(tmp_path, data, byte, bit)))


def test_events_before_the_damage_are_handed_on_unchanged(tmp_path: Path) -> None:
    data = (FIXTURES / "mysql.binlog").read_bytes()
    whole = flat(read_buffers(FIXTURES / "mysql.binlog"))
    for byte, bit in flips(len(data), 60):
        found: list[tuple[Any, ...]] = []
        with pytest.raises(_REFUSED):
            found.extend(entry for chunk in read_buffers(damaged(tmp_path, data, byte, bit)) for entry in flat([chunk]))
        assert [entry[1:] for entry in found] == [entry[1:] for entry in whole[: len(found)]]


def test_without_checksums_damage_is_refused_or_stays_inside_a_body(tmp_path: Path) -> None:
    """There a flipped bit in a value cannot be seen; lengths, types and positions still guard the structure."""
    data = (FIXTURES / "mysql-no-checksum.binlog").read_bytes()
    ends = {position for _, position, *_ in flat(read_buffers(FIXTURES / "mysql-no-checksum.binlog"))}
    refused = 0
    for byte, bit in flips(len(data), 400):
        try:
            found = flat(read_buffers(damaged(tmp_path, data, byte, bit)))
        except _REFUSED:
            refused += 1
            continue
        assert {position for _, position, *_ in found} <= ends, (byte, bit)
    assert refused > 40


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql.binlog", "mysql-no-checksum.binlog", "mariadb.binlog"])
def test_every_truncation_is_refused_or_ends_between_events(tmp_path: Path, name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    whole = flat(read_buffers(FIXTURES / name))
    ends = {position for _, position, *_ in whole} | {len(events.MAGIC)}
    path = tmp_path / "binlog.000001"
    for size in range(len(data)):
        path.write_bytes(data[:size])
        if size in ends:
            found = flat(read_buffers(path))
            assert [entry[1:] for entry in found] == [entry[1:] for entry in whole if entry[1] <= size]
        else:
            with pytest.raises(CorruptLog):
                list(read_buffers(path))

"""Receive buffers are used again, but never while something still reads from them."""

from __future__ import annotations

import numpy as np
import pytest

from connectors.mysql.log import buffers


@pytest.fixture(autouse=True)
def _no_buffers_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_pool", [])


def test_a_buffer_that_nobody_uses_is_taken_again() -> None:
    first = buffers.acquire_buffer()
    address = first.ctypes.data
    del first
    assert buffers.acquire_buffer().ctypes.data == address


@pytest.mark.parametrize("part", [lambda whole: whole, lambda whole: whole[5:9], lambda whole: memoryview(whole.data)])
def test_a_buffer_that_is_looked_at_is_left_alone(part: object) -> None:
    assert callable(part)
    whole = buffers.acquire_buffer()
    address, held = whole.ctypes.data, part(whole)
    del whole
    assert buffers.acquire_buffer().ctypes.data != address
    del held


def test_more_buffers_than_are_kept_can_be_in_use() -> None:
    taken = [buffers.acquire_buffer() for _ in range(10)]
    assert len({buffer.ctypes.data for buffer in taken}) == 10


def test_the_rest_of_a_buffer_is_carried_over() -> None:
    full = np.arange(100, dtype=np.uint8)
    carried = buffers.carry(full, 90, 100, 16)
    assert carried[:10].tolist() == list(range(90, 100))
    assert len(carried) >= 20, "an event that fills the buffer has to find room for as much again"

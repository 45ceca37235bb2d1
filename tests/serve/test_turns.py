"""How many pipelines of a server start at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from cdc_process import wait_for

from cdc.serve.turns import RunTurns


class Starts:
    """Pipelines that want to start, each in a thread of its own."""

    def __init__(self) -> None:
        self.begun: dict[int, Callable[[], None]] = {}
        self.asked, self.gone = set[int](), set[int]()
        self.threads: list[threading.Thread] = []

    def want(self, turns: RunTurns, *numbers: int) -> None:
        for number in numbers:
            self.threads.append(threading.Thread(target=self._start, args=(turns, number)))
            self.threads[-1].start()
            wait_for("its place in the row", lambda number=number: number in self.asked)

    def _start(self, turns: RunTurns, number: int) -> None:
        self.begun[number] = turns.wait_turn(lambda: self._wants(number))

    def _wants(self, number: int) -> bool:
        self.asked.add(number)
        return number not in self.gone

    def have_begun(self, *numbers: int) -> None:
        wait_for(f"the start of {numbers}", lambda: set(self.begun) >= set(numbers))
        assert set(self.begun) == set(numbers)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Starts]:
    monkeypatch.setattr("cdc.serve.turns._LOOK_S", 0.02)
    starts = Starts()
    yield starts
    starts.gone.update(range(100))
    for thread in starts.threads:
        thread.join(60)
        assert not thread.is_alive()


def test_so_many_start_at_a_time_and_the_others_in_the_order_in_which_they_came(starts: Starts) -> None:
    turns = RunTurns(2, longest_s=1000)
    for number in (-1, 0):
        starts.begun[number] = turns.wait_turn(lambda: True)
    starts.want(turns, 1, 2, 3)
    starts.have_begun(-1, 0)
    starts.begun[0]()
    starts.begun[0]()  # that of a run which read, and has ended now
    starts.have_begun(-1, 0, 1)
    starts.begun[-1]()
    starts.have_begun(-1, 0, 1, 2)


def test_one_that_is_not_to_start_any_more_leaves_its_place_to_the_next(starts: Starts) -> None:
    turns = RunTurns(1, longest_s=1000)
    starts.begun[0] = turns.wait_turn(lambda: True)
    starts.want(turns, 1, 2)
    starts.gone.add(1)
    starts.have_begun(0, 1)  # its `take` has returned, without a turn
    starts.begun[0]()
    starts.have_begun(0, 1, 2)


def test_what_waits_for_its_server_holds_the_others_up_for_a_while_only(starts: Starts) -> None:
    turns = RunTurns(1, longest_s=0.01)
    starts.begun[0] = turns.wait_turn(lambda: True)
    starts.want(turns, 1)
    starts.have_begun(0, 1)

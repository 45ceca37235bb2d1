import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.testing.blocks import block
from connectors.shared.sending.sender import FlushResult, SendLimits, send

SCHEMA = TableSchema((Column("id", DataType(Kind.BIGINT)),), ("id",))
TASK = TaskAttempt(5, 2, 0)


class Loads:
    """A loader that writes down what happens to every load."""

    def __init__(self, **behaviour: Any) -> None:
        self.behaviour = behaviour
        self.log: list[tuple[str, str]] = []
        self.rows: dict[str, list[int]] = {}
        self.open: set[str] = set()
        self.most_open = 0
        self.lock = threading.Condition()
        self.hanging = threading.Event()

    def note(self, what: str, load: str) -> None:
        with self.lock:
            self.log.append((what, load))
            self.lock.notify_all()

    def noted(self, what: str, load: str, seconds: float = 30) -> bool:
        """Wait for it."""
        with self.lock:
            return self.lock.wait_for(lambda: (what, load) in self.log, seconds)

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> "Load":
        assert task == TASK
        name = f"{first.table.table}/{part}"
        with self.lock:
            self.open.add(name)
            self.most_open = max(self.most_open, len(self.open))
        self.note("begin", name)
        self.rows[name] = []
        return Load(self, name)


class Load:
    def __init__(self, loads: Loads, name: str) -> None:
        self.loads, self.name, self.cancelled = loads, name, threading.Event()

    def write(self, blocks: Sequence[ChangeBlock]) -> FlushResult | None:
        behaviour = self.loads.behaviour
        if behaviour.get("fail_at") == self.name:
            assert "hang_at" not in behaviour or self.loads.hanging.wait(60)
            raise SinkError("no", where=self.name)
        if behaviour.get("hang_at") == self.name:
            self.loads.hanging.set()
            assert self.cancelled.wait(60)
            raise SinkError("cancelled", where=self.name)
        numbers = [number for item in blocks for number in item.rows.column(0).to_pylist()]
        if behaviour.get("one_window") and self.loads.rows[self.name]:
            return None
        self.loads.rows[self.name] += numbers
        self.loads.note("write", self.name)
        return FlushResult(10 * len(numbers), inserts=len(numbers), counts={"seen": len(numbers)})

    def finish(self) -> Any:
        with self.loads.lock:
            self.loads.open.discard(self.name)
        self.loads.note("finish", self.name)
        return {"load": self.name}

    def cancel(self) -> None:
        self.cancelled.set()
        self.loads.note("cancel", self.name)


def rows(table: str, *numbers: int) -> ChangeBlock:
    return block(TableId("shop", table), SCHEMA, [("+I", {"id": number}) for number in numbers])


def test_a_table_is_one_load_in_log_order() -> None:
    loads = Loads()
    blocks = [rows("t", number) for number in range(200)]
    prepared = send(TASK, iter(blocks), loads, SendLimits(flush_bytes=64))
    assert loads.rows == {"t/0": list(range(200))}
    assert [(item.table.table, item.partition, item.handle) for item in prepared] == [("t", 2, {"load": "t/0"})]
    assert (prepared[0].inserts, prepared[0].counts) == (200, {"seen": 200})


def test_tables_are_sent_side_by_side_each_in_order() -> None:
    loads = Loads()
    blocks = [rows(f"t{number % 7}", number) for number in range(700)]
    prepared = send(TASK, iter(blocks), loads, SendLimits(flush_bytes=80, waiting_bytes=400))
    assert loads.rows == {f"t{table}/0": list(range(table, 700, 7)) for table in range(7)}
    assert sum(item.inserts for item in prepared) == 700


def test_a_load_that_is_large_enough_is_followed_by_the_next_part() -> None:
    loads = Loads()
    blocks = [rows("t", number) for number in range(10)]
    prepared = send(TASK, iter(blocks), loads, SendLimits(flush_bytes=8, load_bytes=30))
    assert loads.rows == {"t/0": [0, 1, 2], "t/1": [3, 4, 5], "t/2": [6, 7, 8], "t/3": [9]}
    assert [item.handle for item in prepared] == [{"load": f"t/{part}"} for part in range(4)]
    assert [item.inserts for item in prepared] == [3, 3, 3, 1]


def test_a_window_that_a_load_cannot_take_begins_the_next_part() -> None:
    loads = Loads(one_window=True)
    send(TASK, iter([rows("t", 1), rows("t", 2)]), loads, SendLimits(flush_bytes=8))
    assert loads.rows == {"t/0": [1], "t/1": [2]}


def test_few_loads_are_open_at_a_time() -> None:
    loads = Loads()
    blocks = [rows(f"t{table}", table) for table in range(100)]
    prepared = send(TASK, iter(blocks), loads, SendLimits(threads=3))
    assert len(prepared) == 100
    assert loads.most_open <= 3


def test_the_load_written_to_longest_ago_makes_room() -> None:
    loads = Loads()
    limits = SendLimits(flush_bytes=8, open_loads=2, threads=1)
    send(TASK, iter([rows("a", 1), rows("b", 2), rows("c", 3), rows("b", 4), rows("a", 5)]), loads, limits)
    assert loads.rows == {"a/0": [1], "b/0": [2, 4], "c/0": [3], "a/1": [5]}


def test_a_silent_load_is_finished() -> None:
    loads = Loads()
    moments = itertools.count(0, 15)

    def blocks() -> Any:
        yield rows("a", 1)
        while not loads.noted("finish", "a/0", 0.01):
            yield rows("b", 0)
        yield rows("a", 2)

    limits = SendLimits(flush_bytes=8, idle_s=20)
    send(TASK, blocks(), loads, limits, clock=lambda: float(next(moments)))
    assert loads.rows["a/0"] == [1]
    assert loads.rows["a/1"] == [2]


def test_a_silent_load_is_finished_while_the_source_has_nothing_to_say() -> None:
    loads = Loads()

    def blocks() -> Any:
        yield rows("a", 1)
        assert loads.noted("finish", "a/0"), "nobody finished it"
        yield rows("a", 2)

    send(TASK, blocks(), loads, SendLimits(flush_bytes=8, idle_s=0.05))
    assert (loads.rows["a/0"], loads.rows["a/1"]) == ([1], [2])


def test_an_error_cancels_all_other_loads_and_is_raised() -> None:
    loads = Loads(fail_at="bad/0", hang_at="slow/0")
    with pytest.raises(SinkError, match="no"):
        send(TASK, iter([rows("slow", 1), rows("bad", 2)]), loads, SendLimits(flush_bytes=8))
    assert ("cancel", "slow/0") in loads.log
    assert ("finish", "slow/0") not in loads.log


def test_an_error_of_the_source_cancels_what_is_open() -> None:
    loads = Loads()

    def blocks() -> Any:
        yield rows("t", 1)
        while ("write", "t/0") not in loads.log:
            yield rows("t")
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="gone"):
        send(TASK, blocks(), loads, SendLimits(flush_bytes=8))
    assert loads.log == [("begin", "t/0"), ("write", "t/0"), ("cancel", "t/0"), ("cancel", "t/0")]


def test_two_schemas_of_a_table_are_refused() -> None:
    other = TableSchema((Column("id", DataType(Kind.BIGINT)), Column("x", DataType(Kind.INT))), ("id",))
    changed = block(TableId("shop", "t"), other, [("+I", {"id": 1})])
    with pytest.raises(SinkError, match="two schemas"):
        send(TASK, iter([rows("t", 1), changed]), Loads())


def test_nothing_to_send() -> None:
    loads = Loads()
    assert list(send(TASK, iter([rows("t")]), loads)) == []
    assert loads.log == []

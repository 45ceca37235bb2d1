"""A sink whose files have random names and whose commit messages are bytes: the engine keeps both for it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cdc.block import ChangeBlock
from cdc.errors import SinkError, SinkUnavailable
from cdc.flow import task_result
from cdc.flow.task_result import TaskResult, check_payloads
from cdc.schema import Column, CreateTable, DataType, SchemaChange, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, Sink, TaskAttempt
from cdc.testing.blocks import Row, block, images
from cdc.testing.crashes import FailAt
from cdc.testing.list_source import ListSource
from cdc.testing.memory import run_in_memory

T = TableId("shop", "t")
SCHEMA = TableSchema((Column("id", DataType.parse("INT")),), ("id",))


class Lake(Sink):
    """Files by random names; a commit adds the files of its payloads. What an abort is handed, and no other, goes."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.EQUAL

    def __init__(self) -> None:
        self.files: dict[str, list[Row]] = {}
        self.committed: dict[int, list[str]] = {}
        self.chance = random.Random(7)
        self.fails = 0

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Any columns go."""

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        found, names = list(blocks), [f"{self.chance.getrandbits(64):016x}" for _ in range(2)]
        task.note(names)
        for name, one in zip(names, (found[:1], found[1:]), strict=True):
            self.files[name] = [row for _, row in images(one)]
        if self.fails:
            self.fails -= 1
            raise SinkUnavailable("the store is away")
        return [Prepared(T, task.partition, {}, len(found), payload=json.dumps(names).encode())]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        self.committed[batch] = [name for item in prepared for name in json.loads(item.payload)]

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        for names in noted:
            for name in names:
                self.files.pop(name, None)

    @property
    def rows(self) -> list[int]:
        names = [name for _, names in sorted(self.committed.items()) for name in names]
        return [int(row["id"]) for name in names for row in self.files[name]]


def inserted(*ids: int) -> list[ChangeBlock]:
    return [block(T, SCHEMA, [("+I", {"id": each})], sequence=each) for each in ids]


@pytest.mark.parametrize("failure", list(FailAt), ids=lambda failure: failure.name.lower())
def test_a_crash_leaves_no_file_and_loses_none(failure: FailAt, tmp_path: Path) -> None:
    sink = Lake()
    create = CreateTable(T, SCHEMA)
    items = [create, failure, *inserted(1, 2, 3), failure, *inserted(4, 5)]
    run_in_memory(ListSource(items), sink, parallelism=2, state=tmp_path)
    assert sorted(sink.rows) == [1, 2, 3, 4, 5]
    assert set(sink.files) == {name for names in sink.committed.values() for name in names}


def test_files_of_an_attempt_that_failed_go_with_the_next(tmp_path: Path) -> None:
    sink = Lake()
    sink.fails = 1
    run_in_memory(ListSource([CreateTable(T, SCHEMA), *inserted(1, 2)]), sink, state=tmp_path)
    assert sink.rows == [1, 2]
    assert len(sink.files) == 2
    assert list((tmp_path / "notes").iterdir()) == []


def test_a_result_carries_bytes_as_they_are() -> None:
    handles = (Prepared(T, 0, {"a": 1}, payload=b"\x00\xff" * 9), Prepared(T, 0, None), Prepared(T, 0, 1, payload=b"x"))
    text, payloads = TaskResult(handles, noted="1-0-0-0.json").to_row()
    assert payloads == b"\x00\xff" * 9 + b"x"
    assert TaskResult.from_row(text, bytearray(payloads)) == TaskResult(handles, noted="1-0-0-0.json")


def test_too_many_bytes_are_an_error_that_names_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_result, "MOST_PAYLOAD", 100)
    check_payloads([Prepared(T, 0, None, payload=b"x" * 100)])
    with pytest.raises(SinkError, match=r"shop\.t has 90 bytes, all of this task 140; the limit is 100"):
        check_payloads(
            [Prepared(TableId("shop", "u"), 0, None, payload=b"x" * 50), Prepared(T, 0, 0, payload=b"x" * 90)]
        )

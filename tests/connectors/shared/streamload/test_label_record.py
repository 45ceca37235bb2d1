"""Labels that tasks have noted: found again after a crash, those of this pipeline alone."""

from __future__ import annotations

import os
from pathlib import Path

from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.state.store import LocalStore
from connectors.shared.streamload.label_record import LabelRecord, Recorded
from connectors.shared.streamload.labels import LabelSpace

ORDERS = TableId("shop", "orders")
SPACE = LabelSpace("p1", "cdc")


def noted(record: LabelRecord, batch: int, partition: int = 0, attempt: int = 0) -> Recorded:
    label = SPACE.label(batch, ORDERS, partition)
    record.writer(TaskAttempt(batch, partition, attempt)).note(ORDERS, label)
    return Recorded(ORDERS, label)


def test_labels_are_found_from_a_batch_on_each_once(tmp_path: Path) -> None:
    record = LabelRecord(LocalStore(tmp_path), SPACE)
    noted(record, 8)
    wanted = [noted(record, 9), noted(record, 9, 1), noted(record, 10)]
    noted(record, 9, 1, attempt=1)
    assert LabelRecord(LocalStore(tmp_path), SPACE).from_batch(9) == wanted


def test_another_pipeline_and_a_line_that_is_not_whole_are_passed_over(tmp_path: Path) -> None:
    record = LabelRecord(LocalStore(tmp_path), SPACE)
    wanted = noted(record, 3)
    writer = record.writer(TaskAttempt(3, 1, 0))
    writer.note(ORDERS, LabelSpace("p2", "cdc").label(3, ORDERS, 1))
    with (tmp_path / "labels" / "3-1-0.jsonl").open("a") as file:
        file.write('{"database": "sh')
    assert record.from_batch(0) == [wanted]


def test_what_is_removed_is_forgotten(tmp_path: Path) -> None:
    record = LabelRecord(LocalStore(tmp_path), SPACE)
    kept = noted(record, 1)
    noted(record, 2)
    record.forget_since(2)
    assert record.all() == [kept]


def test_labels_of_committed_batches_are_kept_for_a_while(tmp_path: Path) -> None:
    record = LabelRecord(LocalStore(tmp_path), SPACE)
    noted(record, 1)
    os.utime(tmp_path / "labels" / "1-0-0.jsonl", (0, 0))
    kept = noted(record, 63)
    record.prune(63)
    assert len(record.all()) == 2
    record.prune(64)
    assert record.all() == [kept]

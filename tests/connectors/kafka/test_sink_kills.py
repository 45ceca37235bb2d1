"""Processes that kill themselves with SIGKILL at every step of a task, and in its replay: readers see each change once.

    python tests/connectors/kafka/test_sink_kills.py JSON     one process, in which each try is a fork that may die

What a killed process leaves is an open transaction, which is what the next one has to settle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_servers import KafkaServer

from cdc.block import ChangeBlock
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import block
from connectors.kafka.delivery.transaction import TransactionWriter
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions
from connectors.kafka.warm import warm

pytestmark = pytest.mark.kafka
SCHEMA = TableSchema((Column("id", DataType(Kind.INT), False), Column("n", DataType(Kind.INT))), ("id",))
KEYS, ROWS, TASKS = 5, 12, 2
STEPS = ("before begin", "mid-produce", "before the fence", "before commit", "after commit")


@pytest.mark.slow
def test_a_task_that_is_killed_at_any_step_and_in_its_replay(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    """One batch for each step; its second task dies there, and again as it runs again, then the batch runs through."""
    topic = kafka_broker.new_topic(partitions=3)
    given = {"bootstrap": kafka_broker.bootstrap, "topic": topic, "folder": str(tmp_path)}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, __file__, json.dumps(given)], env={**os.environ, **path}, timeout=300)
    assert run.returncode == 0
    seen: dict[int, list[int]] = defaultdict(list)
    for message in kafka_broker.read(topic):
        after = json.loads(message.value())["after"]
        seen[after["id"]].append(after["n"])
    assert seen == {key: list(range(key, len(STEPS) * TASKS * ROWS, KEYS)) for key in range(KEYS)}


def main(bootstrap: str, topic: str, folder: str) -> None:
    """All batches; no client of the broker is made before a fork."""
    warm()
    options = KafkaSinkOptions.model_validate(
        {"type": "kafka", "properties.bootstrap.servers": bootstrap, "topic": topic}
    )
    sink = KafkaSink(options, Context(topic, LocalStore(Path(folder))))
    for batch, step in enumerate(STEPS):
        assert _forked(sink, batch, 0, "") == 0
        assert _forked(sink, batch, 1, step) == signal.SIGKILL
        # Committed already, it dies where the replay is through: then too nobody has been told.
        assert _forked(sink, batch, 1, step) == signal.SIGKILL
        for task in range(TASKS):
            assert _forked(sink, batch, task, "") == 0


def _forked(sink: KafkaSink, batch: int, task: int, dies: str) -> int:
    """Run a task in a process of its own; the signal that ended it, 0 for none."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if dies:
                _doom(dies)
            sink.prepare(TaskAttempt(batch, task, 0), _rows((batch * TASKS + task) * ROWS, dies))
            if dies == "after commit":
                _die()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _doom(step: str) -> None:
    """Die in the middle of `TransactionWriter.commit`, if that is the step; the broker has what was produced before."""
    real, send = TransactionWriter._call, TransactionWriter.send

    def asked(writer: TransactionWriter, doing: str, call: Any) -> None:
        if {"sending the fence": "before the fence", "committing a transaction": "before commit"}.get(doing) == step:
            _die()
        real(writer, doing, call)

    def sent(writer: TransactionWriter, *given: Any) -> None:
        send(writer, *given)
        writer._drain(0)

    TransactionWriter._call, TransactionWriter.send = asked, sent  # type: ignore[method-assign]


def _rows(first: int, dies: str) -> Iterator[ChangeBlock]:
    if dies == "before begin":
        _die()
    for number in range(first, first + ROWS):
        yield block(TableId("shop", "log"), SCHEMA, [("+I", {"id": number % KEYS, "n": number})], sequence=number + 1)
        if dies == "mid-produce" and number == first + ROWS // 2:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

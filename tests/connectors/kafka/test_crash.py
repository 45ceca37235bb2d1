"""Crashes in the middle of a batch, on a real broker: the batch runs again on other cores, and readers see it once."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka_servers import KafkaServer

from cdc.offsets import numbered
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.source import Context, Split
from cdc.state.splits import SplitLog
from cdc.state.store import LocalStore
from cdc.testing.blocks import block
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka
SCHEMA = TableSchema((Column("id", DataType(Kind.INT), False), Column("n", DataType(Kind.INT))), ("id",))
KEYS, BATCHES = 5, 3


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Log:
    """Changes 0..: change n sets key n % KEYS to n. A batch is cut into as many parts as there are cores."""

    def splits(self, start: dict[str, int], end: dict[str, int], parallelism: int) -> list[Split]:
        first, last = start["at"], end["at"]
        edges = [first + (last - first) * part // parallelism for part in range(parallelism + 1)]
        return [Split(index, edges[index : index + 2]) for index in range(parallelism)]

    def read(self, table: TableId, split: Split):
        first, last = split.payload
        for number in range(first, last):
            yield block(table, SCHEMA, [("+I", {"id": number % KEYS, "n": number})], sequence=number + 1)


@pytest.mark.parametrize(
    ("dies_at", "cores"), [((0, 3), (2, 4)), ((1, 0), (4, 1)), ((2, None), (3, 2))], ids=["in", "before", "after"]
)
def test_readers_see_each_change_once_and_in_order(
    kafka_broker: KafkaServer, tmp_path: Path, dies_at: tuple[int, int | None], cores: tuple[int, int]
) -> None:
    """The run dies in task `dies_at[0]` of the second batch, after that many rows, or after its commit (None)."""
    log, table, pipeline = Log(), TableId("", kafka_broker.new_name("log")), kafka_broker.new_name("p")
    kafka_broker.create(str(table), partitions=3)
    options = KafkaSinkOptions.model_validate({"type": "kafka", "properties.bootstrap.servers": kafka_broker.bootstrap})
    store = LocalStore(tmp_path / "sink")

    def run(first: int, parallelism: int, *, dying: bool) -> None:
        sink = KafkaSink(options, Context(pipeline, store))
        sink.abort(first)
        for batch in range(first, BATCHES):
            start, end = numbered({"at": batch * 12}, batch), numbered({"at": (batch + 1) * 12}, batch + 1)
            for split in SplitLog(LocalStore(tmp_path / "splits")).splits(log, start, end, parallelism):
                doomed = dying and (batch, split.index) == (1, dies_at[0])
                rows = log.read(table, split)
                sink.prepare(TaskAttempt(batch, split.index, 0), _dying(rows, dies_at[1]) if doomed else rows)
                if doomed:
                    raise Killed

    with pytest.raises(Killed):
        run(0, cores[0], dying=True)
    run(1, cores[1], dying=False)
    seen: dict[int, list[int]] = defaultdict(list)
    for message in kafka_broker.read(str(table)):
        after = json.loads(message.value())["after"]
        seen[after["id"]].append(after["n"])
    assert seen == {key: list(range(key, BATCHES * 12, KEYS)) for key in range(KEYS)}


def _dying(rows, after):
    for number, each in enumerate(rows):
        if number == after:
            raise Killed
        yield each

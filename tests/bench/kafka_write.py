"""The Kafka sink on generated rows, beside a plain `produce_batch` loop over the very messages that it writes.

    .venv/bin/python tests/bench/kafka_write.py [--rows 500000] [--bootstrap 127.0.0.1:9092]

Inserts of twelve columns as Debezium's messages, lz4, one transaction with a fence a round; no Spark and no source, so
this is what the sink alone costs. CPU seconds are this process's, the broker's are left out.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "devservers")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
from kafka_read import broker  # noqa: E402

from cdc.block import ChangeBlock, RowKind, arrow_schema  # noqa: E402
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema  # noqa: E402
from cdc.sink import TaskAttempt  # noqa: E402
from cdc.source import Context  # noqa: E402
from cdc.state.store import LocalStore  # noqa: E402
from connectors.kafka.encoding.encoder import Encoder  # noqa: E402
from connectors.kafka.encoding.formats import layout_of  # noqa: E402
from connectors.kafka.sink import KafkaSink  # noqa: E402
from connectors.kafka.sink_options import KafkaSinkOptions  # noqa: E402

_TYPES = {
    "id": "BIGINT", "customer": "INT", "status": "VARCHAR(20)", "amount": "DECIMAL(12, 2)", "created": "TIMESTAMP(3)",
    "updated": "TIMESTAMP_LTZ(0)", "paid": "TINYINT", "note": "STRING", "code": "CHAR(8)", "weight": "DOUBLE",
    "day": "DATE", "extra": "JSON",
}  # fmt: skip
_SCHEMA = TableSchema(
    tuple(Column(name, DataType.parse(text), nullable=name != "id") for name, text in _TYPES.items()), ("id",)
)
_AT_ONCE, _ROUNDS, _BLOCK = 10_000, 3, 100_000


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--rows", type=int, default=500_000)
    given.add_argument("--bootstrap", help="a broker that runs; one is started when there is none")
    options = given.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as folder, broker(options.bootstrap) as bootstrap:
        for found in measured(Path(folder), bootstrap, options.rows):
            print(json.dumps(found))


def measured(folder: Path, bootstrap: str, wanted: int) -> list[dict[str, Any]]:
    """Encode, deliver and produce plainly, in turn; figures of each round."""
    table = TableId("bench", f"orders_{time.time_ns()}")
    blocks = [block(table, start) for start in range(0, wanted, _BLOCK)]
    rows = sum(len(each) for each in blocks)
    settings = KafkaSinkOptions.model_validate({"type": "kafka", "properties.bootstrap.servers": bootstrap})
    sink = KafkaSink(settings, Context(table.table, LocalStore(folder)))
    sink.check()
    sink.apply(0, [CreateTable(table, _SCHEMA)])
    layout = layout_of(table, _SCHEMA, settings, "bench")
    encoder = Encoder(layout, tombstones=True, now_ms=lambda: 0)
    made: list[Any] = [record for each in blocks for part in encoder.encode(each) for record in part.records]
    rounds = []
    for number in range(_ROUNDS):
        found = {
            "encode": spent(rows, lambda: [len(m) for each in blocks for m in encoder.encode(each)]),
            "sink": spent(rows, lambda: sink.prepare(TaskAttempt(number, 0, 0), iter(blocks))),  # noqa: B023
            "plain": spent(rows, lambda: plain(bootstrap, str(table), made)),
        }
        rounds.append({"rows": rows, "bytes_per_message": len(made[0]["value"]), **found})
    return rounds


def block(table: TableId, start: int) -> ChangeBlock:
    """Inserts, ten to an event."""
    ids = np.arange(start, start + _BLOCK)
    moments = ids * 1000 + 1_700_000_000_000_000
    values = {
        "id": ids, "customer": ids % 1000, "status": ["shipped"] * _BLOCK, "amount": [Decimal("1234.50")] * _BLOCK,
        "created": moments, "updated": moments, "paid": ids % 2,
        "note": ["a note of some forty characters, more or less"] * _BLOCK, "code": ["ABCDEFGH"] * _BLOCK,
        "weight": ids * 0.5, "day": ids % 10_000, "extra": ['{"a": 1, "b": [1, 2]}'] * _BLOCK,
    }  # fmt: skip
    arrow = arrow_schema(_SCHEMA)
    columns = [_column(values[field.name], field.type) for field in arrow]
    return ChangeBlock(
        table, _SCHEMA, pa.RecordBatch.from_arrays(columns, schema=arrow),
        pa.array(np.full(_BLOCK, RowKind.INSERT, np.uint8)), pa.array((1 << 40) + ids // 10),
        pa.array((ids % 10).astype(np.int32)), pa.array(np.full(_BLOCK, 1_700_000_000_000)),
        position_text=lambda sequence: f"{sequence >> 40:06d}:{sequence & ((1 << 40) - 1)}",
    )  # fmt: skip


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, list):
        return pa.array(values, kind)
    return pa.array(values.astype(np.int32)).cast(kind) if pa.types.is_date32(kind) else pa.array(values).cast(kind)


def plain(bootstrap: str, topic: str, made: list[dict[str, Any]]) -> None:
    """The loop: the same messages in one transaction."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20, "batch.size": 1 << 20,
        "queue.buffering.max.messages": 10_000_000, "partitioner": "murmur2_random", "transactional.id": topic,
    })  # fmt: skip
    producer.init_transactions()
    producer.begin_transaction()
    for start in range(0, len(made), _AT_ONCE):
        producer.produce_batch(topic, made[start : start + _AT_ONCE])
        while len(producer) > 6 * _AT_ONCE:
            producer.poll(0.005)
    producer.commit_transaction()


def spent(rows: int, call: Callable[[], object]) -> dict[str, float]:
    """Rows a second, and CPU seconds of this process per million rows."""
    before, began = _cpu_s(), time.perf_counter()
    call()
    took = time.perf_counter() - began
    return {"rows_per_s": round(rows / took), "cpu_s_per_million": round((_cpu_s() - before) * 1e6 / rows, 2)}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

"""Kafka topics into DuckDB, beside a plain consume loop over the same messages.

    .venv/bin/python tests/bench/kafka_read.py [--rows 2000000] [--bootstrap 127.0.0.1:9092]
    .venv/bin/python tests/bench/kafka_read.py --memory 100000 2000000

Debezium's messages of a table of ten columns, in two partitions, lz4; without Connect's schema and with it. The cost of
`cdc run` is that of a run over all messages less that of the cheaper of two runs over two. CPU seconds count, also on a
busy machine.
With `--memory` the most that a run's processes take, by how many messages wait for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "devservers")]

from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402
from pipeline import CDC, checked, parsed  # noqa: E402
from spend import Contained, Spent  # noqa: E402

_PARTITIONS = 2
_AT_ONCE = 10_000
_STARTS = 2
_TYPES = {
    "id": {"type": "int64"}, "region": {"type": "string"}, "customer": {"type": "string"},
    "amount": {
        "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    "created": {"type": "int64", "name": "io.debezium.time.Timestamp"}, "note": {"type": "string"},
    "qty": {"type": "int32"}, "price": {"type": "double"}, "flag": {"type": "boolean"},
    "day": {"type": "int32", "name": "io.debezium.time.Date"},
}  # fmt: skip


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--rows", type=int, default=2_000_000)
    given.add_argument("--bootstrap", help="a broker that runs; one is started when there is none")
    given.add_argument("--memory", nargs="+", type=int, metavar="ROWS", help="measure memory with so many messages")
    given.add_argument("--consume", nargs=2, metavar=("BOOTSTRAP", "TOPIC"), help=argparse.SUPPRESS)
    options = given.parse_args()
    if options.consume:
        consume(*options.consume)
        return
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as folder, broker(options.bootstrap) as bootstrap:
        for rows in options.memory or ():
            print(json.dumps(memory(Path(folder) / f"memory-{rows}", bootstrap, rows)))
        for wrapped in (False, True) if not options.memory else ():
            name = "with schema" if wrapped else "without schema"
            print(json.dumps({name: measured(Path(folder) / name.split()[0], bootstrap, options.rows, wrapped)}))


@contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The broker at this address, else one of our own."""
    if bootstrap is not None:
        yield bootstrap
        return
    from cdc_services.kafka.broker import StartedBroker
    from cdc_services.kafka.install import find

    installation = find()
    if installation is None:
        raise SystemExit("no Kafka broker: `make services` brings one, or give --bootstrap")
    started = StartedBroker(installation, {})
    try:
        yield started.bootstrap
    finally:
        started.close()


def measured(folder: Path, bootstrap: str, rows: int, wrapped: bool) -> dict[str, Any]:
    """Write the messages, read them with the loop and with `cdc run`."""
    small, large = (f"bench-{time.time_ns()}-{name}" for name in ("small", "large"))
    produce(bootstrap, small, _PARTITIONS, wrapped)
    size = produce(bootstrap, large, rows, wrapped)
    here = [sys.executable, str(Path(__file__).resolve()), "--consume", bootstrap]
    loop = checked_run(Contained([*here, large], folder / "loop")).cpu_s
    loop -= checked_run(Contained([*here, small], folder / "loop-start")).cpu_s
    starts = [cdc_run(folder / f"start-{number}", bootstrap, small)[0].cpu_s for number in range(_STARTS)]
    spent, rates = cdc_run(folder / "run", bootstrap, large)
    return {
        "rows": rows, "bytes_per_message": size // rows, "loop_cpu_s_per_million": round(loop * 1e6 / rows, 2),
        "cpu_s_per_million": round((spent.cpu_s - min(starts)) * 1e6 / rows, 2), **rates,
        "start_cpu_s": starts, "process_wall_s": spent.wall_s, "other_cores": spent.other_cores,
    }  # fmt: skip


def memory(folder: Path, bootstrap: str, rows: int) -> dict[str, Any]:
    """What a run takes at most when so many messages wait for it."""
    topic = f"bench-{time.time_ns()}-memory"
    produce(bootstrap, topic, rows, wrapped=False)
    spent, _ = cdc_run(folder, bootstrap, topic, sample=True)
    return {"rows": rows, "pss_mb": spent.pss_mb, "anonymous_mb": spent.anonymous_mb, "by_role": spent.pss_by_role}


def checked_run(running: Contained) -> Spent:
    return checked(running, running.wait())


def produce(bootstrap: str, topic: str, rows: int, wrapped: bool) -> int:
    """Insert messages; how many bytes their values have."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, _PARTITIONS, 1)]).values():
        future.result(60)
    producer = Producer({
        "bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50, "batch.size": 1 << 20,
        "queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 20,
    })  # fmt: skip
    size = 0
    for number in range(rows):
        value = message(number, wrapped)
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, b'{"id":%d}' % number, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return size


_SOURCE = (
    b'"source":{"version":"3.6.1.Final","connector":"mysql","name":"dbz","ts_ms":1795230361574,"snapshot":"false",'
    b'"db":"shop","sequence":null,"ts_us":1795230361574952,"ts_ns":1795230361574952000,"table":"orders","server_id":1,'
    b'"gtid":"ca4ed047-e557-11f1-a43e-02fc00000001:23","file":"binlog.000001","pos":26466,"row":0,"thread":21,'
    b'"query":null},"transaction":null,"op":"c","ts_ms":1795230361756}'
)


def _schema() -> bytes:
    fields = [{**about, "optional": name != "id", "field": name} for name, about in _TYPES.items()]
    rows = {"type": "struct", "fields": fields, "optional": True, "name": "dbz.shop.orders.Value"}
    envelope = {"type": "struct", "fields": [{**rows, "field": "before"}, {**rows, "field": "after"}]}
    return json.dumps(envelope, separators=(",", ":")).encode()


_PREFIX = b'{"schema":' + _schema() + b',"payload":'


def message(number: int, wrapped: bool) -> bytes:
    """One insert."""
    payload = (
        b'{"before":null,"after":{"id":%d,"region":"eu","customer":"Ann B. Somebody","amount":"BBo=",'
        b'"created":1795168800123,"note":"some free text %d","qty":%d,"price":%d.25,"flag":true,"day":20777},%b'
    ) % (number, number, number % 7, number, _SOURCE)  # fmt: skip
    return _PREFIX + payload + b"}" if wrapped else payload


def consume(bootstrap: str, topic: str) -> None:
    """Read a topic to its end, and do nothing with it."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "bench", "enable.partition.eof": True, "enable.auto.commit": False,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(_PARTITIONS)])
    size = ended = 0
    while ended < _PARTITIONS:
        for record in consumer.consume(_AT_ONCE, 0.2):
            if record.error() is None:
                size += len(record.value() or b"")
            else:
                ended += 1
    consumer.close()


def cdc_run(folder: Path, bootstrap: str, topic: str, *, sample: bool = False) -> tuple[Spent, dict[str, Any]]:
    """A bounded run into a new DuckDB file: what it cost, and how many rows a second.

    From the start of the first batch, in which workers and kernels are loaded, and from its end to that of the last.
    """
    folder.mkdir(parents=True)
    file = folder / "bench.yaml"
    file.write_text(
        f"source:\n  type: kafka\n  properties.bootstrap.servers: {bootstrap}\n  topics: {topic}\n"
        "sink:\n  type: duckdb\n  path: sink.duckdb\npipeline:\n  schema.change.behavior: evolve\n"
    )
    command = [CDC, "run", str(file), "--state-dir", str(folder / "state"), "--log-format", "json"]
    spent = checked_run(Contained([*command, "--until-caught-up"], folder / "out", sample=sample))
    lines = [parsed(line) for line in (folder / "out" / "stderr").read_text().splitlines()]
    batches = [line for line in lines if line.get("message") == "batch committed"]
    rows = [batch["rows"] for batch in batches]
    first, last = batches[0]["committed_s"], batches[-1]["committed_s"]
    return spent, {
        "rows_per_s": round(sum(rows) / (last - first + batches[0]["duration_s"])),
        "rows_per_s_after_first_batch": round(sum(rows[1:]) / (last - first)) if rows[1:] else None,
        "batch_rows": rows, "batch_s": [round(batch["duration_s"], 2) for batch in batches],
    }  # fmt: skip


if __name__ == "__main__":
    main()

"""A real broker that is killed at every step of the Kafka sink, in its tasks and in the driver, and started again.

    PYTHONPATH=tests:tests/devservers .venv/bin/python tests/crash/broker_kills.py [--rounds 1] [--only task,schema]

At each step the broker gets SIGKILL and is started again at once; a call that stops with an error that may pass is made
again, as Spark and the driver do. In the end a `read_committed` consumer has to find every change once and in the order
of its key, and each schema change once. A step takes 3 to 10 seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kafka_servers import KafkaServer, own_brokers

from cdc.block import ChangeBlock
from cdc.errors import SinkUnavailable
from cdc.schema import AddColumn, Column, DataType, SourceStatement, TableId, TableSchema
from cdc.sink import Announced, TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import block
from cdc_services.kafka.broker import StartedBroker
from connectors.kafka.delivery.clients import KEPT
from connectors.kafka.delivery.fences import Fences
from connectors.kafka.delivery.transaction import Writer
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

TABLE = TableId("shop", "log")
SCHEMA = TableSchema((Column("id", DataType.parse("INT"), False), Column("n", DataType.parse("INT"))), ("id",))
KEYS, ROWS, TASKS = 5, 12, 2
ASKED = {
    "begin": "beginning a transaction", "take over": "taking over the transactional id", "fence": "sending the fence",
    "commit": "committing a transaction",
}  # fmt: skip
STEPS = (
    "before connect", "before take over", "after take over", "before begin", "mid-produce", "before fence",
    "after fence", "before commit", "while commit", "after commit", "before the fence is read",
)  # fmt: skip
_LONG_S = 120.0


class Killer:
    """Kills the broker when the step is reached, once, and starts it again."""

    def __init__(self, broker: StartedBroker) -> None:
        self._broker, self._step = broker, ""
        self._pool = ThreadPoolExecutor(1)
        self._starting: Future[None] | None = None

    def arm(self, step: str) -> None:
        """Kill at this step next."""
        self._step = step

    def reached(self, step: str) -> None:
        """A step is reached: die here, if it is the one."""
        if step == self._step:
            self._step = ""
            # Killed and started by one thread that lives on: a server ends with the thread that started it.
            self._starting = self._pool.submit(self._restart)
            if not step.startswith("while"):
                wait_until(lambda: not self._broker.running or (self._starting is not None and self._starting.done()))

    def settled(self) -> None:
        """The broker runs again. Raises when nothing was killed."""
        if self._starting is None:
            raise RuntimeError(f"the step {self._step!r} was never reached")
        self._starting.result(_LONG_S)
        self._starting = None

    def _restart(self) -> None:
        self._broker.kill9()
        self._broker.start()

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()


def wait_until(found: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError."""
    deadline = time.monotonic() + _LONG_S
    while not found():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.005)


def watch(killer: Killer) -> None:
    """Let the sink tell the killer which step it is at."""
    asked, send, take_over, read = Writer._asked, Writer.send, Writer.take_over, Fences.written
    names = {doing: step for step, doing in ASKED.items()}

    def around_asked(writer: Writer, doing: str, call: Any) -> None:
        step = names.get(doing, "")
        killer.reached(f"before {step}")
        killer.reached(f"while {step}")
        asked(writer, doing, call)
        killer.reached(f"after {step}")

    def around_send(writer: Writer, *given: Any) -> None:
        send(writer, *given)
        killer.reached("mid-produce")

    def around_take_over(writer: Writer, topic: str) -> None:
        killer.reached("before connect")
        take_over(writer, topic)

    def around_read(fences: Fences, *given: Any) -> Any:
        killer.reached("before the fence is read")
        return read(fences, *given)

    Writer._asked, Writer.send, Writer.take_over = around_asked, around_send, around_take_over  # type: ignore[method-assign]
    Fences.written = around_read  # type: ignore[method-assign]


def until_it_is_done(call: Callable[[], object]) -> int:
    """Make the call until it succeeds; how often it stopped with what may pass."""
    for number in range(10):
        try:
            call()
        except SinkUnavailable as error:
            print(f"      tried again after: {error}", flush=True)
        else:
            return number
    raise RuntimeError("it does not succeed")


def rows(first: int) -> Iterator[ChangeBlock]:
    """ROWS changes, each a block of its own."""
    for number in range(first, first + ROWS):
        yield block(TABLE, SCHEMA, [("+I", {"id": number % KEYS, "n": number})], sequence=number + 1)


def announced(batch: int) -> list[Announced]:
    """One ALTER."""
    column = Column(f"c{batch}", DataType.parse("INT"))
    begin = 100 * batch
    said = SourceStatement(f"ALTER TABLE log ADD c{batch} INT", "binlog.000001", begin, begin + 9, 1_700_000_000_000, 1)
    after = TableSchema((*SCHEMA.columns, column), SCHEMA.primary_key)
    return [Announced(AddColumn(TABLE, column, statement=said), SCHEMA, after)]


def tried(server: KafkaServer, folder: Path, rounds: int, only: set[str]) -> None:
    """All steps, and what a reader finds. Raises AssertionError."""
    assert server.process is not None
    killer = Killer(server.process)
    topic = server.new_topic(partitions=3)
    options = KafkaSinkOptions.model_validate({
        "type": "kafka", "properties.bootstrap.servers": server.bootstrap, "topic": topic,
        "sink.schema-changes": "topic", "sink.schema-changes.topic": f"{topic}-schema",
        "properties.reconnect.backoff.max.ms": "500",
    })  # fmt: skip
    sink = KafkaSink(options, Context(topic, LocalStore(folder)))
    watch(killer)
    batch = 0
    for part in sorted(only):
        for step in STEPS * rounds:
            began = time.monotonic()
            again = 0
            if part == "schema":
                killer.arm(step)
                again += until_it_is_done(lambda: sink.announce(batch, announced(batch)))  # noqa: B023
            for task in range(TASKS):
                if (part, task) == ("task", 1):
                    killer.arm(step)
                first, attempt = (batch * TASKS + task) * ROWS, TaskAttempt(batch, task, 0)
                again += until_it_is_done(lambda: sink.prepare(attempt, rows(first)))  # noqa: B023
            killer.settled()
            # A driver that saw none of it asks again: nothing may be written twice.
            until_it_is_done(lambda: sink.prepare(TaskAttempt(batch, 1, 1), rows((batch * TASKS + 1) * ROWS)))  # noqa: B023
            print(f"{part:6} {step:25} {again} tries more, {time.monotonic() - began:5.1f} s", flush=True)
            batch += 1
    KEPT.clear()
    seen: dict[int, list[int]] = defaultdict(list)
    for message in server.read(topic):
        after = json.loads(message.value())["after"]
        seen[after["id"]].append(after["n"])
    assert seen == {key: list(range(key, batch * TASKS * ROWS, KEYS)) for key in range(KEYS)}, seen
    if "schema" in only:
        told = [json.loads(message.value())["ddl"] for message in server.read(f"{topic}-schema")]
        # The steps of schema changes come first.
        assert told == [f"ALTER TABLE log ADD c{number} INT" for number in range(len(STEPS) * rounds)], told
    killer.close()
    print(f"{batch} batches, {batch * TASKS * ROWS} changes: each is there once, in the order of its key")


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--rounds", type=int, default=1)
    given.add_argument("--only", default="task,schema")
    options = given.parse_args()
    with own_brokers() as start, tempfile.TemporaryDirectory(prefix="broker-kills-") as folder:
        tried(start(), Path(folder), options.rounds, set(options.only.split(",")))


if __name__ == "__main__":
    assert threading.current_thread() is threading.main_thread()
    main()

"""A real broker that is killed at every step of the Kafka sink, in its tasks and in the driver, and started again.

    PYTHONPATH=tests:tests/devservers .venv/bin/python tests/crash/broker_kills.py [--only task,schema] [--seed N]

At each step the broker gets SIGKILL and is started again at once; a call that stops with an error that may pass is made
again, as Spark and the driver do, and the batch is committed. In the end a `read_committed` consumer has to find every
change once and in the order of its key, and each schema change once. A step takes 3 to 10 seconds. `--seed` is what
`make chaos` does: a few steps at random.

A broker that is killed may lose the end of a transaction which its coordinator has committed (`docs/kafka-sink.md`).
What is open in that way is aborted as an administrator would do it, and said; its batch is left out of the comparison,
and no other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from kafka_administrator import Administrator, administrator
from kafka_servers import KafkaServer, own_brokers

from cdc.block import ChangeBlock
from cdc.errors import LoadsLost, SinkUnavailable
from cdc.schema import AddColumn, Column, DataType, SourceStatement, TableId, TableSchema
from cdc.sink import Announced, Prepared, TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import block
from cdc_services.kafka.broker import StartedBroker
from connectors.kafka.delivery.clients import POOL
from connectors.kafka.delivery.fences import Fences
from connectors.kafka.delivery.transaction import TransactionWriter
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

TABLE = TableId("shop", "log")
SCHEMA = TableSchema((Column("id", DataType.parse("INT"), False), Column("n", DataType.parse("INT"))), ("id",))
KEYS, ROWS, TASKS = 5, 12, 2
_FENCES = "__consumer_offsets"
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


@contextmanager
def watched(killer: Killer) -> Iterator[None]:
    """Let the sink tell the killer which step it is at."""
    asked, send, init_transactions, read = (
        TransactionWriter._call,
        TransactionWriter.send,
        TransactionWriter.init_transactions,
        Fences.last_written,
    )
    names = {doing: step for step, doing in ASKED.items()}

    def around_asked(writer: TransactionWriter, doing: str, call: Any) -> None:
        step = names.get(doing, "")
        killer.reached(f"before {step}")
        killer.reached(f"while {step}")
        asked(writer, doing, call)
        killer.reached(f"after {step}")

    def around_send(writer: TransactionWriter, *given: Any) -> None:
        send(writer, *given)
        killer.reached("mid-produce")

    def around_init(writer: TransactionWriter, topic: str) -> None:
        killer.reached("before connect")
        init_transactions(writer, topic)

    def around_read(fences: Fences, *given: Any) -> Any:
        killer.reached("before the fence is read")
        return read(fences, *given)

    with (
        patch.object(TransactionWriter, "_call", around_asked), patch.object(TransactionWriter, "send", around_send),
        patch.object(TransactionWriter, "init_transactions", around_init),
        patch.object(Fences, "last_written", around_read),
    ):  # fmt: skip
        yield


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


class Try:
    """Batches into one topic; a broker is killed in each. `shut` are batches that ends were lost of, by partition."""

    def __init__(self, server: KafkaServer, folder: Path, killer: Killer, by_hand: Administrator) -> None:
        self._server, self._killer, self._by_hand = server, killer, by_hand
        self._topic = server.new_topic(partitions=3)
        self._told_in = server.new_topic("schema")
        options = KafkaSinkOptions.model_validate({
            "type": "kafka", "properties.bootstrap.servers": server.bootstrap, "topic": self._topic,
            "sink.schema-changes": "topic", "sink.schema-changes.topic": self._told_in,
            "retry-timeout": "30 s", "properties.reconnect.backoff.max.ms": "500",
        })  # fmt: skip
        self._sink = KafkaSink(options, Context(self._topic, LocalStore(folder)))
        self._batches, self._announced = 0, list[int]()
        self.lost: set[int] = set()

    def run(self, kills: Sequence[tuple[str, str]]) -> None:
        """A batch for each kill, and what a reader finds. Raises AssertionError."""
        for part, step in kills:
            began = time.monotonic()
            again = self._batch(self._batches, part, step)
            self._batches += 1
            print(f"  {part:6} {step:25} {again} tries more, {time.monotonic() - began:5.1f} s", flush=True)
        POOL.clear()
        self._ended()
        self._compared()

    def _batch(self, batch: int, part: str, step: str) -> int:
        again = 0
        if part == "schema":
            self._announced.append(batch)
            self._killer.arm(step)
            again += self._until_it_is_done(batch, lambda: self._sink.announce(batch, announced(batch)))
        handles = list[Prepared]()
        for task in range(TASKS):
            if (part, task) == ("task", 1):
                self._killer.arm(step)
            again += self._until_it_is_done(batch, self._task(batch, task, 0, handles))
        self._killer.settled()
        # A driver that saw none of it asks again: nothing may be written twice.
        self._until_it_is_done(batch, self._task(batch, 1, 1, []))
        try:
            again += self._until_it_is_done(batch, lambda: self._sink.commit(batch, handles))
        except LoadsLost:
            assert batch in self.lost, "rows were taken back, and nobody has aborted anything"
        return again

    def _task(self, batch: int, task: int, attempt: int, handles: list[Prepared]) -> Callable[[], None]:
        """What a task does; it is tried again with those before it, as an administrator may have aborted theirs."""
        numbers = itertools.count()

        def write() -> None:
            number = next(numbers)
            for each in range(0 if number else task, task + 1):
                written = self._sink.prepare(
                    TaskAttempt(batch, each, attempt + number), rows((batch * TASKS + each) * ROWS)
                )
            handles.extend(written)

        return write

    def _until_it_is_done(self, batch: int, call: Callable[[], object]) -> int:
        """Make the call until it succeeds; how often it stopped with what may pass."""
        began, number = time.monotonic(), 0
        while True:
            try:
                call()
            except SinkUnavailable as error:
                if time.monotonic() - began > 2 * _LONG_S:
                    raise
                print(f"    tried again after: {error}", flush=True)
                number += 1
                if "neither committed nor aborted" in str(error):
                    self._abort_lost(batch)
                time.sleep(0.2)
            else:
                return number

    def _abort_lost(self, batch: int) -> None:
        """Abort what the broker has lost the end of, as an administrator does."""
        if count := self._by_hand.abort_lost(self._topic, self._told_in, _FENCES):
            print(f"    batch {batch}: the broker has lost ends in {count} partitions, which are aborted", flush=True)
            self.lost.add(batch)

    def _ended(self) -> None:
        """Wait until nothing is open any more; ends that are lost do not come, and are those of the last batches."""
        topics = (self._topic, self._told_in)

        def settled() -> bool:
            going_on, lost = self._by_hand.open_in(*topics)
            return len(going_on) == len(lost)

        wait_until(settled)
        seen = {(each.topic(), each.partition(), each.offset()) for each in self._server.read(*topics)}
        if self._by_hand.open_in(*topics)[1]:
            for each in self._server.read(*topics, isolation="read_uncommitted"):
                if (each.topic(), each.partition(), each.offset()) not in seen:
                    self.lost.add(_batch_of(json.loads(each.value())))
            print(f"    the broker has lost ends: batches {sorted(self.lost)} are not compared", flush=True)

    def _compared(self) -> None:
        seen: dict[int, list[int]] = defaultdict(list)
        for message in self._server.read(self._topic):
            value = json.loads(message.value())
            if _batch_of(value) not in self.lost:
                seen[value["after"]["id"]].append(value["after"]["n"])
        wanted = [number for number in range(self._batches * TASKS * ROWS) if number // (TASKS * ROWS) not in self.lost]
        keys = {key: [number for number in wanted if number % KEYS == key] for key in range(KEYS)}
        assert {key: seen[key] for key in keys} == keys, dict(seen)
        told = [json.loads(message.value()) for message in self._server.read(self._told_in)]
        batches = [batch for batch in map(_batch_of, told) if batch not in self.lost]
        assert batches == [batch for batch in self._announced if batch not in self.lost], batches
        print(
            f"  {self._batches} batches, {len(wanted)} changes: each is there once, in the order of its key", flush=True
        )


def _batch_of(value: dict[str, Any]) -> int:
    """The batch that a message is of."""
    if "ddl" in value:
        return int(value["ddl"].split()[4][1:])
    return int(value["after"]["n"]) // (TASKS * ROWS)


def run(seeds: Sequence[int], kills: int = 6) -> None:
    """Some steps at random for each seed. Raises AssertionError."""
    with environment() as made:
        for seed in seeds:
            rng = Random(seed)
            print(f"  seed {seed}", flush=True)
            made().run([(rng.choice(("task", "schema")), rng.choice(STEPS)) for _ in range(kills)])


@contextmanager
def environment() -> Iterator[Callable[[], Try]]:
    """A broker to be killed, and a function that begins a try on it."""
    with own_brokers() as start, tempfile.TemporaryDirectory(prefix="broker-kills-") as folder:
        server = start()
        assert server.process is not None
        killer = Killer(server.process)
        try:
            with administrator(server.bootstrap) as by_hand, watched(killer):
                yield lambda: Try(server, Path(tempfile.mkdtemp(dir=folder)), killer, by_hand)
        finally:
            POOL.clear()
            killer.close()


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--only", default="task,schema")
    given.add_argument("--seed", type=int, help="random steps, as in `make chaos`, instead of all")
    given.add_argument("--seeds", type=int, default=1, help="how many, from that one on (1)")
    options = given.parse_args()
    if options.seed is not None:
        run(range(options.seed, options.seed + options.seeds))
        return
    with environment() as made:
        made().run([(part, step) for part in sorted(options.only.split(",")) for step in STEPS])


if __name__ == "__main__":
    assert threading.current_thread() is threading.main_thread()
    main()

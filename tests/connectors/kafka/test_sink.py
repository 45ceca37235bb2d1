"""The sink on a real broker: what readers get, once and in order, through crashes, replays and two runs at once."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka_servers import KafkaServer

from cdc.errors import CdcError, SinkError, SinkUnavailable, SourceUnavailable, StateError, StateUnavailable
from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import block
from connectors.kafka.delivery.clients import POOL
from connectors.kafka.delivery.turn import FailedTasks
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka
SCHEMA = TableSchema((Column("id", DataType(Kind.INT), False), Column("n", DataType(Kind.STRING))), ("id",))
NO_KEY = TableSchema((Column("n", DataType(Kind.STRING)),))


class Made:
    """A sink of a pipeline of its own, and its topic."""

    def __init__(self, broker: KafkaServer, folder: Path, **options: Any) -> None:
        self.broker, self.folder, self.pipeline = broker, folder, broker.new_name("p")
        self.table = TableId("shop", broker.new_name("orders"))
        self.topic = str(self.table)
        self.options = {"type": "kafka", "properties.bootstrap.servers": broker.bootstrap, **options}

    def sink(self) -> KafkaSink:
        """As after a restart."""
        context = Context(self.pipeline, LocalStore(self.folder))
        return KafkaSink(KafkaSinkOptions.model_validate(self.options), context)

    def create(self, schema: TableSchema = SCHEMA) -> None:
        self.sink().apply(0, [CreateTable(self.table, schema)])

    def prepare(self, batch: int, task: int, changes: Sequence[tuple[str, dict[str, Any]]], **more: Any) -> Any:
        sink = more.pop("sink", None) or self.sink()
        schema = more.pop("schema", SCHEMA)
        blocks = [block(self.table, schema, changes, sequence=batch * 10 + task + 1)]
        return sink.prepare(TaskAttempt(batch, task, 0, **more), iter(blocks))

    def read(self, isolation: str = "read_committed") -> list[tuple[Any, Any]]:
        """Key and, of the value, op and the new row's `n`."""
        return [_short(message.key(), message.value()) for message in self.broker.read(self.topic, isolation=isolation)]


def _short(key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
    shown = None
    if value is not None:
        fields = json.loads(value)
        shown = fields["op"], (fields["after"] or {}).get("n")
    return key and next(iter(json.loads(key).values())), shown


@pytest.fixture
def made(kafka_broker: KafkaServer, tmp_path: Path) -> Made:
    return Made(kafka_broker, tmp_path)


def inserts(*numbers: int) -> list[tuple[str, dict[str, Any]]]:
    return [("+I", {"id": number, "n": f"n{number}"}) for number in numbers]


def test_readers_get_each_change_and_the_handles_count_them(made: Made) -> None:
    made.sink().check()
    made.create()
    old, new = {"id": 1, "n": "a"}, {"id": 1, "n": "b"}
    changes = [("+I", old), ("-U", old), ("+U", new), ("-U", new), ("+U", {"id": 2, "n": "c"}), ("-D", {"id": 2})]
    (handle,) = made.prepare(0, 0, changes)
    assert (handle.inserts, handle.updates, handle.deletes) == (1, 2, 1)
    assert made.read() == [
        (1, ("c", "a")), (1, ("u", "b")), (1, ("d", None)), (1, None), (2, ("c", "c")), (2, ("d", None)), (2, None),
    ]  # fmt: skip
    headers = [message.headers() for message in made.broker.read(made.topic)]
    assert headers[2] == headers[3] == [("__debezium.newkey", b'{"id":2}')]
    assert headers[4] == [("__debezium.oldkey", b'{"id":1}')]


@pytest.mark.parametrize(
    ("mode", "shown", "counts"),
    [
        ("long", -1, {"values of BIGINT UNSIGNED from 2^63 on, written as negative numbers": 2}),
        ("precise", "AP//////////", {}),
    ],
)
def test_unsigned_numbers_that_are_written_as_negative_ones_are_counted(
    kafka_broker: KafkaServer, tmp_path: Path, mode: str, shown: object, counts: dict[str, int]
) -> None:
    made = Made(kafka_broker, tmp_path, **{"debezium-json.bigint.unsigned.handling.mode": mode})
    schema = TableSchema(
        (Column("id", DataType.parse("INT"), False), Column("n", DataType.parse("BIGINT UNSIGNED"))), ("id",)
    )
    made.create(schema)
    numbers = [(1 << 64) - 1, 1 << 63, (1 << 63) - 1, None]
    changes = [("+I", {"id": number, "n": n}) for number, n in enumerate(numbers)]
    (handle,) = made.prepare(0, 0, changes, schema=schema)
    assert handle.counts == counts
    assert made.read()[0] == (0, ("c", shown))


def test_a_batch_that_runs_again_writes_only_what_is_missing(made: Made) -> None:
    made.create()
    first = made.prepare(3, 0, inserts(1, 2))
    assert made.prepare(3, 0, inserts(1, 2)) == first
    made.prepare(3, 1, inserts(3))
    made.prepare(4, 0, inserts(4))
    assert [key for key, _ in made.read()] == [1, 2, 3, 4]


def test_what_a_dead_task_left_open_is_never_read_and_its_successor_writes_it(made: Made) -> None:
    made.create()

    class Died(Exception):
        pass

    def dying() -> Any:
        yield block(made.table, SCHEMA, inserts(1, 2, 3))
        raise Died

    with pytest.raises(Died):
        made.sink().prepare(TaskAttempt(0, 0, 0), dying())
    assert made.read() == []
    made.prepare(0, 0, inserts(1, 2, 3))
    assert [key for key, _ in made.read()] == [1, 2, 3]


def test_a_task_writes_behind_the_one_before_it(made: Made) -> None:
    from concurrent.futures import ThreadPoolExecutor

    made.create()
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(made.prepare, 0, 1, [("-U", {"id": 1, "n": "n1"}), ("+U", {"id": 1, "n": "later"})])
        made.prepare(0, 0, inserts(1))
        later.result(60)
    assert made.read() == [(1, ("c", "n1")), (1, ("u", "later"))]


def test_a_task_does_not_wait_for_one_that_has_stopped(made: Made) -> None:
    made.create()
    FailedTasks(LocalStore(made.folder)).note(0, 0, SinkError("stopped"))
    with pytest.raises(SinkUnavailable, match="task 1 of batch 0, which writes before, has stopped"):
        made.prepare(0, 2, inserts(1))
    made.sink().abort(0)
    assert not FailedTasks(LocalStore(made.folder)).has_failed(0, 5)


def test_a_task_does_not_wait_for_one_that_spark_does_not_retry(made: Made) -> None:
    """One that has retried for retry-timeout: it was waited for through half an hour."""

    def away(waited_s: float) -> Any:
        error = SourceUnavailable("away")
        error.waited_s = waited_s
        yield from ()
        raise error

    made.create()
    for waited_s in (0.0, 600.0):
        with pytest.raises(SourceUnavailable):
            made.sink().prepare(TaskAttempt(0, 0, 0), away(waited_s))
        assert FailedTasks(LocalStore(made.folder)).has_failed(0, 0) == (waited_s > 0)
    with pytest.raises(SinkUnavailable, match="has stopped") as caught:
        made.prepare(0, 1, inserts(1))
    assert caught.value.waited_s > 0  # so that Spark does not retry this one either, and the error before it is told


def test_a_task_that_cannot_note_that_it_has_stopped_ends_the_others_with_it(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk. As its result, the error would not end Spark's job, in which the others wait for half an hour."""

    def fail(reason: CdcError) -> Any:
        yield from ()
        raise reason

    def full(path: Path, data: bytes) -> None:
        raise StateError("cannot write the state: No space left on device", where=str(path), hint="free some space")

    made.create()
    monkeypatch.setattr("cdc.state.store.write_file", full)
    for reason in (SinkError("a row is too large"), StateError("the disk is full")):
        with pytest.raises(StateUnavailable, match="No space left on device") as caught:
            made.sink().prepare(TaskAttempt(0, 0, 0), fail(reason))
        assert ("a row is too large" in str(caught.value)) == isinstance(reason, SinkError)


def test_of_two_runs_of_one_pipeline_the_older_is_fenced(made: Made) -> None:
    made.create()

    def overtaken() -> Any:
        yield block(made.table, SCHEMA, inserts(1))
        made.prepare(0, 0, inserts(1))
        yield block(made.table, SCHEMA, inserts(2))

    with pytest.raises(SinkError, match="two runs of one pipeline") as caught:
        made.sink().prepare(TaskAttempt(0, 0, 0), overtaken())
    assert not caught.value.retryable
    assert [key for key, _ in made.read()] == [1]


def test_an_older_copy_of_the_state_directory_is_found(made: Made) -> None:
    made.create()
    made.prepare(7, 0, inserts(1))
    with pytest.raises(SinkError, match=r"batch 7 of this pipeline was written already.*restore the newest"):
        made.prepare(6, 0, inserts(2))


def test_a_replay_stops_when_its_fences_are_gone_and_a_long_pause_does_not_matter(made: Made) -> None:
    made.create()
    made.sink().commit(0, made.prepare(0, 0, inserts(1)))
    made.broker.forget_group(f"cdc-{made.pipeline}")
    made.prepare(1, 0, inserts(2))
    made.broker.forget_group(f"cdc-{made.pipeline}")
    with pytest.raises(SinkError, match=r"begun with batch 1, and the fences.*are missing.*fences\.json") as caught:
        made.prepare(1, 0, inserts(2), again=True)
    assert not caught.value.retryable
    (made.folder / "fences.json").unlink()
    made.prepare(1, 0, inserts(2), again=True)
    assert [key for key, _ in made.read()] == [1, 2, 2]


def test_a_message_that_is_too_large_is_named(made: Made) -> None:
    made.options["properties.max.request.size"] = "2000"
    made.create()
    with pytest.raises(
        SinkError, match=rf"{made.topic}, key {{\"id\":2}}, topic {made.topic}: a message of 3,\d+ bytes"
    ):
        made.prepare(0, 0, [("+I", {"id": 1, "n": "x"}), ("+I", {"id": 2, "n": "x" * 3000})])
    made.options["sink.custom-header"] = f"long:{'x' * 3000}"
    with pytest.raises(SinkError, match=r"a message of 3,\d+ bytes"):
        made.prepare(0, 0, inserts(1))
    assert made.read() == []


def test_of_two_runs_at_once_the_one_whose_batch_has_other_rows_stops(made: Made) -> None:
    made.create()

    def prepare(batch: int, rows: str, *numbers: int) -> None:
        blocks = [block(made.table, SCHEMA, inserts(*numbers), sequence=batch)]
        made.sink().prepare(TaskAttempt(batch, 0, 0, rows=rows), iter(blocks))

    prepare(0, "rows 1 and 2", 1, 2)
    prepare(0, "rows 1 and 2", 1, 2)
    with pytest.raises(
        SinkError, match=r"batch 0 .* with other rows: another run is active.*stop one of them"
    ) as caught:
        prepare(0, "rows 1 to 3", 1, 2, 3)
    assert not caught.value.retryable
    assert [key for key, _ in made.read()] == [1, 2]


def test_messages_that_are_too_large_are_kept_as_dead_letters_on_request(made: Made, tmp_path: Path) -> None:
    made.options |= {"properties.max.request.size": "2000", "sink.dead-letter.path": str(tmp_path / "dead")}
    made.create()
    moved = [("-U", {"id": 3, "n": "b"}), ("+U", {"id": 4, "n": "b"})]
    rows = [("+I", {"id": 1, "n": "a"}), ("+I", {"id": 2, "n": "x" * 3000}), *moved]
    for _ in range(2):
        (handle,) = made.prepare(0, 0, rows)
    assert made.read() == [(1, ("c", "a")), (3, ("d", None)), (3, None), (4, ("c", "b"))]
    assert [bool(message.headers()) for message in made.broker.read(made.topic)] == [False, True, True, True]
    (file,) = (tmp_path / "dead" / made.topic).iterdir()
    (line,) = file.read_text().splitlines()
    letter = json.loads(line)
    assert (letter["table"], letter["key"]) == (made.topic, {"key": '{"id":2}'})
    assert json.loads(letter["row"]["value"])["after"]["n"] == "x" * 3000
    assert "is larger than 2,000" in letter["rejected"][0]["reason"]
    made.options["sink.dead-letter.path"] = str(tmp_path / "more")
    (handle,) = made.prepare(1, 0, rows)
    assert handle.counts == {"too-large-dead-letter": 1}


def test_the_topics_own_limit_names_the_record_too(made: Made) -> None:
    made.broker.create(made.topic, max_message_bytes="1000")
    incompressible = random.Random(5).randbytes(1500).hex()
    with pytest.raises(SinkError, match=rf"{made.topic} \[0\], key {{\"id\":2}}, 3,\d+ bytes"):
        made.prepare(0, 0, [("+I", {"id": 1, "n": "x"}), ("+I", {"id": 2, "n": incompressible})])
    assert made.read() == []


def test_rows_of_a_table_without_a_key_stay_in_one_partition(made: Made) -> None:
    made.options["topic.create.partitions"] = 4
    made.create(NO_KEY)
    made.prepare(0, 0, [("+I", {"n": str(number)}) for number in range(50)], schema=NO_KEY)
    messages = made.broker.read(made.topic)
    assert len({message.partition() for message in messages}) == 1
    assert [json.loads(message.value())["after"]["n"] for message in messages] == [str(n) for n in range(50)]
    assert {message.key() for message in messages} == {None}


def test_keys_go_where_a_java_producer_sends_them(made: Made) -> None:
    made.options["topic.create.partitions"] = 7
    made.create()
    made.prepare(0, 0, inserts(*range(40)))
    found = {message.key(): message.partition() for message in made.broker.read(made.topic)}
    from connectors.kafka.delivery.partitioner import murmur2

    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in found}
    assert len(set(found.values())) > 3


def test_partitions_that_a_topic_gets_meanwhile_are_used_by_the_next_task(made: Made) -> None:
    """Each task has one count of partitions; a key's records from before stay where they are."""
    made.create()
    made.prepare(0, 0, inserts(*range(20)))
    made.broker.grow(made.topic, 5)
    made.prepare(1, 0, inserts(*range(20, 60)))
    found = {message.key(): message.partition() for message in made.broker.read(made.topic)}
    assert len(found) == 60
    from connectors.kafka.delivery.partitioner import murmur2

    later = {key: partition for key, partition in found.items() if json.loads(key)["id"] >= 20}
    assert later == {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in later}
    assert len(set(later.values())) > 3


def test_clients_are_kept_for_the_next_task_but_not_behind_an_error(made: Made) -> None:
    made.create()
    made.prepare(0, 0, inserts(1))
    sink = made.sink()
    made_of = sink._options, sink._context
    kept = POOL.acquire(made_of)
    assert kept is not None
    POOL.release(made_of, kept)
    made.prepare(1, 0, inserts(2))
    again = POOL.acquire(made_of)
    assert again is kept
    POOL.release(made_of, again)
    with pytest.raises(SinkError, match="is an older copy"):
        made.prepare(0, 0, inserts(3))
    assert POOL.acquire(made_of) is None


def test_a_topic_that_may_not_be_created_is_asked_for(made: Made) -> None:
    made.options["topic.create"] = False
    with pytest.raises(SinkError, match=f"there is no topic {made.topic}"):
        made.create()


def test_at_least_once_writes_again_what_was_not_noted(made: Made) -> None:
    made.options["sink.delivery-guarantee"] = "at-least-once"
    made.create()

    def dying() -> Any:
        yield block(made.table, SCHEMA, inserts(1))
        raise KeyboardInterrupt

    made.prepare(0, 0, inserts(1))
    made.prepare(0, 0, inserts(1))
    made.prepare(0, 1, inserts(2))
    assert [key for key, _ in made.read()] == [1, 2]

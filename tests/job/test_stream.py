"""The stream reader: the batch number in the offsets, the first offset, stop requests, errors that cross processes."""

from __future__ import annotations

import pickle
import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from cdc.errors import EngineError, SourceError, SourceUnavailable, UnsupportedChange
from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.flow.task_result import TaskResult
from cdc.job.error_transport import CrossingError, recover
from cdc.job.spark.same_environment import installed
from cdc.job.stream import SplitPartition, StreamReader, data_source
from cdc.job.stream_parts import SealedParts, StreamParts, TaskParts
from cdc.offsets import BATCH_KEY, source_offset
from cdc.retry import RetryPolicy
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.source import Limits, Offset
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.requests import Mailbox, RequestKind
from cdc.testing import ListSink, ListSource, block

T = TableId("shop", "t")
SCHEMA = TableSchema((Column("id", DataType.parse("INT")),), primary_key=("id",))
ITEMS = (
    CreateTable(T, SCHEMA),
    block(T, SCHEMA, [("+I", {"id": 1}), ("+I", {"id": 2})], sequence=1),
    block(T, SCHEMA, [("-D", {"id": 1})], sequence=2),
)
ALL = ReadAllAvailable()


class Strict(ListSource):
    """Refuses offsets with anything in them that it did not make; one batch for each item."""

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        assert set(start) == {"item"}
        return {"item": min(start["item"] + 1, len(ITEMS))}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Any:
        assert set(start) == set(end) == {"item"}
        return super().splits(start, end, parallelism)

    def commit(self, end: Offset) -> None:
        assert set(end) == {"item"}


def reader(folder: Path, source: ListSource, sink: ListSink | None = None) -> StreamReader:
    state = StateDir(folder)
    state.open(name="p", source="list")
    task = PrepareTask(source, sink or ListSink(), Middle(), TableLog(state.store))
    return StreamReader(SealedParts(StreamParts(source, state, Limits(1, 1), 2, TaskParts(task, state.stop_file))))


def test_offsets_number_the_batches_and_sources_never_see_it(tmp_path: Path) -> None:
    stream = reader(tmp_path, Strict(ITEMS))
    at = stream.initialOffset()
    assert at == {"item": 0, BATCH_KEY: 0}
    found = [at]
    while (end := stream.latestOffset(at, ALL)) != at:
        stream.partitions(at, end)
        stream.commit(at)
        found.append(end)
        at = end
    assert found == [{"item": number, BATCH_KEY: number} for number in range(4)]
    assert source_offset(found[-1]) == {"item": 3}


def test_a_source_with_nothing_new_leaves_the_offset_alone(tmp_path: Path) -> None:
    end = {"item": len(ITEMS), BATCH_KEY: 7}
    assert reader(tmp_path, ListSource(ITEMS)).latestOffset(end, ALL) == end


def test_a_request_makes_an_empty_batch_where_nothing_comes_but_not_behind_a_stop(tmp_path: Path) -> None:
    stream, state = reader(tmp_path, ListSource(ITEMS)), StateDir(tmp_path)
    at = {"item": len(ITEMS), BATCH_KEY: 7}
    request = Mailbox(state.store).add(T, RequestKind.PAUSE)
    end = stream.latestOffset(at, ALL)
    assert end == {"item": len(ITEMS), BATCH_KEY: 8}
    assert stream.partitions(at, end) == []
    Mailbox(state.store).remove([request])
    assert stream.latestOffset(end, ALL) == end
    Mailbox(state.store).add(T, RequestKind.RESUME)
    state.request_stop()
    assert stream.latestOffset(end, ALL) == end


def test_the_first_offset_is_asked_for_once_in_the_life_of_a_pipeline(tmp_path: Path) -> None:
    class Moving(ListSource):
        starts = iter((5, 6))

        def initial_offset(self) -> Offset:
            return {"item": next(self.starts)}

    first = reader(tmp_path, Moving(ITEMS)).initialOffset()
    assert first == {"item": 5, BATCH_KEY: 0}
    assert reader(tmp_path, Moving(ITEMS)).initialOffset() == first


def test_after_a_stop_request_no_batch_is_planned(tmp_path: Path) -> None:
    stream = reader(tmp_path, ListSource(ITEMS))
    state = StateDir(tmp_path)
    at = stream.latestOffset(stream.initialOffset(), ALL)
    state.request_stop()
    assert not state.stop_confirmed()
    assert stream.latestOffset(at, ALL) == at
    assert state.stop_confirmed()


@pytest.mark.parametrize(("error", "shown"), [("ConnectionResetError", False), ("OSError", True)])
def test_an_answer_that_a_stop_cut_off_leaves_no_traceback_in_the_terminal(error: str, shown: bool) -> None:
    """Spark's runner of readers writes to the closed connection once more after `stop`, and ends with what that met."""
    code, stderr = ended_process(f"""
from cdc.job.stream import StreamReader
from cdc.job.stream_parts import SealedParts, StreamParts
from cdc.source import Limits
from cdc.testing import ListSource
StreamReader(SealedParts(StreamParts(ListSource(()), None, Limits(1, 1), 1, None))).stop()
raise {error}("of the runner")
""")
    assert code == 1
    assert ("of the runner" in stderr) is shown
    assert shown or not stderr


def test_lines_of_a_process_that_pipelines_share_name_the_pipeline() -> None:
    code, stderr = ended_process("""
import logging, pickle, warnings
from cdc.job.stream_parts import SealedParts, StreamParts
for label in ("", "shop", "shop"):
    pickle.loads(pickle.dumps(SealedParts(StreamParts(None, None, None, 1, None, label)))).plan
    logging.getLogger("connectors.mysql").info("not worth a look")
    logging.getLogger("connectors.mysql").warning("no answer: \x1b[2J%s", "tried again")
warnings.warn("is old")
""")
    assert code == 0, stderr
    alone, *shared, warned = stderr.splitlines()[:4]
    assert alone == "no answer: \x1b[2Jtried again"
    assert len(shared) == 2
    for line in shared:
        assert re.fullmatch(r"\d\d:\d\d:\d\d warning: shop: no answer: \\x1b\[2Jtried again", line)
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning: shop: .*UserWarning: is old", warned)


def ended_process(program: str) -> tuple[int, str]:
    """Exit code and stderr of a process of Python."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


def test_a_stop_before_the_first_batch_leaves_an_empty_one(tmp_path: Path) -> None:
    """Spark logs what it is told then as the end of batch 0, and could not start again from the initial offset."""
    stream = reader(tmp_path, ListSource(ITEMS))
    state = StateDir(tmp_path)
    at = stream.initialOffset()
    state.request_stop()
    end = stream.latestOffset(at, ALL)
    assert end == {"item": 0, BATCH_KEY: 1}
    assert stream.partitions(at, end) == []
    assert not state.stop_confirmed()  # a batch is under way
    assert stream.latestOffset(end, ALL) == end
    assert state.stop_confirmed()


def test_a_first_batch_without_anything_new_is_an_empty_one(tmp_path: Path) -> None:
    stream = reader(tmp_path, ListSource([]))
    at = stream.initialOffset()
    end = stream.latestOffset(at, ALL)
    assert end == {"item": 0, BATCH_KEY: 1}
    assert stream.latestOffset(end, ALL) == end


def test_a_partition_prepares_its_split_under_its_batch(tmp_path: Path) -> None:
    sink = ListSink()
    stream = reader(tmp_path, ListSource(ITEMS), sink)
    parts = stream.partitions({"item": 0, BATCH_KEY: 4}, {"item": 3, BATCH_KEY: 5})
    sink.apply(0, [CreateTable(T, SCHEMA)])
    results = [
        TaskResult.from_row(*row) for part in pickle.loads(pickle.dumps(parts)) for row in stream.read(part)
    ]  # fmt: skip
    handles = [handle for result in results for handle in result.prepared]
    assert [(handle.inserts, handle.deletes, handle.partition) for handle in handles] == [(2, 0, 0), (0, 1, 1)]
    assert all(str(handle.handle).startswith("4/") for handle in handles)
    assert results[1].newest_ms == 2000
    sink.commit(4, handles)
    assert sink.rows(T) == [{"id": 2}]


def test_only_its_own_partitions_are_read(tmp_path: Path) -> None:
    from pyspark.sql.datasource import InputPartition

    with pytest.raises(TypeError, match="SplitPartition"):
        next(reader(tmp_path, ListSource(ITEMS)).read(InputPartition(1)))


def test_errors_cross_as_what_they_are(tmp_path: Path) -> None:
    class Refusing(ListSource):
        def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
            raise UnsupportedChange("an incident", where="binlog.000001:4", hint="start over")

    stream = reader(tmp_path, Refusing(ITEMS))
    with pytest.raises(CrossingError) as crossed:
        stream.latestOffset({"item": 0, BATCH_KEY: 0}, ALL)
    found = recover(RuntimeError(f"Spark says: {crossed.value} and more"))
    assert isinstance(found, UnsupportedChange)
    assert (found.message, found.where, found.hint) == ("an incident", "binlog.000001:4", "start over")
    assert isinstance(found, SourceError)


def test_a_request_is_taken_in_though_the_source_cannot_go_on(tmp_path: Path) -> None:
    """`cdc resync` may be what lets it: the table is re-snapshotted, whatever the log does not tell of its rows."""

    class Refusing(ListSource):
        def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
            raise UnsupportedChange("rows that the log does not hold", where="shop.t")

    stream = reader(tmp_path, Refusing(ITEMS))
    state = stream._plan.state
    request = Mailbox(state.store).add(T, RequestKind.SNAPSHOT)
    at = {"item": 0, BATCH_KEY: 1}
    assert stream.latestOffset(at, ALL) == {"item": 0, BATCH_KEY: 2}, "an empty batch, which takes it in"
    Mailbox(state.store).remove([request])
    with pytest.raises(CrossingError):
        stream.latestOffset({"item": 0, BATCH_KEY: 2}, ALL)


def test_the_data_source_carries_the_plan_and_no_options(tmp_path: Path) -> None:
    stream = reader(tmp_path, ListSource(ITEMS))
    kind = data_source(stream._plan)
    made = kind(options={})
    assert (kind.name(), made.schema()) == ("cdc", "result string, payloads binary")
    assert made.streamReader(None).initialOffset() == {"item": 0, BATCH_KEY: 0}  # type: ignore[arg-type]


def test_lag_is_reported_when_the_source_can_tell(tmp_path: Path) -> None:
    from cdc.source import Lag

    class Behind(ListSource):
        def lag(self) -> Lag:
            return Lag(12, "waiting")

    assert reader(tmp_path, ListSource(ITEMS)).reportLatestOffset() is None
    assert reader(tmp_path, Behind(ITEMS)).reportLatestOffset() == {
        "bytes": 12, "note": "waiting", "notices": (), "noticed": 0, "transactions": None,
    }  # fmt: skip


def test_notices_are_on_disk_before_the_batch_that_met_them_is_known(tmp_path: Path) -> None:
    """Also when the source fails right then."""
    from cdc.source import Lag
    from cdc.state.directory import StateDir
    from cdc.state.notices import Notices

    class Meets(ListSource):
        met: tuple[str, ...] = ()

        def lag(self) -> Lag:
            return Lag.with_notices(self.met)

        def latest_offset(self, start: Any, limits: Any, wait_s: float) -> Any:
            self.met = (*self.met, f"notice {len(self.met)}")
            if len(self.met) > 1:
                raise SourceError("it ends here")
            return super().latest_offset(start, limits, wait_s)

    planner = reader(tmp_path, Meets(ITEMS))
    start = planner.initialOffset()
    planner.latestOffset(start, None)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="it ends here"):
        planner.latestOffset(start, None)  # type: ignore[arg-type]
    assert Notices(StateDir(tmp_path).store).drain() == ["notice 0", "notice 1"]


def test_a_partition_is_small() -> None:
    from cdc.source import Split

    assert len(pickle.dumps(SplitPartition(3, Split(0, [1, 2])))) < 1000


def test_a_stop_request_ends_the_wait_of_a_bounded_run(tmp_path: Path) -> None:
    class Waiting(ListSource):
        """As a source whose server is gone: only `stop` ends its wait."""

        def __init__(self) -> None:
            super().__init__([])
            self.stopped = threading.Event()

        def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
            state.request_stop()
            assert self.stopped.wait(60)
            return start

        def stop(self) -> None:
            self.stopped.set()

        def __reduce__(self) -> tuple[object, ...]:
            return Waiting, ()

    state = StateDir(tmp_path)
    stream = reader(tmp_path, Waiting())
    at = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    assert source_offset(stream.latestOffset(at, ALL)) == source_offset(at)


def test_once_a_stop_is_asked_for_a_task_is_not_tried_again(tmp_path: Path) -> None:
    class Gone(ListSource):
        def read(self, *_: Any) -> Any:
            raise SourceUnavailable("the server is away")

    stream = reader(tmp_path, Gone(ITEMS))
    (part,) = stream.partitions({"item": 1, BATCH_KEY: 1}, {"item": 2, BATCH_KEY: 2})
    with pytest.raises(CrossingError):  # Spark tries again
        list(stream.read(part))
    StateDir(tmp_path).request_stop()
    (row,) = stream.read(part)
    with pytest.raises(SourceUnavailable, match="the server is away"):
        TaskResult.from_row(*row).raise_error()


def test_what_a_task_has_waited_for_is_not_tried_again_by_spark(tmp_path: Path) -> None:
    """Its four tries took four times the `retry-timeout`."""

    class Away(ListSource):
        def read(self, *_: Any) -> Any:
            times = iter(range(0, 10_000, 600))
            return RetryPolicy(clock=lambda: next(times)).call(self._fail, "reading")

        def _fail(self) -> None:
            raise SourceUnavailable("the server is away")

    stream = reader(tmp_path, Away(ITEMS))
    (part,) = stream.partitions({"item": 1, BATCH_KEY: 1}, {"item": 2, BATCH_KEY: 2})
    (row,) = stream.read(part)
    with pytest.raises(SourceUnavailable, match="the server is away"):
        TaskResult.from_row(*row).raise_error()


def of_another_machine(stream: StreamReader, **differs: str) -> StreamReader:
    plan = stream._plan
    side = replace(plan.side, packages={**installed(), **differs})
    return StreamReader(SealedParts(replace(plan, side=side)))


def test_an_executor_with_other_packages_does_not_begin(tmp_path: Path) -> None:
    sink = ListSink()
    stream = of_another_machine(reader(tmp_path, ListSource(ITEMS), sink), duckdb="9.9")
    (part, *_) = stream.partitions({"item": 1, BATCH_KEY: 1}, {"item": 2, BATCH_KEY: 2})
    with pytest.raises(CrossingError) as crossed:
        list(stream.read(part))
    found = recover(RuntimeError(str(crossed.value)))
    assert isinstance(found, EngineError)
    assert "duckdb is " in found.message
    assert "9.9 here" in found.message
    assert "same version of cdc" in found.hint


def test_an_error_on_another_machine_names_it(tmp_path: Path) -> None:
    class Away(ListSource):
        def read(self, *_: Any) -> Any:
            raise SourceUnavailable("no connection", where="MySQL at db:3306")

    stream = of_another_machine(reader(tmp_path, Away(ITEMS)))
    (part, *_) = stream.partitions({"item": 1, BATCH_KEY: 1}, {"item": 2, BATCH_KEY: 2})
    with pytest.raises(CrossingError) as crossed:
        list(stream.read(part))
    found = recover(RuntimeError(str(crossed.value)))
    assert str(found) == f"MySQL at db:3306: no connection (on the machine {socket.gethostname()})"

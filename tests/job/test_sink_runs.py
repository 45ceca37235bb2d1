"""The runs of a pipeline with several sinks: what becomes of one is no matter of the others. Without Spark."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.errors import EngineError, SinkError, SinkUnavailable, StateError, WorkerLost
from cdc.job import several_sinks
from cdc.job.control import RunControl
from cdc.job.log_records import log_records_here
from cdc.job.notifying import RunNotifying
from cdc.job.report import Reporter
from cdc.job.several_sinks import run_sinks
from cdc.job.spark.shared import SharedSpark
from cdc.job.state_location import check_one_sink
from cdc.spec.check import check
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir

TWO = (
    "source: {type: values, rows: []}\n"
    "sink:\n- {type: values, name: lake, path: a.jsonl}\n- {type: values, name: mart, path: b.jsonl}\n"
    "pipeline: {name: shop, restart.exponential-delay.initial-backoff: 1 ms}\n"
)
WAIT_S = 300.0

Work = Callable[[PipelineSpec, RunControl], object]


class NoSpark(SharedSpark):
    """Spark that is up until somebody says otherwise."""

    up = True
    scratch = Path("scratch")

    def __init__(self, *_: object, **settings: object) -> None:
        pass

    def start(self, stop: threading.Event | None = None) -> None:
        """It is up at once."""

    def stop(self) -> None:
        pass

    def alive(self) -> bool:
        return self.up


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_sinks, "SharedSpark", NoSpark)


def run(folder: Path, work: Work, *, bounded: bool = False, log_format: str = "text") -> int:
    specs = check(str(folder / "p.yaml"), TWO.encode(), env={}).specs

    def run_one(spec: PipelineSpec, notifying: RunNotifying, control: RunControl) -> int:
        work(spec, control)
        return 0

    return run_sinks(specs, run_one, root=folder / "st", master=None, log_format=log_format, bounded=bounded)


def test_a_list_that_becomes_one_sink_is_refused_until_one_goes_on(tmp_path: Path) -> None:
    """Else all tables would be re-snapshotted; moved as the hint says, the progress is that of the one."""
    one = check(str(tmp_path / "p.yaml"), TWO.replace("- {", "  {", 1).partition("\n- {")[0].encode(), env={}).specs[0]
    root = tmp_path / "st"
    check_one_sink(one, root)
    lake = StateDir(root / "sinks" / "lake")
    lake.open(name="shop/lake", source="values")
    lake.store_initial_offset({"item": 0})
    with pytest.raises(StateError, match="runs into several sinks: lake") as refused:
        check_one_sink(one, root)
    assert str(lake.root) in refused.value.hint
    for part in list(lake.root.iterdir()):
        part.rename(root / part.name)
    check_one_sink(one, root)


def test_a_sink_that_failed_for_good_fails_the_run_once_the_others_have_ended(tmp_path: Path) -> None:
    failed, done = threading.Event(), list[str]()

    def work(spec: PipelineSpec, control: RunControl) -> None:
        if spec.sink_name == "lake":
            failed.set()
            raise SinkUnavailable("is away", where="sink values")
        assert failed.wait(WAIT_S)
        done.append(spec.sink_name)

    with pytest.raises(SinkError, match="is away"):
        run(tmp_path, work, bounded=True)
    assert done == ["mart"]


def test_a_sink_that_was_away_is_started_again_while_the_others_go_on(tmp_path: Path) -> None:
    again, back = list[bool](), threading.Event()

    def work(spec: PipelineSpec, control: RunControl) -> None:
        if spec.sink_name == "mart":
            assert back.wait(WAIT_S)
            return
        again.append(control.again)
        if len(again) < 3:
            raise SinkUnavailable("is away", where="sink values")
        back.set()

    assert run(tmp_path, work) == 0
    assert again == [False, True, True]


def test_one_sink_that_is_stopped_leaves_the_others_running(tmp_path: Path) -> None:
    stopped, seen = threading.Event(), list[bool]()

    def work(spec: PipelineSpec, control: RunControl) -> None:
        if spec.sink_name == "lake":
            control.stop.set()  # as `cdc stop --sink lake` has it done
            stopped.set()
        else:
            assert stopped.wait(WAIT_S)
            seen.append(control.stop.is_set())

    assert run(tmp_path, work) == 0
    assert seen == [False]


def test_a_signal_stops_every_sink(tmp_path: Path) -> None:
    running = threading.Barrier(2, action=lambda: signal.raise_signal(signal.SIGTERM))

    def work(spec: PipelineSpec, control: RunControl) -> None:
        running.wait(WAIT_S)
        assert control.stop.wait(WAIT_S)

    assert run(tmp_path, work) == 0


def test_without_spark_no_sink_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[str]()

    def work(spec: PipelineSpec, control: RunControl) -> None:
        runs.append(spec.sink_name)
        monkeypatch.setattr(NoSpark, "up", False)
        raise WorkerLost("a process of Spark's has ended")

    with pytest.raises(EngineError, match="Spark has ended") as raised:
        run(tmp_path, work)
    assert "run the pipeline again" in raised.value.hint
    assert sorted(runs) == ["lake", "mart"]


def test_only_the_sink_that_failed_is_told_as_failing_and_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, failing = list[tuple[str, str]](), threading.Event()

    class Notifying(RunNotifying):
        def __init__(self, spec: PipelineSpec, log_format: str) -> None:
            super().__init__(spec, log_format)
            self._label = spec.label

        def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
            if error is not None:
                told.append((self._label, str(error)))
                failing.set()

    monkeypatch.setattr(several_sinks, "RunNotifying", Notifying)

    def work(spec: PipelineSpec, control: RunControl) -> None:
        if spec.sink_name == "lake":
            raise SinkError("is full", where="sink values")
        assert failing.wait(WAIT_S)

    with pytest.raises(SinkError):
        run(tmp_path, work, bounded=True)
    assert [label for label, _ in told] == ["shop/lake"]


def test_lines_of_all_sinks_are_json_once_and_those_of_connectors_are_among_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def work(spec: PipelineSpec, control: RunControl) -> None:
        line = Reporter("json", out=control.log, err=control.log, sink=spec.sink_name).line
        with log_records_here(line):
            logging.getLogger("connectors.values").info("told by a connector")
        print("written by a library", file=sys.stderr)

    assert run(tmp_path, work, log_format="json") == 0
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    by_connectors = [line["sink"] for line in lines if line["message"] == "told by a connector"]
    assert sorted(by_connectors) == ["lake", "mart"]
    assert [line["level"] for line in lines if line["message"] == "written by a library"] == ["warning"] * 2


def test_progress_of_a_run_with_one_sink_is_not_passed_over(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "st")
    state.open(name="shop", source="values")
    state.store_initial_offset({"line": 0})
    with pytest.raises(StateError, match=r"of a run with one sink.*st/sinks/lake"):
        run(tmp_path, lambda spec, control: None)

"""What the stream readers of a server share is loaded once, and nobody waits for it who is to end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cdc_process import wait_for

from cdc.job.spark.shared import SharedSpark


class Forks:
    """Loads for as long as the test says."""

    def __init__(self, answer: str = "") -> None:
        self.loads, self.go, self.answer = 0, threading.Event(), answer

    def alive(self) -> bool:
        return True

    def load(self, what: Callable[[], Any], *, busy: bool = False) -> str:
        self.loads += 1
        self.go.wait(60)
        return self.answer


TASK: Any = SimpleNamespace(source="a source", sink="a sink")


def shared_with(forks: Forks, folder: Path) -> tuple[SharedSpark, list[str]]:
    told = list[str]()
    shared = SharedSpark(folder, "local[1]", (), lambda text, level: told.append(f"{level}: {text}"))
    shared._forks = forks  # type: ignore[assignment]
    return shared, told


def test_a_run_that_is_to_stop_does_not_wait_for_what_is_being_loaded(tmp_path: Path) -> None:
    forks = Forks()
    shared, told = shared_with(forks, tmp_path)
    stops = [threading.Event() for _ in range(3)]
    runs = [threading.Thread(target=shared.prepare, args=(TASK, stop)) for stop in stops]
    for run in runs:
        run.start()
    wait_for("the load", lambda: forks.loads)
    for stop, run in zip(stops[:2], runs[:2], strict=True):
        stop.set()
        run.join(60)
        assert not run.is_alive()
    assert runs[2].is_alive(), "it needs what is being loaded"
    forks.go.set()
    runs[2].join(60)
    shared.prepare(TASK, threading.Event())
    assert (forks.loads, told) == (1, [])


def test_what_cannot_be_loaded_is_told_and_stops_nobody(tmp_path: Path) -> None:
    forks = Forks("ImportError: no duckdb")
    forks.go.set()
    shared, told = shared_with(forks, tmp_path)
    shared.prepare(TASK, threading.Event())
    assert told == [
        "warning: the fork server cannot preload connectors, each stream reader loads them: ImportError: no duckdb"
    ]


def test_what_is_still_being_loaded_when_all_ends_is_no_matter_any_more(tmp_path: Path) -> None:
    forks = Forks("it has ended")
    shared, told = shared_with(forks, tmp_path)
    run = threading.Thread(target=shared.prepare, args=(TASK, threading.Event()))
    run.start()
    wait_for("the load", lambda: forks.loads)
    shared.stop()
    forks.go.set()
    run.join(60)
    assert told == []


def test_a_thread_that_fails_in_any_way_lets_the_runs_go_on(tmp_path: Path) -> None:
    class Broken(Forks):
        def load(self, what: Callable[[], Any], *, busy: bool = False) -> str:
            raise TypeError("cannot pickle it")

    shared, told = shared_with(Broken(), tmp_path)
    run = threading.Thread(target=shared.prepare, args=(TASK, threading.Event()), daemon=True)
    run.start()
    run.join(60)
    assert not run.is_alive(), "nobody would ever tell it to go on"
    assert told == [
        "warning: the fork server cannot preload connectors, each stream reader loads them: TypeError: cannot pickle it"
    ]


def test_what_all_runs_wait_for_is_said_once_and_not_by_each(tmp_path: Path) -> None:
    told = list[str]()
    shared = SharedSpark(tmp_path, "local[1]", (), lambda text, level: told.append(f"{level}: {text}"), say_every_s=60)
    for _ in range(3):
        shared.report_waiting("runs wait")
    assert told == ["info: runs wait"]

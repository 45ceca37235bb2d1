"""A first start that compiles for a minute says so, again and again."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from cdc.errors import EngineError, WorkerLost
from cdc.job import query
from cdc.job.spark.session import is_running
from cdc.process.repeated import repeatedly


def test_workers_that_take_long_are_told_until_they_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while their tasks wait for the slot of one that waits for the sink."""
    monkeypatch.setattr(query, "SAY_EVERY_S", 0.01)
    told: list[str] = []
    often, read, waits = threading.Event(), threading.Event(), iter([False] * 3)

    def running() -> bool:
        if next(waits, True):
            return True
        assert told == []
        return False

    def say(line: str) -> None:
        told.append(line)
        if len(told) == 3:
            often.set()

    query._warm(lambda: often.wait(30), running, read.set, say)
    assert often.is_set()
    assert read.is_set()
    assert {line.partition(" for ")[0] for line in told} == {"the workers have been getting ready"}


def test_workers_that_are_ready_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "SAY_EVERY_S", 3600.0)
    told: list[str] = []
    query._warm(lambda: None, lambda: True, lambda: None, told.append)
    assert told == []


def test_no_worker_is_getting_ready_any_more_when_the_run_has_ended() -> None:
    """Its session is cleared by then (`SharedSpark.open_session`): no error, whose trace would be printed."""
    assert not is_running(SparkSession.__new__(SparkSession), "warm-up")


def test_nothing_is_said_any_more_once_a_block_has_failed() -> None:
    told: list[float] = []
    with pytest.raises(ValueError, match="it"), repeatedly(told.append, 3600.0):
        raise ValueError("it")
    assert told == []
    assert not [thread for thread in threading.enumerate() if thread.name == "long-step"]


def test_java_that_ends_before_the_query_starts_is_named() -> None:
    spark = Mock()
    spark.dataSource.register.side_effect = ConnectionRefusedError()
    with pytest.raises(WorkerLost, match="Spark's Java process has ended"):
        query._start(spark, Mock(label=""), lambda frame, number: None, bounded=True)


class _Thrown(Py4JJavaError):
    """An exception of Java's, whose text Py4J asks Java for."""

    def __init__(self, text: str) -> None:
        self.args, self._text = (text,), text

    def __str__(self) -> str:
        return self._text


def test_an_exception_of_java_when_the_query_starts_is_not_its_end() -> None:
    """Java cannot create a folder of the checkpoint; it was taken for a process that has died, and started again."""
    spark = Mock()
    spark.dataSource.register.side_effect = _Thrown(
        "An error occurred while calling o91.start.\n: java.io.IOException: /state/checkpoint/metadata "
        "(No space left on device)\n\tat java.base/java.io.FileOutputStream.open0(Native Method)"
    )
    with pytest.raises(EngineError, match=r"checkpoint/metadata.*No space left.*free some space") as failed:
        query._start(spark, Mock(label=""), lambda frame, number: None, bounded=True)
    assert not isinstance(failed.value, WorkerLost)

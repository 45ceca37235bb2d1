"""Errors through Spark's text: found again, whatever is wrapped around them."""

from __future__ import annotations

import traceback

import pytest
from together import together

from cdc.errors import CdcError, CorruptLog, EngineError, SourceUnavailable, WorkerLost
from cdc.job.error_transport import CrossingError, briefly, crossing, recover

ERROR = CorruptLog('wrong checksum in "x" {1}\n:end', where="binlog.000002:77", hint="copy it again (whole)")

SPARK_TEXT = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: \
Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 11) (127.0.0.1 executor \
driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/site-packages/pyspark/worker.py", line 1, in main
    process()
  File "/cdc/job/task.py", line 73, in __call__
    raise CrossingError(error) from error
cdc.job.error_transport.CrossingError: {}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:599)
SQLSTATE: XXKST"""


@together("error", [ERROR, SourceUnavailable("gone"), EngineError("", where="", hint="")])
def test_an_error_is_found_in_sparks_text(error: CdcError) -> None:
    found = recover(RuntimeError(SPARK_TEXT.replace("{}", str(CrossingError(error)))))
    assert type(found) is type(error)
    assert (found.message, found.where, found.hint) == (error.message, error.where, error.hint)


def test_an_error_of_a_connectors_own_class_comes_out_as_what_it_is_derived_from() -> None:
    class OwnUnavailable(SourceUnavailable):
        """A connector's."""

    found = recover(RuntimeError(str(CrossingError(OwnUnavailable("gone", where="h:1")))))
    assert (type(found), found.exit_code, found.retryable, str(found)) == (SourceUnavailable, 3, True, "h:1: gone")


def test_the_first_of_several_counts() -> None:
    text = f"{CrossingError(ERROR)} during handling of which {CrossingError(EngineError('later'))}"
    assert recover(RuntimeError(text)).message == ERROR.message


def test_our_own_errors_pass_as_they_are() -> None:
    assert recover(ERROR) is ERROR


@together(
    "text",
    ["MemoryError", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8 GiB for an array",
     "pyarrow.lib.ArrowMemoryError: malloc of size 64 failed", "java.lang.OutOfMemoryError: Java heap space"],
)  # fmt: skip
def test_memory_that_is_refused_is_told_with_the_way_out(text: str) -> None:
    found = recover(RuntimeError(SPARK_TEXT.replace("cdc.job.error_transport.CrossingError: {}", text)))
    assert type(found) is EngineError
    assert found.message.startswith("out of memory: ")
    assert "max-batch-bytes" in found.hint


def test_of_a_foreign_error_the_telling_line_is_shown() -> None:
    found = recover(
        RuntimeError(SPARK_TEXT.replace("cdc.job.error_transport.CrossingError: {}", "ValueError: year -1 is wrong"))
    )
    assert isinstance(found, EngineError)
    assert found.message == "Spark stopped: ValueError: year -1 is wrong"
    assert "CDC_DEBUG=1" in found.hint
    assert recover(RuntimeError("")).message == "Spark stopped: RuntimeError"
    assert recover(RuntimeError("first line\nsecond line")).message == "Spark stopped: first line"


CALLED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): {}
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1110)"""


@together("reason", ["No space left on device", "/t/blockmgr-1/x (No space left on device)", "Disk quota exceeded"])
def test_a_full_disk_is_the_reason_that_is_shown_whatever_java_says_around_it(reason: str) -> None:
    for told in ("Query terminated: java.io.IOException", "Query [id = 5, runId = f] terminated with exception"):
        found = recover(RuntimeError(f"[STREAM_FAILED] {told}: {reason} SQLSTATE: XXKST"))
        assert found.message == f"Spark stopped: {reason}"
        assert "free some space" in found.hint


def test_an_error_of_a_cluster_names_the_machine_and_what_is_missing_there() -> None:
    told = 'java.io.IOException: Cannot run program "/opt/cdc/bin/python": error=2, No such file or directory'
    found = recover(RuntimeError(CALLED.format(told)))
    assert (found.where, found.message) == (
        "machine 10.0.0.7",
        "there is no Python /opt/cdc/bin/python for its workers (No such file or directory)",
    )
    found = recover(RuntimeError(CALLED.format("java.lang.OutOfMemoryError: Java heap space")))
    assert found.where == "machine 10.0.0.7"
    assert found.message == "out of memory: java.lang.OutOfMemoryError: Java heap space"
    found = recover(RuntimeError(CALLED.format("java.lang.StackOverflowError")))
    assert found.message.startswith("Spark stopped: org.apache.spark.SparkException: Job aborted due to stage failure")
    assert recover(RuntimeError(SPARK_TEXT)).where == "", "of this machine nobody has to be told"


def test_methods_pass_errors_on_and_keep_their_names() -> None:
    @crossing
    def plan(number: int) -> int:
        """Doc."""
        if number < 0:
            raise ERROR
        return number

    assert (plan(3), plan.__name__, plan.__doc__) == (3, "plan", "Doc.")
    with pytest.raises(CrossingError) as crossed:
        plan(-1)
    assert recover(RuntimeError(str(crossed.value))).where == ERROR.where


@together(
    "text",
    [
        "Job aborted due to stage failure: SparkException: Python worker exited unexpectedly (crashed)",
        "Python worker failed to connect back.",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: worker lost",
        "terminated with exception: Connection reset SQLSTATE: XXKST",
    ],
)
def test_the_end_of_a_process_is_told_apart(text: str) -> None:
    assert isinstance(recover(RuntimeError(text)), WorkerLost)
    raised = f"Traceback (most recent call last):\n  in f\nValueError: {text}"
    assert not isinstance(recover(RuntimeError(raised)), WorkerLost)


def test_the_end_of_a_process_without_a_message_is_in_javas_trace() -> None:
    class Captured(Exception):
        def __init__(self, trace: str, cause: Captured | None = None) -> None:
            super().__init__("terminated with exception:  SQLSTATE: XXKST")
            self._stackTrace, self._cause = trace, cause

    assert isinstance(recover(Captured("at a", Captured("java.io.EOFException\n at b"))), WorkerLost)
    assert not isinstance(recover(Captured("at a", Captured("java.lang.NullPointerException"))), WorkerLost)


@pytest.mark.parametrize(("debug", "shown"), [("0", False), ("1", True)])
def test_what_java_calls_raises_without_its_causes(debug: str, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    @briefly
    def batch() -> None:
        try:
            raise ValueError(
                "py4j.protocol.Py4JJavaError: An error occurred while calling o1.collectToPython.\n\tat java"
            )
        except ValueError as error:
            raise WorkerLost("a worker has ended") from error

    monkeypatch.setenv("CDC_DEBUG", debug)
    with pytest.raises(CrossingError) as caught:
        batch()
    text = "".join(traceback.format_exception(caught.value))  # as Py4J sends it
    assert ("An error occurred while calling" in text) == shown
    assert isinstance(recover(RuntimeError(text)), WorkerLost)

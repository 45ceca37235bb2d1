"""Makes the Spark session that runs one pipeline. Driver, once per run."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.errors import EngineError, WorkerLost
from cdc.job.spark.class_archive import archive_options
from cdc.job.spark.java import LOCALE, Java, share_file_names
from cdc.job.spark.master import check_master
from cdc.process.without_pandas import pandas_hidden

DEFAULT_MASTER = "local[*,4]"
"""All cores; a task is tried four times before the batch is."""

JAVA_GONE = (Py4JError, ConnectionError)
"""What any call into Spark raises when its Java process has ended."""


@contextlib.contextmanager
def java_errors_named() -> Iterator[None]:
    """Calls into Spark. Raises WorkerLost when its Java process ends in the block."""
    try:
        yield
    except JAVA_GONE as error:
        raise WorkerLost(
            "Spark's Java process has ended",
            hint="see the lines above; a run after this one continues at the last committed batch",
        ) from error


_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")


def with_retries(master: str) -> str:
    """The master with which a task is tried four times: plain `local`, `local[2]` and `local[*]` give it one try.

    Raises EngineError for `local-cluster[...]`.
    """
    if master.startswith("local-cluster"):
        raise EngineError(
            f"{master} is Spark's test of itself: its workers write into the folder that Spark is installed in",
            where="--master",
            hint="local[4] uses four cores of this machine; docs/cluster.md tells how to start a standalone cluster",
        )
    match = _LOCAL.fullmatch(master)
    return master if match is None else f"local[{match[1] or 1},4]"


def chosen_master(given: str | None) -> str:
    """The master of a run: what was asked for, else what spark-submit was given when that has started this process.

    Raises EngineError for two that differ, and as `with_retries`.
    """
    submitted = _submitted_master()
    if given and submitted and with_retries(given) != with_retries(submitted):
        raise EngineError(
            f"spark-submit has {submitted}, and the command {given}",
            where="--master",
            hint="name the master once: spark-submit --master ... cdc-run.py run FILE",
        )
    return with_retries(given or submitted or DEFAULT_MASTER)


def _is_submitted() -> bool:
    """Whether this process was started by spark-submit, with a Java that runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_master() -> str:
    if not _is_submitted():
        return ""
    SparkContext._ensure_initialized()  # else settings are those of a process without a Java
    return SparkConf().get("spark.master") or ""


_VARIABLES = ("JAVA_HOME", "CDC_LOCAL", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", LOCALE)
_JAVA_ENDS_S = 10.0

ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
"""For Python's processes: glibc gives threads memory of their own, and keeps what is freed at its end. Clients of
Kafka have threads of their own in each task: a worker grew from 160 to 290 MB in four."""

_YOUNG = "-Xmn32m"
"""Java's place for new objects, which is used up to its end before anything is collected. Its default is a third of a
heap that begins with 1/64 of the machine's memory."""

_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""For Java's processes: rows stay out of them, so they have no code that is worth what the second compiler costs. On a
cluster of two cores executors with it wrote a ninth more rows per second."""

_EXECUTORS_JAVA = "spark.executor.extraJavaOptions"

_LOCAL_FILES = "org.apache.hadoop.fs.RawLocalFileSystem"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def session_settings(
    name: str,
    master: str,
    environment: Mapping[str, str],
    scratch: Path,
    java: str = "",
    given: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Spark settings of a pipeline; `CDC_SPARK_CONF` (`key=value` separated by `;`) overrides any of them.

    `scratch` is for temporary files of the driver; `java` are further options for the driver's Java; `given` are the
    pipeline's own settings.

    Rows stay out of the JVM, so it needs little memory; batches are small jobs, so settings that cost time per query
    (code generation, adaptive plans) are off.
    """
    log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
    java_options = f"-Dlog4j2.configurationFile={log_settings} -XX:+UseSerialGC {_YOUNG} {_FIRST_COMPILER} {java}"
    java_options = java_options.rstrip()
    java_options += f' "-Djava.io.tmpdir={scratch}"'
    settings = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java_options,
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        # A kill while the first offset is written leaves a temporary file, with which Spark would never start again.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        _EXECUTORS_JAVA: _FIRST_COMPILER,
        **{f"spark.executorEnv.{name}": text for name, text in ONE_ARENA.items()},
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(scratch),
        }
    settings |= given
    for pair in filter(None, environment.get("CDC_SPARK_CONF", "").split(";")):
        key, _, value = pair.partition("=")
        settings[key.strip()] = value.strip()
    return settings


def without_our_executors_java(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for a Spark that was given options for its executors' Java: those stand, unless the pipeline or
    `CDC_SPARK_CONF` has others."""
    return {key: text for key, text in settings.items() if (key, text) != (_EXECUTORS_JAVA, _FIRST_COMPILER)}


@contextlib.contextmanager
def without_variables(names: Sequence[str]) -> Iterator[None]:
    """While the block runs, processes that are started do not get these environment variables."""
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


def start_session(
    name: str, master: str, java: Java, scratch: Path, given: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """Start Java and Spark, with `scratch` for their temporary files. Raises EngineError when they do not start.

    The context is made in a thread of its own: made in the main thread it takes SIGINT for itself (`SparkContext`'s
    constructor), and Ctrl-C would end jobs in the middle. Workers get the interpreter of this environment: without
    PYSPARK_PYTHON they would take whatever `python3` the PATH has, and fail to connect back.
    """
    share_file_names(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["CDC_LOCAL"] = "1" if master.startswith("local") else ""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1" if master.startswith("local") else "")
    if not os.environ["SPARK_LOCAL_IP"]:
        del os.environ["SPARK_LOCAL_IP"]
    _silence_accumulator_errors()
    quiet_py4j()
    builder = SparkSession.builder
    archive = archive_options(os.environ, java)
    settings = session_settings(name, master, os.environ, scratch, archive, given)
    if _is_submitted() and SparkConf().contains(_EXECUTORS_JAVA):
        settings = without_our_executors_java(settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with pandas_hidden():
        importlib.import_module("pyspark.testing.utils")  # which a session imports, to ask whether there is numpy
    check_master(master)
    try:
        with ThreadPoolExecutor(1, "start-spark") as thread:
            spark = thread.submit(builder.getOrCreate).result()
        if _is_submitted():
            spark.sparkContext.setLogLevel("ERROR")  # our log settings come too late for its Java
        _use_raw_files(spark)
        return spark
    except Exception as error:
        raise EngineError(
            f"Spark does not start with {java}: {reason_of(str(error))}",
            hint="see the lines above; CDC_DEBUG=1 shows the whole trace",
        ) from error


@contextlib.contextmanager
def errors_ignored_after_stop(stop: threading.Event) -> Iterator[None]:
    """A start that fails after a stop was asked for is no error: the same signal may have ended Java."""
    try:
        yield
    except EngineError:
        if not stop.is_set():
            raise


def _use_raw_files(spark: SparkSession) -> None:
    """Spark's local checksum file system forks a process per file; the raw one takes the two log writes of a batch from
    75 + 49 ms to 10 + 12 ms. From here on alone: while Spark starts, its YARN client asks the other for what it lacks.
    """
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.file.impl", _LOCAL_FILES)
    hadoop.set("fs.file.impl.disable.cache", "true")  # which has the other already


def reason_of(text: str) -> str:
    """The line of an error that says most: of one from Java the one after the name of what was called."""
    lines = text.splitlines() or ["?"]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def java_pid(spark: SparkSession) -> int:
    """The Java process of a session."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def end_spark(spark: SparkSession) -> None:
    """End a session and its context. PySpark forgets them although Java has ended before, so that others can begin."""
    context = spark.sparkContext
    try:
        spark.stop()
    except JAVA_GONE:
        context.stop()  # the second time it asks nothing of Java any more
        SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextlib.contextmanager
def as_guest() -> Iterator[None]:
    """A session started in the block leaves nothing behind in this process: no environment variable, no Java.

    Raises EngineError when the process has a Spark context: it would be used, with settings of its own, and stopped.
    A Java that an earlier context of the process left running is used, and left running.
    """
    if SparkContext._active_spark_context is not None:
        raise EngineError(
            "this process has a Spark session already",
            hint="end it with spark.stop(), or run the pipeline in a process of its own: `cdc run`",
        )
    before = {name: os.environ.get(name) for name in _VARIABLES}
    found = SparkContext._gateway
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        if found is None:
            _end_java()


def _end_java() -> None:
    """End the Java of this process: it does so when its standard input ends. The next session starts one over."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is None:
        return
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_JAVA_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _silence_accumulator_errors() -> None:
    """PySpark's server for accumulators meets the end of Java first, and prints a trace of its own beside our log;
    the run says it in its own words."""
    for name in ("AccumulatorTCPServer", "AccumulatorUnixServer"):
        server = getattr(accumulators, name, None)
        if server is not None:
            server.handle_error = lambda *_: None


def quiet_py4j() -> None:
    """Let py4j log nothing of Python code that fails after Java has called it: the query that fails with it has the
    exception, and the run tells it with its next step. CDC_DEBUG=1 has both. A repeat changes nothing."""
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_not_of_a_callback)


def _not_of_a_callback(record: logging.LogRecord) -> bool:
    return os.environ.get("CDC_DEBUG") == "1" or "Python Proxy" not in record.getMessage()


def warm_workers(spark: SparkSession, warm: Callable[[], None], tasks: int) -> None:
    """Start the Python workers and let each load what the first batch needs. Driver, in a thread of its own.

    Nothing depends on it: what it could not load, the first batch will, and report what is wrong.
    """

    def load(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        warm()
        yield from rows

    with contextlib.suppress(PySparkException, *JAVA_GONE):
        spark.range(0, tasks, 1, tasks).mapInArrow(load, "id long").collect()

"""Creates the Spark session of a pipeline. Driver, once per run."""

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
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.errors import EngineError, WorkerLost
from cdc.job.error_transport import recover
from cdc.job.spark.class_archive import archive_options
from cdc.job.spark.java import LOCALE, Java, share_file_names
from cdc.job.spark.master import check_master
from cdc.process.without_pandas import pandas_hidden

DEFAULT_MASTER = "local[*,4]"
"""All cores; a task is tried four times before its batch fails."""

JAVA_GONE = (Py4JError, ConnectionError)
"""Exceptions of calls into Spark after its Java process has ended."""


@contextlib.contextmanager
def java_errors_named() -> Iterator[None]:
    """Context manager for calls into Spark: raises WorkerLost if the Java process ends within the block, and the error
    that `recover` finds if Java raises an exception, as over a full disk."""
    try:
        yield
    except Py4JJavaError as error:
        raise recover(error) from error
    except JAVA_GONE as error:
        raise WorkerLost(
            "Spark's Java process has ended",
            hint="see the lines above; the next run continues after the last committed batch",
        ) from error


_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")


def with_retries(master: str) -> str:
    """The master with four attempts per task: plain `local`, `local[2]` and `local[*]` allow only one.

    Raises EngineError for `local-cluster[...]`.
    """
    if master.startswith("local-cluster"):
        raise EngineError(
            f"{master} is for Spark's own tests: its workers write into Spark's installation folder",
            where="--master",
            hint="local[4] uses four cores of this machine; docs/cluster.md shows how to start a standalone cluster",
        )
    match = _LOCAL.fullmatch(master)
    return master if match is None else f"local[{match[1] or 1},4]"


def chosen_master(given: str | None) -> str:
    """The master of a run: the given one, else that of spark-submit if it started this process, else the default.

    Raises EngineError if the two differ, and as `with_retries`.
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
    """Whether spark-submit has started this process, so that Java is running already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_master() -> str:
    if not _is_submitted():
        return ""
    SparkContext._ensure_initialized()  # otherwise SparkConf does not have the settings of Java
    return SparkConf().get("spark.master") or ""


_OF_ANOTHER_SPARK = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS")
"""Variables for other programs of this machine: a Spark of another version would be started, or with another master."""
_VARIABLES = (
    "JAVA_HOME", "CDC_LOCAL", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", LOCALE, *_OF_ANOTHER_SPARK,
)  # fmt: skip
_JAVA_ENDS_S = 10.0

ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
"""Environment of Python processes: by default glibc has an arena per thread, and keeps freed memory in them. Kafka
clients start threads in each task: a worker grew from 160 to 290 MB within four tasks."""

_YOUNG = "-Xmn32m"
"""Size of Java's young generation, which is filled before anything is collected. The default is a third of the heap,
which starts with 1/64 of the machine's memory."""

_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Java option without the second compiler (C2): rows never pass through Java, so optimizing its code does not pay off.
On a cluster of two cores executors wrote a ninth more rows per second with it."""

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

    Rows never pass through the JVM, so it needs little memory; batches are small jobs, so features with a cost per
    query (code generation, adaptive plans) are off.
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


def without_default_executor_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings without our default of the executors' Java options, for a spark-submit that sets them."""
    return {key: text for key, text in settings.items() if (key, text) != (_EXECUTORS_JAVA, _FIRST_COMPILER)}


@contextlib.contextmanager
def without_variables(names: Sequence[str]) -> Iterator[None]:
    """Hide these environment variables from processes that are started within the block."""
    removed = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(removed)


def start_session(
    name: str, master: str, java: Java, scratch: Path, given: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """Start Java and Spark, with `scratch` for their temporary files. Raises EngineError if they do not start.

    The context is created in a thread: in the main thread `SparkContext`'s constructor installs a SIGINT handler, and
    Ctrl-C would cancel running jobs. Workers use the interpreter of this process: without PYSPARK_PYTHON they would use
    any `python3` on the PATH and fail to connect back.
    """
    share_file_names(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["CDC_LOCAL"] = "1" if master.startswith("local") else ""
    if os.environ["CDC_LOCAL"] and not _is_submitted():
        for name in _OF_ANOTHER_SPARK:
            os.environ.pop(name, None)
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
        settings = without_default_executor_options(settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with pandas_hidden():
        importlib.import_module("pyspark.testing.utils")  # imported by a session to find out whether numpy is installed
    check_master(master)
    try:
        with ThreadPoolExecutor(1, "start-spark") as thread:
            spark = thread.submit(builder.getOrCreate).result()
        if _is_submitted():
            spark.sparkContext.setLogLevel("ERROR")  # its Java has started without our log settings
        _use_raw_files(spark)
        return spark
    except Exception as error:
        raise EngineError(
            f"Spark does not start with {java}: {reason_of(str(error))}",
            hint="see the lines above; CDC_DEBUG=1 shows the stack trace",
        ) from error


@contextlib.contextmanager
def errors_ignored_after_stop(stop: threading.Event) -> Iterator[None]:
    """Suppress an EngineError once a stop is requested: the same signal may have ended Java."""
    try:
        yield
    except EngineError:
        if not stop.is_set():
            raise


def _use_raw_files(spark: SparkSession) -> None:
    """Use Hadoop's raw local file system: the default one with checksums forks a process per file.

    The two log writes of a batch take 10 + 12 ms instead of 75 + 49 ms. Set after the start only, as Spark's YARN
    client needs the default one while it starts.
    """
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.file.impl", _LOCAL_FILES)
    hadoop.set("fs.file.impl.disable.cache", "true")  # the cache has the default one already


def reason_of(text: str) -> str:
    """The most informative line of an error: for Java exceptions the one with their message."""
    lines = text.splitlines() or ["?"]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def java_pid(spark: SparkSession) -> int:
    """The process id of a session's Java."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def end_spark(spark: SparkSession) -> None:
    """Stop a session and its context. PySpark forgets them even if Java has ended, so that new ones can start."""
    context = spark.sparkContext
    try:
        spark.stop()
    except JAVA_GONE:
        context.stop()  # a second call does not use Java any more
        SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextlib.contextmanager
def as_guest() -> Iterator[None]:
    """Context manager: a session started within the block leaves no environment variables and no Java behind.

    Raises EngineError if the process has a Spark context already, which would be reused and then stopped. A Java that
    an earlier context has left running is used, and left running.
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
    """End the Java of this process by closing its standard input. The next session starts a new one."""
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
    """Silence PySpark's accumulator server, which prints a stack trace when Java ends; the run reports that itself."""
    for name in ("AccumulatorTCPServer", "AccumulatorUnixServer"):
        server = getattr(accumulators, name, None)
        if server is not None:
            server.handle_error = lambda *_: None


def quiet_py4j() -> None:
    """Keep Py4J from logging exceptions of Python callbacks: the failed query has them, and the run reports them.

    CDC_DEBUG=1 shows both. Idempotent.
    """
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_not_of_a_callback)


def _not_of_a_callback(record: logging.LogRecord) -> bool:
    return os.environ.get("CDC_DEBUG") == "1" or "Python Proxy" not in record.getMessage()


def warm_workers(spark: SparkSession, warm: Callable[[], None], tasks: int, group: str) -> None:
    """Start the Python workers and call `warm` in each, as a job of this group. Driver, in a thread.

    Failures are ignored: the first batch loads what is missing, and reports errors.
    """

    def load(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        warm()
        yield from rows

    with contextlib.suppress(PySparkException, *JAVA_GONE):
        spark.sparkContext.setJobGroup(group, "warm-up")
        spark.range(0, tasks, 1, tasks).mapInArrow(load, "id long").collect()


def is_running(spark: SparkSession, group: str) -> bool:
    """Return whether a task of a job group runs, rather than waits for a slot that another task has.

    Not once the run of the session has ended, which clears the session.
    """
    with contextlib.suppress(PySparkException, AttributeError, *JAVA_GONE):
        tracker = spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return any(stage.numActiveTasks for stage in stages if stage)
    return False

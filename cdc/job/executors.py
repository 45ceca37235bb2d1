"""Sets up the executors' side of a run and checks that tasks can run there. Driver.

On a cluster executors do not see the driver's disk: tasks read and write the pipeline's state through a server on the
driver (`cdc.state.served`). With a local master tasks use the state directory itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.errors import CdcError, StateError, from_json
from cdc.flow.task import PrepareTask
from cdc.job.error_transport import recover
from cdc.job.spark.same_environment import check, installed, look
from cdc.job.stream_parts import TaskParts
from cdc.sink import Sink
from cdc.source import Context, Source
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.state.notes import Notes
from cdc.state.served.server import StateServer
from cdc.state.served.store import ServedStop, ServedStore
from cdc.tables.log import TableLog

_HIGHEST_PORT = 65535


@contextlib.contextmanager
def executors_side(
    spec: PipelineSpec,
    pipeline: str,
    state: StateDir,
    spark: SparkSession,
    here: PrepareTask,
    tasks: int,
    warn: Callable[[str], None],
) -> Iterator[TaskParts]:
    """Context manager: the tasks' side of a run. `here` is the task for workers on this machine.

    `warn` is called for systems that executors cannot reach now: tasks will retry as long as the options say.

    Raises EngineError, StateError if executors cannot run the tasks.
    """
    if str(spark.sparkContext.master).startswith("local"):
        yield TaskParts(here, state.stop_file)
        return
    server = _server(spark, state)
    endpoint = server.start()
    try:
        store, stop = ServedStore(endpoint), ServedStop(endpoint)
        source = spec.source.build(Context(pipeline, store.within("source"), stop, spec.metadata()))
        sink = spec.sink.build(Context(pipeline, store.within("sink"), stop))
        answers, notes = store.within("answers"), Notes(store.within("notes"))
        task = replace(here, source=source, sink=sink, tables=TableLog(store), answers=answers, notes=notes)
        for each in scattered_dead_letters(spec):
            warn(each)
        for unreached in check_executors(spark, partial(_find_unreached, store, (source, sink)), tasks):
            warn(unreached)
        yield TaskParts(task, stop, installed())
    finally:
        server.close()


def scattered_dead_letters(spec: PipelineSpec) -> list[str]:
    """Warnings for dead letters that go to a local folder: each machine writes to its own folder of that name. Pure."""
    found = []
    for part, options in (("pipeline", spec.pipeline), ("sink", spec.sink)):
        for name, field in type(options).model_fields.items():
            folder = getattr(options, name) if str(field.alias).endswith("dead-letter.path") else None
            where = field.alias if part == "sink" else f"{part}.{field.alias}"
            if folder and "://" not in folder.removeprefix("file://"):
                found.append(
                    f"{where}: dead letters are written to {folder} on the machine that runs the task, unless all "
                    "machines share that folder; a URL such as s3://bucket/prefix collects them in one place"
                )
    return found


def _server(spark: SparkSession, state: StateDir) -> StateServer:
    settings = spark.sparkContext.getConf()
    host = str(settings.get("spark.driver.host")).strip("[]")
    bind = str(settings.get("spark.driver.bindAddress") or host).strip("[]")
    return StateServer(state, host, bind, _port(os.environ))


def _port(environment: Mapping[str, str]) -> int:
    text = environment.get("CDC_STATE_PORT", "0")
    if not text.isdigit() or int(text) > _HIGHEST_PORT:
        raise StateError(f"is {text!r}, which is not a port", where="CDC_STATE_PORT", hint="a number, 1 to 65535")
    return int(text)


def _find_unreached(store: ServedStore, systems: Sequence[Source | Sink]) -> list[str]:
    """Messages about the source or sink if this machine cannot reach it now. Executor.

    Raises StateError if the driver cannot be reached, and CdcErrors that are not retryable, such as a missing file.
    """
    store.check()
    found = []
    for system in systems:
        try:
            system.reach()
        except CdcError as error:
            if not error.retryable:
                error.message += f" (on the machine {socket.gethostname()})"
                raise
            found.append(f"the machine {socket.gethostname()} has no connection: {error}")
    return found


def check_executors(spark: SparkSession, look_there: Callable[[], list[str]], tasks: int) -> list[str]:
    """Check the Python of the executors and run `look_there` on them; return its messages without duplicates.

    Runs `tasks` tasks. Driver, before the query; executors that join later are checked by their first task. Raises
    EngineError, and the CdcError that `look_there` raises.
    """
    try:
        found = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(_probe(look_there)).collect()
    except (PySparkException, Py4JError) as error:
        raise recover(error) from error
    for location, machine, python, error_json, _ in found:
        check(installed(), location, machine, python)
        if error_json:
            raise from_json(error_json)
    return list(dict.fromkeys(text for *_, texts in found for text in texts))


Found = tuple[dict[str, str], str, str, str, list[str]]


def _probe(look_there: Callable[[], list[str]]) -> Callable[[Iterable[int]], Iterator[Found]]:
    from pyspark import cloudpickle

    pickled, packages, looking = cloudpickle.dumps(look_there), dict(installed()), look  # type: ignore[no-untyped-call]

    def probe(_: Iterable[int]) -> Iterator[Found]:
        import pickle
        import socket
        import sys

        location, error_json, found = looking(), "", list[str]()
        if location == packages:  # otherwise the pickled function may not load
            from cdc.errors import CdcError

            try:
                found = pickle.loads(pickled)()
            except CdcError as error:
                error_json = error.to_json()
        yield location, socket.gethostname(), sys.executable, error_json, found

    return probe

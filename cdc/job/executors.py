"""The executors' side of a run: what their tasks are made of, and whether they can run at all. Driver.

On a cluster nothing of the driver's disk is seen by executors: what a task keeps and reads of the state it asks the
driver for (`cdc.state.served`). With a local master tasks have the state itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.errors import StateError, from_json
from cdc.flow.sink_schemas import SinkSchemas
from cdc.flow.task import PrepareTask
from cdc.job.alike import check, installed, look
from cdc.job.error_transport import recover
from cdc.job.stream import Side
from cdc.source import Context
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.state.served.server import StateServer
from cdc.state.served.store import ServedStop, ServedStore

_HIGHEST_PORT = 65535


@contextlib.contextmanager
def executors_side(
    spec: PipelineSpec, pipeline: str, state: StateDir, spark: SparkSession, here: PrepareTask, tasks: int
) -> Iterator[Side]:
    """The side of the executors, while the run goes on. `here` is the task for workers on this machine.

    Raises EngineError, StateError when executors cannot do what it takes.
    """
    if str(spark.sparkContext.master).startswith("local"):
        yield Side(here, state.stop_file)
        return
    server = _server(spark, state)
    door = server.start()
    try:
        store, stop = ServedStore(door), ServedStop(door)
        source = spec.source.build(Context(pipeline, store.within("source"), stop, spec.metadata()))
        sink = spec.sink.build(Context(pipeline, store.within("sink"), stop))
        answers = store.within("answers")
        task = replace(here, source=source, sink=sink, schemas=SinkSchemas(store), answers=answers)
        check_executors(spark, store.check, tasks)
        yield Side(task, stop, installed())
    finally:
        server.close()


def _server(spark: SparkSession, state: StateDir) -> StateServer:
    settings = spark.sparkContext.getConf()
    host = str(settings.get("spark.driver.host")).strip("[]")
    bind = str(settings.get("spark.driver.bindAddress") or host).strip("[]")
    return StateServer(state, host, bind, _port(os.environ))


def _port(environment: Mapping[str, str]) -> int:
    text = environment.get("CDC_STATE_PORT", "0")
    if not text.isdigit() or int(text) > _HIGHEST_PORT:
        raise StateError(f"is {text!r}, which is no port", where="CDC_STATE_PORT", hint="a number, 1 to 65535")
    return int(text)


def check_executors(spark: SparkSession, check_there: Callable[[], None], tasks: int) -> None:
    """Look at the executors that Spark gives so many tasks to: their Python, and with `check_there`, which may raise a
    CdcError. Driver, before the query; an executor that comes later is looked at by its first task.

    Raises EngineError, and what `check_there` raises.
    """
    try:
        found = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(_probe(check_there)).collect()
    except (PySparkException, Py4JError) as error:
        raise recover(error) from error
    for there, machine, python, wrong in found:
        check(installed(), there, machine, python)
        if wrong:
            raise from_json(wrong)


Found = tuple[dict[str, str], str, str, str]


def _probe(check_there: Callable[[], None]) -> Callable[[Iterable[int]], Iterator[Found]]:
    from pyspark import cloudpickle

    pickled, wanted, looking = cloudpickle.dumps(check_there), dict(installed()), look  # type: ignore[no-untyped-call]

    def probe(_: Iterable[int]) -> Iterator[Found]:
        import pickle
        import socket
        import sys

        there, wrong = looking(), ""
        if there == wanted:  # else there may be nothing that could be asked
            from cdc.errors import CdcError

            try:
                pickle.loads(pickled)()
            except CdcError as error:
                wrong = error.to_json()
        yield there, socket.gethostname(), sys.executable, wrong

    return probe

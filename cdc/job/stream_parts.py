"""The parts of a run that Spark's stream reader process and executors work with, and their way there."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from cdc.job.log_records import label_records

if TYPE_CHECKING:
    from cdc.flow.task import PrepareTask
    from cdc.job.spark.same_environment import Installed
    from cdc.source import Flag, Limits, Source
    from cdc.state.directory import StateDir


@dataclass(frozen=True, slots=True)
class TaskParts:
    """The parts of a run that tasks need. `packages` are the packages that must be installed there; None for any."""

    task: PrepareTask
    stop: Flag
    packages: Installed | None = None


@dataclass(frozen=True, slots=True)
class StreamParts:
    """The parts that stream reader and executors need. Sent sealed in the data source class, never as an option.

    `source` and `state` are for the driver's machine, where batches are planned; `side` is for the executors. `label`
    is the pipeline's name in log lines of these processes, empty if they work for one pipeline only.
    """

    source: Source
    state: StateDir
    limits: Limits
    parallelism: int
    side: TaskParts
    label: str = ""


class SealedParts:
    """Passes StreamParts between processes as bytes, and unpickles them only where they are used.

    Half of the processes that Spark starts only pass them on, and importing a source takes half a second.
    """

    def __init__(self, plan: StreamParts | None = None, pickled: bytes = b"") -> None:
        self._plan, self._pickled = plan, pickled

    @property
    def plan(self) -> StreamParts:
        """The parts, one object per process. From then on the process does not import pandas: values stay in Arrow."""
        if self._plan is None:
            from cdc.process.without_pandas import hide_pandas

            hide_pandas()
            self._plan = plan = pickle.loads(self._pickled)
            if plan.label:
                label_records(plan.label)
        return self._plan

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = self._pickled or cloudpickle.dumps(self._plan)  # type: ignore[no-untyped-call]
        return SealedParts, (None, pickled)

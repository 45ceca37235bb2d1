"""A Source as a PySpark Python data source. Runs in the stream reader process, except `read` (executors).

Spark keeps one such process for the whole run; see `pyspark.sql.datasource.DataSourceStreamReader` for who calls what.
The one column is a pickled `Split`: Spark distributes the descriptors, `cdc.job.task` reads the rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from cdc.job.wire import crossing
from cdc.source import Limits, Offset, Source
from cdc.state import StateDir

FORMAT = "cdc"
WAIT_S = 0.2
"""Long poll of `latestOffset`: new events end it at once, an idle pipeline costs five calls a second."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """All that the stream reader process needs. Travels pickled inside the data source class, never as an option."""

    source: Source
    state: StateDir
    limits: Limits
    parallelism: int


class SplitPartition(InputPartition):
    """One split, pickled."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches: forwards to the Source, stores the first offset, honours stop requests."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan

    @crossing
    def initialOffset(self) -> Offset:
        """Where the pipeline started: asked from the source once per state directory, then always the stored one."""
        stored = self._plan.state.initial_offset()
        if stored is None:
            stored = self._plan.source.initial_offset()
            self._plan.state.store_initial_offset(stored)
        return stored

    @crossing
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next batch; `start` when there is nothing new or a stop was requested."""
        if self._plan.state.stop_requested():
            self._plan.state.confirm_stop()
            return start
        return self._plan.source.latest_offset(start, self._plan.limits, WAIT_S)

    @crossing
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One partition per split of the batch."""
        splits = self._plan.source.splits(start, end, self._plan.parallelism)
        return [SplitPartition(pickle.dumps(split)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        """The descriptor itself; the rows are read where they are prepared."""
        yield (partition.value,)

    @crossing
    def commit(self, end: Offset) -> None:
        """Tell the source that everything up to `end` is in the sink."""
        self._plan.source.commit(end)

    @crossing
    def prepareForTriggerAvailableNow(self) -> None:
        """A bounded run: what comes later in the log is left for the next run."""
        self._plan.source.stop_at_current()

    @crossing
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The lag, shown in Spark's progress reports and read there by the status line."""
        lag = self._plan.source.lag()
        return None if lag is None else asdict(lag)

    def stop(self) -> None:
        """End of the run: close what the source holds open."""
        self._plan.source.stop()


class _SplitSource(DataSource):
    plan: StreamPlan

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "split binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StreamReader(self.plan)


def data_source(plan: StreamPlan) -> type[DataSource]:
    """A data source class that carries the plan. Made at run time, so that Spark pickles it by value with the plan:
    options would show in Spark's plans, and a plan holds passwords."""
    return type("CdcDataSource", (_SplitSource,), {"plan": plan, "__module__": "__main__"})

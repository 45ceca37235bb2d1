"""A Source as a PySpark Python data source. Runs in the stream reader process, except `read` (executors).

Spark keeps one such process for the whole run; see `pyspark.sql.datasource.DataSourceStreamReader` for who calls what.
Reading a partition reads its split and prepares it in the sink; the only row it yields is the `TaskResult`.

Spark does not pass the batch number to the reader, so it is part of the offset (`cdc.offsets`).
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from cdc.errors import CdcError, SourceError
from cdc.job.error_transport import CrossingError, crossing
from cdc.job.spark.same_environment import check_same_environment
from cdc.job.stream_parts import SealedParts, StreamParts
from cdc.offsets import BATCH_KEY, numbered, source_offset
from cdc.tables.log import TableLog
from cdc.tables.orders import open_orders
from cdc.tables.requests import Mailbox

if TYPE_CHECKING:
    from cdc.schema import TableId
    from cdc.source import Offset, Order, Split

FORMAT = "cdc"
WAIT_S = 0.5
"""Longest wait of `latestOffset` in seconds: new events end it at once; an idle pipeline makes two calls a second."""
_LOOK_S = 0.2


class SplitPartition(InputPartition):
    """One split of one batch."""

    def __init__(self, batch: int, split: Split) -> None:
        super().__init__(None)
        self.batch, self.split = batch, split


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches: forwards to the Source, stores the first offset, honours stop requests."""

    def __init__(self, sealed: SealedParts) -> None:
        self._sealed = sealed
        self._noticed = 0
        self._begun = -1
        self._tables: TableLog | None = None

    @property
    def _plan(self) -> StreamParts:
        return self._sealed.plan

    @crossing
    def initialOffset(self) -> Offset:
        """The offset at which the pipeline started: from the source the first time, then the stored one."""
        stored = self._plan.state.initial_offset()
        if stored is None:
            stored = numbered(self._plan.source.initial_offset(), 0)
            self._plan.state.store_initial_offset(stored)
        return stored

    @crossing
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next batch; `start` if there is nothing new or a stop is requested.

        Before the first batch Spark logs and runs any offset it gets, so the result is always the end of batch 0 then;
        the batch is empty if there is nothing new or the run is about to stop. A batch for user requests is also empty
        if there is nothing new, or the source cannot continue: the request may be what resolves that.
        """
        own, first = source_offset(start), start[BATCH_KEY] == 0
        end, requests = own, False
        if not self._plan.state.stop_requested():
            self._plan.source.order(self._orders(start[BATCH_KEY]))
            requested = not Mailbox(self._plan.state.store).is_empty()
            try:
                end = self._plan.source.latest_offset(own, self._plan.limits, WAIT_S)
            except SourceError as error:
                if error.retryable or not requested:
                    raise
            finally:
                self._save_notices()
            requests = end == own and not Mailbox(self._plan.state.store).is_empty()
        elif not first:
            self._plan.state.confirm_stop()
        return numbered(end, start[BATCH_KEY] + 1) if first or requests or end != own else start

    def _orders(self, batch: int) -> Mapping[TableId, Order]:
        """The snapshots that are requested before a batch, by table."""
        if self._tables is None:
            self._tables = TableLog(self._plan.state.store)
        return open_orders(self._tables.at(batch - 1).tables)

    def _save_notices(self) -> None:
        """Store the source's notices since the last call, for the driver to log, also after an error."""
        lag = self._plan.source.lag()
        if lag is None or lag.noticed <= self._noticed:
            return
        from cdc.state.notices import Notices

        new = lag.noticed - self._noticed
        left_out = new - len(lag.notices)
        omitted = [f"{left_out} notices of the source are omitted"] if left_out > 0 else []
        Notices(self._plan.state.store).add([*omitted, *lag.notices[-new:]])
        self._noticed = lag.noticed

    @crossing
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One partition per split of the batch. The splits are stored first, and the same in every replay."""
        from cdc.state.splits import SplitLog

        batch, plan = end[BATCH_KEY] - 1, self._plan
        plan.state.adopt_plan(batch)
        if source_offset(start) == source_offset(end):  # an empty batch
            return []
        splits = SplitLog(plan.state.splits).splits(plan.source, start, end, plan.parallelism)
        if not any(split.again for split in splits):
            self._begun = batch
        # Spark may call this several times for one batch; it is a replay if this run did not begin the batch.
        again = batch != self._begun
        return [SplitPartition(batch, replace(split, again=again)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, bytes]]:
        """Prepare the split in the sink; yield one row with the result. Executor."""
        if not isinstance(partition, SplitPartition):
            raise TypeError(f"a SplitPartition is needed, got {type(partition).__name__}")
        context = TaskContext.get()
        attempt = int(context.taskAttemptId()) if context is not None else 0
        repeated = context is not None and context.attemptNumber() > 0
        side = self._plan.side
        self._check_same_environment()
        try:
            result = side.task(partition.batch, partition.split, attempt, repeated=repeated)
        except CdcError as error:
            if side.packages is not None:
                error.message += f" (on the machine {socket.gethostname()})"
            if not (side.stop.exists() or error.waited_s):
                raise CrossingError(error) from error
            from cdc.flow.task_result import TaskResult

            # Spark would retry, three times: not what was retried here, nor in a run that is about to stop.
            result = TaskResult(error=error.to_json())
        from cdc.process.memory import MUCH, freeze_loaded_objects, trim_memory

        freeze_loaded_objects()
        if result.bytes_read >= MUCH:  # the process may stay idle for a while, while others need the memory
            trim_memory()
        yield result.to_row()

    @crossing
    def _check_same_environment(self) -> None:
        packages = self._plan.side.packages
        if packages is not None:
            check_same_environment(packages)

    @crossing
    def commit(self, end: Offset) -> None:
        """Notify the source that everything up to `end` is committed."""
        self._plan.source.commit(source_offset(end))

    @crossing
    def prepareForTriggerAvailableNow(self) -> None:
        """A bounded run: end at the current end of the log.

        `latestOffset` then blocks until there is a batch or the end, so a thread polls for stop requests.
        """
        self._plan.source.stop_at_current()
        threading.Thread(target=self._stop_on_request, name="stop-request", daemon=True).start()

    def _stop_on_request(self) -> None:
        while True:
            if self._plan.state.stop_requested():
                self.stop()  # repeated, as a wait may only begin after the first call
            time.sleep(_LOOK_S)

    @crossing
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The lag, which the status line reads from Spark's progress reports."""
        lag = self._plan.source.lag()
        return None if lag is None else asdict(lag)

    def stop(self) -> None:
        """Close the source at the end of the run.

        Spark calls this after it has closed the connection to this process; a reply in flight then fails, which is not
        an error of the run.
        """
        sys.excepthook = _without_closed_connections
        self._plan.source.stop()


def _without_closed_connections(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, ConnectionError):
        sys.__excepthook__(kind, error, trace)


class _SplitSource(DataSource):
    sealed: SealedParts

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "result string, payloads binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StreamReader(self.sealed)


def data_source(plan: StreamParts) -> type[DataSource]:
    """A data source class that carries the parts. Created at run time, so that Spark pickles it by value.

    Options would appear in Spark's plans, and the parts contain passwords.
    """
    return type("CdcDataSource", (_SplitSource,), {"sealed": SealedParts(plan), "__module__": "__main__"})

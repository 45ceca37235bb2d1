"""The Kafka source: reads change messages of other tools as batches of table changes.

A batch is a range of offsets in each partition. The planner has read every message of it, so the schemas that its rows
need are in the history before a task reads them. The tasks read their ranges from the broker again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from cdc import events as on
from cdc.block import ChangeBlock
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.source import Context, Count, Lag, Limits, Offset, Report, Source, Split
from connectors.kafka.client import SOURCE, KafkaCluster
from connectors.kafka.read import startup
from connectors.kafka.read.history import TopicHistory, partition_entry
from connectors.kafka.read.offset import KafkaOffset, sequence_position, topic_partition
from connectors.kafka.read.plan_ahead import PlanAhead
from connectors.kafka.read.ranges import ids_of, ranges_of, split_up
from connectors.kafka.source_options import KafkaSourceOptions


class KafkaSource(Source):
    """Reads topics. Picklable; connects lazily."""

    def __init__(self, options: KafkaSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        settings = options.cluster_settings(options.passed)
        self._cluster = KafkaCluster(settings, SOURCE)
        self._policy = RetryPolicy(timeout_s=options.retry_timeout_s, stopping=context.stopping)
        self._forget()

    def _forget(self) -> None:
        self._plans: PlanAhead | None = None
        self._names: Sequence[str] = ()
        self._notices: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_options", "_context", "_cluster", "_policy")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The tables met so far; for a new pipeline, those in the first messages of the topics."""
        known = self._history.at(len(self._history)).schemas
        if known:
            return dict(known)
        from connectors.kafka.read.peek import peek_schemas

        return peek_schemas(self._cluster, self._policy, self._options, self._context.pipeline)

    def initial_offset(self) -> Offset:
        """The offset that `scan.startup.mode` gives in each existing partition."""
        names, at = startup.start_of(self._cluster, self._policy, self._options, self._context.pipeline)
        self._history.truncate(0)
        self._history.append([partition_entry(name) for name in names])
        return at.to_json()

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """The end of the next batch, as the contract says; each message counts as a transaction."""
        at = KafkaOffset.from_json(start)
        end = self._planner().next(at, limits, wait_s)
        return start if end == at else end.to_json()

    def stop_at_current(self) -> None:
        """Stop at the present end of each partition."""
        self._planner().bound()

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Split the partitions' ranges, with about as many messages in each split."""
        begin, stop = KafkaOffset.from_json(start), KafkaOffset.from_json(end)
        numbers = self._history.at(stop.schemas).partitions
        parts = split_up(ranges_of(begin, stop, numbers), parallelism)
        return [
            Split(index, {"schemas": stop.schemas, "ranges": part, "ids": ids_of(part, stop.ids)})
            for index, part in enumerate(parts)
        ]

    def events(self, start: Offset, end: Offset) -> Sequence[on.SourceEvent]:
        """The events of the history's entries between the two offsets."""
        first, last = (KafkaOffset.from_json(each).schemas for each in (start, end))
        return on.events(self._history.changes(first, last))

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Read the ranges, and decode them with the schemas of the batch."""
        from connectors.kafka.read.reading import TopicReader

        known = self._history.at(split.payload["schemas"])
        reader = TopicReader(self._cluster, self._policy, self._options, self._context.pipeline, known, count)
        yield from reader.blocks(split.payload["ranges"], split.payload["ids"])

    def position_text(self, sequence: int) -> str:
        """The topic, partition and offset, such as `orders-0@42`."""
        number, offset = sequence_position(sequence)
        if number >= len(self._names):
            self._names = self._history.names()
        topic, partition = topic_partition(self._names[number])
        return f"{topic}-{partition}@{offset}"

    def lag(self) -> Lag | None:
        """The approximate bytes of messages that are not planned yet."""
        if self._plans is None:
            return None
        return Lag.with_notices(list(self._notices), self._plans.lag())

    def stop(self) -> None:
        """Close the planner's connection; also while it waits in another thread."""
        if self._plans is not None:
            self._plans.stop()

    def reach(self) -> None:
        """Check that the cluster and the Schema Registry answer. Executor."""
        single_try = replace(self._policy, timeout_s=0.0)
        self._cluster.partitions(single_try)
        registry = self._options.registry(single_try, SOURCE)
        if registry is not None:
            registry.reach()

    def warm(self) -> None:
        """Load the kernels; on a machine's first run this compiles them."""
        from connectors.kafka.read.warm import warm_avro, warm_kernels

        warm_kernels()
        if self._options.in_avro:
            warm_avro()

    @cached_property
    def _history(self) -> TopicHistory:
        return TopicHistory(self._context.store)

    def _planner(self) -> PlanAhead:
        if self._plans is None:
            history = TopicHistory(self._context.store)  # an own one, because it changes as entries are added
            self._plans = PlanAhead.of(
                self._cluster, self._policy, self._options, history, self._context.pipeline, self._notices
            )
        return self._plans

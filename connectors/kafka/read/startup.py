"""Find the topics and partitions, and where a new pipeline starts in each. Stream reader and driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace

from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

from cdc.errors import SourceError
from cdc.retry import Backoff, RetryPolicy
from connectors.kafka.client import ANSWER_S, KafkaCluster
from connectors.kafka.read import consumers
from connectors.kafka.read.offset import KafkaOffset, partition_name, topic_partition
from connectors.kafka.read.topic_ids import TopicIds
from connectors.kafka.source_options import KafkaSourceOptions

_STARTING_S = 3.0
"""For how many seconds a cluster without any topic is asked again: its only broker may be starting."""


def start_of(
    cluster: KafkaCluster, policy: RetryPolicy, options: KafkaSourceOptions, pipeline: str
) -> tuple[list[str], KafkaOffset]:
    """The partitions of a new pipeline, and the offset that `scan.startup.mode` gives in each. Raises SourceError."""
    names = first_partitions(cluster, policy, options)
    with closing(consumers.metadata_consumer(cluster, pipeline)) as consumer:
        offsets = start_offsets(cluster, policy, consumer, options, names)
    at = KafkaOffset(len(names), offsets)
    return names, replace(at, ids=TopicIds(cluster, policy).fetch(at.topics))


def find_partitions(cluster: KafkaCluster, policy: RetryPolicy, options: KafkaSourceOptions) -> list[str]:
    """The partitions to read, as `topic/partition`, by topic and number. Raises SourceError for a missing topic."""
    return _partitions(_await_partitions(cluster, policy), options)


def first_partitions(cluster: KafkaCluster, policy: RetryPolicy, options: KafkaSourceOptions) -> list[str]:
    """The partitions of a new pipeline. Raises SourceError, also for a `topic-pattern` that matches nothing."""
    counts = _await_partitions(cluster, policy)
    found = _partitions(counts, options)
    if options.topic_pattern is not None and not found:
        raise SourceError(
            f"no topic matches `{options.topic_pattern}`, or this user may not see it (DESCRIBE); it may see: "
            f"{_names(counts)}",
            where="source.topic-pattern",
            hint=r"a usual regular expression of whole names, in which `.` is any character and shop\..* is all that "
            "begins with `shop.`; create the first topic, or grant READ and DESCRIBE on it",
        )
    return found


def _await_partitions(cluster: KafkaCluster, policy: RetryPolicy) -> Mapping[str, int]:
    counts = cluster.partitions(policy)
    starting = Backoff(replace(policy, timeout_s=min(policy.timeout_s, _STARTING_S)), cluster.where)
    while not counts and starting.pause("there are no topics"):
        counts = cluster.partitions(policy)
    return counts


def _names(topics: Iterable[str]) -> str:
    return ", ".join(sorted(name for name in topics if not name.startswith("__"))[:10]) or "none"


def _partitions(counts: Mapping[str, int], options: KafkaSourceOptions) -> list[str]:
    missing = [topic for topic in options.topic_list if topic not in counts]
    if missing:
        raise SourceError(
            f"there is no such topic, or this user may not see it (DESCRIBE); it may see: {_names(counts)}",
            where=f"topic {missing[0]}",
            hint="create the topic, check the spelling of source.topics, or grant READ and DESCRIBE on it",
        )
    found = sorted(topic for topic in counts if options.reads(topic))
    return [partition_name(topic, number) for topic in found for number in range(counts[topic])]


def ends_of(cluster: KafkaCluster, policy: RetryPolicy, consumer: Consumer, names: Iterable[str]) -> dict[str, int]:
    """The present offset after the last message of each partition."""
    return {name: high for name, (_, high) in _watermarks(cluster, policy, consumer, names).items()}


def beginnings_of(
    cluster: KafkaCluster, policy: RetryPolicy, consumer: Consumer, names: Iterable[str]
) -> dict[str, int]:
    """The offset of the first existing message of each partition."""
    return {name: low for name, (low, _) in _watermarks(cluster, policy, consumer, names).items()}


def _watermarks(
    cluster: KafkaCluster, policy: RetryPolicy, consumer: Consumer, names: Iterable[str]
) -> dict[str, tuple[int, int]]:
    def query_watermarks(name: str) -> Callable[[], tuple[int, int]]:
        return lambda: consumer.get_watermark_offsets(TopicPartition(*topic_partition(name)), timeout=ANSWER_S)

    return {name: cluster.retrying(policy, f"asking where {name} ends", query_watermarks(name)) for name in names}


def start_offsets(
    cluster: KafkaCluster, policy: RetryPolicy, consumer: Consumer, options: KafkaSourceOptions, names: list[str]
) -> dict[str, int]:
    """By partition, the offset where `scan.startup.mode` says to start. Raises SourceError."""
    mode = options.startup_mode
    if mode == "latest-offset":
        return ends_of(cluster, policy, consumer, names)
    beginnings = beginnings_of(cluster, policy, consumer, names)
    if mode == "timestamp":
        return _at_time(cluster, policy, consumer, names, options.timestamp_millis or 0)
    if mode == "specific-offsets":
        return {**beginnings, **_specific(options, names)}
    if mode == "group-offsets":
        return {**beginnings, **_committed(cluster, policy, consumer, names)}
    return beginnings


def _at_time(
    cluster: KafkaCluster, policy: RetryPolicy, consumer: Consumer, names: list[str], millis: int
) -> dict[str, int]:
    partitions = [TopicPartition(*topic_partition(name), millis) for name in names]
    found = cluster.retrying(
        policy, "asking for the offsets of a time", lambda: consumer.offsets_for_times(partitions, timeout=ANSWER_S)
    )
    ends = ends_of(cluster, policy, consumer, names)
    times = {partition_name(item.topic, item.partition): item.offset for item in found}
    return {name: times[name] if times[name] >= 0 else ends[name] for name in names}


def _specific(options: KafkaSourceOptions, names: list[str]) -> Mapping[str, int]:
    offsets = {partition_name(*where): at for where, at in options.specific_offsets().items()}
    unknown = sorted(offsets.keys() - set(names))
    if unknown:
        raise SourceError(
            "there is no such partition among those that are read",
            where=unknown[0],
            hint="correct scan.startup.specific-offsets",
        )
    return offsets


def _committed(cluster: KafkaCluster, policy: RetryPolicy, consumer: Consumer, names: list[str]) -> dict[str, int]:
    partitions = [TopicPartition(*topic_partition(name)) for name in names]
    found = cluster.retrying(
        policy, "asking for the group's offsets", lambda: consumer.committed(partitions, timeout=ANSWER_S)
    )
    return {
        partition_name(item.topic, item.partition): item.offset
        for item in found
        if item.offset != OFFSET_INVALID and item.offset >= 0
    }

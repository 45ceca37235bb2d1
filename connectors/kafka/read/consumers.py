"""Clients of the broker that read, and their settings."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer

from connectors.kafka.client import KafkaCluster
from connectors.kafka.fetch.fetcher import Fetcher


def metadata_consumer(cluster: KafkaCluster, pipeline: str) -> Consumer:
    """A consumer only for asking for offsets."""
    return cluster.consumer(**_settings(cluster, pipeline))


def fetcher(cluster: KafkaCluster, pipeline: str) -> Fetcher:
    """A client for reading."""
    return cluster.fetcher(**_settings(cluster, pipeline))


def _settings(cluster: KafkaCluster, pipeline: str) -> dict[str, Any]:
    fixed = {
        "group_id": f"cdc-{pipeline}", "enable_auto_commit": False, "enable_auto_offset_store": False,
        "auto_offset_reset": "error", "enable_partition_eof": True, "max_poll_interval_ms": 86_400_000,
        "fetch_wait_max_ms": 100, "fetch_error_backoff_ms": 50, "fetch_queue_backoff_ms": _FULL_MS,
        "queued_max_messages_kbytes": 4 << 10, "fetch_max_bytes": 1_000_000, "fetch_message_max_bytes": 256 << 10,
        "message_max_bytes": _LEAST_BYTES,  # a setting of producers, but `fetch.max.bytes` must not be less
    }  # fmt: skip
    configured = {name.replace(".", "_"): value for name, value in cluster.settings.client.items() if name in _OURS}
    return {"isolation_level": "read_committed", **fixed, **configured}


_OURS = frozenset({
    "isolation.level", "group.id", "fetch.wait.max.ms", "queued.max.messages.kbytes", "fetch.queue.backoff.ms",
    "fetch.max.bytes", "fetch.message.max.bytes",
})  # fmt: skip
"""Our defaults that the pipeline file may override.

The client fetches while its queue is not full, and counts compressed bytes: the default of 1 MB per partition can be
10 MB and more per partition, in each client.
"""
_LEAST_BYTES = 1000
"""The least value that the library accepts as `message.max.bytes`, and therefore as `fetch.max.bytes`."""
_FULL_MS = 5
"""For how many milliseconds the client pauses fetching once its queue is full. The default is a second, but the queue
is empty again after a few milliseconds, so reading would stand still most of the time."""

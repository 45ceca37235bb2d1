"""The ids of topics, which identify their logs: Kafka gives one to each new topic (KIP-516, brokers since 2.8).

A topic that is deleted and recreated has another id. Offsets of the old topic are meaningless for the new one, even if
that has as many messages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka.admin import AdminClient

from cdc.errors import PositionLost, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from connectors.kafka.client import KafkaCluster


class TopicIds:
    """Asks for the ids of topics over one connection. One object per planner and per task."""

    def __init__(self, cluster: KafkaCluster, policy: RetryPolicy) -> None:
        self._cluster, self._policy = cluster, policy
        self._admin: AdminClient | None = None

    def fetch(self, topics: Collection[str]) -> dict[str, str]:
        """The ids of the existing topics; empty for brokers without ids. Raises SourceError."""
        if not topics:
            return {}
        if self._admin is None:
            self._admin = self._cluster.admin()
        admin = self._admin
        return self._cluster.retrying(
            self._policy, "asking for the ids of topics", lambda: self._cluster.topic_ids(admin, topics), admin
        )

    def changed_topics(self, ids: Mapping[str, str]) -> dict[str, str]:
        """The topics that have other ids now, with a description of what happened. Raises SourceError.

        Waits for missing topics as the policy says, because a broker that is starting does not know them yet.
        """
        backoff = Backoff(self._policy, self._cluster.where)
        found = self.fetch(ids.keys())
        while ids.keys() - found.keys() and backoff.pause(f"there is no topic {min(ids.keys() - found.keys())}"):
            found = self.fetch(ids.keys())
        missing = sorted(ids.keys() - found.keys())
        if missing and self._policy.stopping():
            raise SourceUnavailable("there is no such topic", where=f"topic {missing[0]}")
        recreated = [topic for topic, id_ in ids.items() if id_ and found.get(topic) and found[topic] != id_]
        return dict.fromkeys(missing, "was deleted") | dict.fromkeys(recreated, "was deleted and recreated")


def topic_lost(changed: Mapping[str, str]) -> PositionLost:
    """The error about topics whose log no longer exists."""
    topic, reason = min(changed.items())
    return PositionLost(
        f"the topic {reason}, and its messages may not all have been read",
        where=f"topic {topic}",
        hint="start over with an empty state directory and empty sink tables, or set scan.on-lost: earliest to go on "
        "with what there is, the new topic from its beginning",
    )

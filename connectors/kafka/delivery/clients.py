"""The clients of a task, kept for the next task, because connecting takes longer than writing a small batch.

A process keeps for the next task of the same pipeline: the admin client and the consumer of the last one, and a new
producer, which connects in the meantime. That producer has not begun yet: as for any other producer, the next task
first takes over the transactional id with it, so the producer that begins last fences all others.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdc.retry import RetryPolicy
from connectors.kafka.client import KafkaCluster
from connectors.kafka.delivery.fences import Fences
from connectors.kafka.delivery.topics import NewTopics, Topics
from connectors.kafka.delivery.transaction import Producing, TransactionWriter


class Clients:
    """The clients of one task at a time. Any process; must be closed."""

    def __init__(
        self,
        cluster: KafkaCluster,
        delivery: Producing,
        retry: RetryPolicy,
        new: NewTopics,
        *,
        fence_topic: str,
        name: str,
    ) -> None:
        """`name` is the name of the group of fences, and the prefix of the transactional ids."""
        self._cluster, self._delivery, self._retry, self._name = cluster, delivery, retry, name
        self.topics = Topics(cluster, new, retry)
        self.fences = Fences(cluster, self.topics, retry, topic=fence_topic, group=name)
        self._ahead: tuple[str, TransactionWriter] | None = None

    @property
    def where(self) -> str:
        """How the cluster is named in messages."""
        return self._cluster.where

    @contextmanager
    def writer(self, part: str) -> Iterator[TransactionWriter]:
        """A writer that has taken over the transactional id of a part; its transaction ends with the block.

        Raises the sink's errors.
        """
        prepared, self._ahead = self._ahead, None
        if prepared is None or prepared[0] != part:
            prepared = part, self._writer(part)
        writer = prepared[1]
        try:
            writer.init_transactions(self.fences.topic)
            yield writer
        except BaseException:
            writer.abort()
            raise
        finally:
            writer.close()

    def prepare_next(self, part: str) -> None:
        """Start connecting the producer for a next task with the same part, and forget what is known of topics."""
        self.topics.forget()
        self._ahead = part, self._writer(part)

    def close(self) -> None:
        """Close the connections."""
        if self._ahead is not None:
            self._ahead[1].close()
        self.fences.close()

    def _writer(self, part: str) -> TransactionWriter:
        return TransactionWriter(self._cluster, self._delivery, self._retry, name=f"{self._name}-{part}")


class ClientPool:
    """The idle clients of a process, by the settings they were made with. Thread safe."""

    def __init__(self, most: int) -> None:
        """`most`: how many are kept; those returned longest ago are closed first."""
        self._most, self._lock = most, threading.Lock()
        self._clients: list[tuple[object, Clients]] = []

    def acquire(self, made_of: object) -> Clients | None:
        """Take idle clients with equal settings, for the caller's exclusive use; None when there are none."""
        with self._lock:
            for index, (other, clients) in enumerate(self._clients):
                if other == made_of:
                    del self._clients[index]
                    return clients
        return None

    def release(self, made_of: object, clients: Clients) -> None:
        """Return clients for later use."""
        with self._lock:
            self._clients.append((made_of, clients))
            closing, self._clients = self._clients[: -self._most], self._clients[-self._most :]
        for _, old in closing:
            old.close()

    def clear(self) -> None:
        """Close all idle clients."""
        with self._lock:
            closing, self._clients = self._clients, []
        for _, old in closing:
            old.close()


POOL = ClientPool(4)
"""The idle clients of this process, which is usually a worker of Spark."""
atexit.register(POOL.clear)

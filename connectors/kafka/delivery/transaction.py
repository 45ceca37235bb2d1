"""The producer of one task: all its records become readable at once, together with the fence, or never.

With `at-least-once` there is no transaction: records are readable as they arrive, and the fence is committed after
them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message

from cdc.errors import SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from connectors.kafka.client import ANSWER_S, FENCED, UNKNOWN_TOPIC, KafkaCluster
from connectors.kafka.delivery.fences import Fences, WrittenBatch
from connectors.kafka.encoding.encoder import EncodedMessages

T = TypeVar("T")

log = logging.getLogger(__name__)

_IN_QUEUE_BYTES = 48 << 20
"""The approximate number of bytes that wait in the client to be sent."""
_MOST_IN_QUEUE = 200_000
_AT_ONCE = 16_384
_SMALLER = (
    "raise max.message.bytes of the topic; it has to allow for properties.batch.size (1 MiB) too, as records go in "
    "batches"
)
_LOOK_S = 0.005
"""The interval for polling the queue while waiting for room: delivered records are not reported."""
_LINGER_MS = 5000
"""Batches that are not full are flushed explicitly. Once a record has waited this long, librdkafka polls without a
pause whether it may be sent: with 20 ms its threads took 2 CPU seconds for a million records while the broker was busy,
with 5 s only 0.5."""
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Errors of records dropped with a failed transaction; the next call of the coordinator tells the reason."""
_STUCK_S = 0.05
"""A wait for room flushes when nothing is sent for this long: then many batches wait to become full."""
_TELL_S = 2.0
"""The interval at which a wait for room or for the end is logged."""
_TRANSACTION_MS = 900_000
"""The time limit of a transaction: the 15 minutes that brokers allow by default (`transaction.max.timeout.ms`)."""


@dataclass(frozen=True, slots=True)
class Producing:
    """The guarantee for records: `transactional` or at least once. `largest`: the client's limit for one record."""

    transactional: bool
    largest: int = 1_000_000
    compression: str = "lz4"


class TransactionWriter:
    """Writes the records of one task. Executor; starts with `init_transactions`, ends with `commit` or `abort`."""

    def __init__(self, cluster: KafkaCluster, delivery: Producing, retry: RetryPolicy, *, name: str) -> None:
        """Start connecting. `name` is the transactional id."""
        self._cluster, self._delivery, self._retry, self._name = cluster, delivery, retry, name
        self._failed: tuple[KafkaError, str, int] | None = None
        self._begun, self._begun_s, self._size = False, 0.0, 500.0
        self._topics, self._purged = set[str](), False
        limit_ms = cluster.settings.client.get("transaction.timeout.ms", "")
        self._limit_ms = int(limit_ms) if limit_ms.isdigit() else _TRANSACTION_MS
        self._producer = cluster.producer(**self._settings())

    def init_transactions(self, topic: str) -> None:
        """End any earlier transaction under the transactional id, and fence the producer that began it.

        Every task has to do this, because only the brokers know which process has the id. Raises the sink's errors.
        """
        if not self._delivery.transactional:
            return
        doing, producer = "taking over the transactional id", self._producer
        # If it has to begin before a broker is connected, librdkafka tries again only half a second later. Asking for
        # the metadata of any topic waits until one is connected.
        self._cluster.retrying(self._retry, doing, lambda: self._cluster.topic_metadata(producer, topic), producer)
        self._call(doing, lambda: producer.init_transactions(ANSWER_S))

    def _settings(self) -> dict[str, Any]:
        client = self._cluster.settings.client
        chosen: dict[str, Any] = {
            "acks": "all", "enable_idempotence": True, "compression_type": self._delivery.compression,
            "linger_ms": min(_LINGER_MS, self._limit_ms // 2), "batch_size": 1 << 20, "partitioner": "murmur2_random",
            "queue_buffering_max_messages": 10_000_000, "queue_buffering_max_kbytes": 2_097_151,
            "message_max_bytes": self._delivery.largest, "delivery_report_only_error": True,
            "on_delivery": self._on_delivery,
        }  # fmt: skip
        if not self._delivery.transactional:
            chosen |= {"message_timeout_ms": 0}
        else:
            chosen |= {"transactional_id": self._name, "transaction_timeout_ms": self._limit_ms}
        fixed = ("enable_idempotence", "transactional_id", "delivery_report_only_error", "on_delivery", "acks")
        return {key: value for key, value in chosen.items() if key in fixed or key.replace("_", ".") not in client}

    def send(self, topic: str, messages: EncodedMessages, partition: int) -> None:
        """Queue records in order; partition -1 chooses by key. Waits while too much is queued. Raises SinkError."""
        if not len(messages):
            return
        self._begin()
        self._topics.add(topic)
        self._size = max(100.0, messages.size / len(messages))
        start = 0
        for stop in [*sorted(messages.headers), len(messages)]:
            self._send_plain(topic, messages, start, stop, partition)
            if stop < len(messages):
                self._send_one(topic, messages, stop, partition)
            start = stop + 1

    def commit(self, fences: Fences, part: int, written: WrittenBatch) -> None:
        """Make all records readable together with the fence. Returns once that is certain. Raises SinkError.

        After SinkUnavailable, either nothing is readable, or the fence will tell.
        """
        self._begin()
        self._drain(0)
        if not self._delivery.transactional:
            fences.put(part, written)
            return
        offsets, group = fences.mark(part, written)
        self._call("sending the fence", lambda: self._producer.send_offsets_to_transaction(offsets, group, ANSWER_S))
        if self._purged:
            raise SinkUnavailable("records were discarded without a reason", where=self._cluster.where)
        self._call("committing a transaction", lambda: self._producer.commit_transaction(ANSWER_S))
        self._begun = False

    def abort(self) -> None:
        """Drop the uncommitted records. If the broker cannot be told now, the next producer does that."""
        if self._begun and self._delivery.transactional:
            try:
                self._producer.purge()
                self._producer.abort_transaction(ANSWER_S)
            except KafkaException as error:
                log.info("a transaction is left to its time limit: %s", error)
        self._begun = False

    def close(self) -> None:
        """Close the connections."""
        del self._producer  # its own `close` would raise the error of a fenced producer again

    def _begin(self) -> None:
        if not self._begun and self._delivery.transactional:
            self._begun_s = time.monotonic()
            self._call("beginning a transaction", self._producer.begin_transaction)
        self._begun = True

    def _send_plain(self, topic: str, messages: EncodedMessages, start: int, stop: int, partition: int) -> None:
        for first in range(start, stop, _AT_ONCE):
            records = messages.records[first : min(first + _AT_ONCE, stop)]
            self._drain(self._queue_limit())
            put = partial(self._producer.produce_batch, topic, records, partition)
            accepted = self._at_once(f"writing to {topic}", put)
            if accepted != len(records):
                errors: list[Any] = [record["_error"] for record in records if "_error" in record]
                raise self._error(errors[0], f"writing to {topic}", f"{messages.table}")

    def _send_one(self, topic: str, messages: EncodedMessages, index: int, partition: int) -> None:
        self._drain(self._queue_limit())
        record, headers = messages.records[index], list[Any](messages.headers[index])
        key, value = record.get("key"), record.get("value")
        self._at_once(
            f"writing to {topic}", lambda: self._producer.produce(topic, value, key, partition, headers=headers)
        )

    def _queue_limit(self) -> int:
        """How many records may be queued when more are added."""
        return min(_MOST_IN_QUEUE, max(1_000, int(_IN_QUEUE_BYTES / self._size)))

    def _drain(self, most: int) -> None:
        """Wait until at most that many records are queued. Raises the error of a failed delivery."""
        before, moved_s, reported_s = len(self._producer), time.monotonic(), 0.0
        while (queued := len(self._producer)) > most:
            # Full batches are sent anyway; flushing also sends records that wait for their batch to be full.
            stuck = most == 0 or time.monotonic() - moved_s > _STUCK_S
            send = self._producer.flush if stuck else self._producer.poll
            self._at_once("sending records", partial(send, _LOOK_S))
            self._raise_failure()
            if queued < before:
                before, moved_s, reported_s = queued, time.monotonic(), 0.0
            reported_s = self._still(time.monotonic() - moved_s, reported_s)
        self._at_once("sending records", lambda: self._producer.poll(0))
        self._raise_failure()

    def _still(self, waited_s: float, reported_s: float) -> float:
        """Log at intervals that nothing is being delivered, and give up after too long.

        Returns when that was logged last.
        """
        if waited_s > self._retry.timeout_s or (waited_s > ANSWER_S and self._retry.stopping()):
            raise self._silence()
        if waited_s - reported_s < _TELL_S:
            return reported_s
        if waited_s > ANSWER_S:
            self._check_topics()
        self._retry.waiting(str(self._silence()))
        return waited_s

    def _check_topics(self) -> None:
        """Raise SinkError when a topic of queued records was deleted; the client would wait for it to come back."""
        for topic in sorted(self._topics):
            try:
                found = self._producer.list_topics(topic, ANSWER_S).topics[topic].error
            except KafkaException:
                return  # the cluster is away; the caller keeps waiting for it
            if found is not None and found.code() in UNKNOWN_TOPIC:
                raise self._error(found, f"sending records to {topic}", "")

    def _silence(self) -> Exception:
        return self._error(KafkaError(KafkaError._TIMED_OUT), "sending records", "")

    def _at_once(self, doing: str, call: Callable[[], T]) -> T:
        """Make a call that does not wait. Raises errors that the client has received meanwhile, as the sink's."""
        try:
            return call()
        except KafkaException as error:
            raise self._error(error.args[0], doing, "") from error

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        # A broker refuses a whole batch of records, so the largest record is the one to name.
        if error is None:
            return
        if error.code() in _PURGED:
            self._purged = True
        elif self._failed is None or len(message) > self._failed[2]:
            key = (message.key() or b"").decode(errors="replace")[:200] or "none"
            where = f"{message.topic()} [{message.partition()}], key {key}, {len(message):,} bytes"
            self._failed = error, where, len(message)

    def _raise_failure(self) -> None:
        if self._failed is not None:
            error, where, _ = self._failed
            if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
                raise SinkError("the broker refuses records of that size", where=where, hint=_SMALLER)
            raise self._error(error, "delivering a record", where)

    def _call(self, doing: str, call: Callable[[], Any]) -> None:
        """Call the coordinator; repeat the call when librdkafka says that it can be."""

        def attempt() -> None:
            try:
                call()
            except KafkaException as error:
                found: KafkaError = error.args[0]
                if found.retriable():
                    self._producer.poll(0)
                    raise self._cluster.error(found, doing) from error
                raise _Final(self._error(found, doing, "")) from error

        try:
            self._retry.call(attempt, f"{self._cluster.where}: {doing}")
        except _Final as final:
            raise final.error from final

    def _error(self, error: KafkaError, doing: str, where: str) -> Exception:
        error = self._reason(error)
        if error.code() in FENCED and self._begun and self._ran_out():
            return SinkUnavailable(
                f"{doing}: the broker has ended the transaction, which was open for {self._limit_ms / 1000:g} s",
                where=where or self._cluster.where,
                hint="the process was suspended, or its batch takes longer: see properties.transaction.timeout.ms",
            )
        if error.code() in FENCED or not error.txn_requires_abort():
            return self._cluster.error(error, doing, where=where)
        found = self._cluster.error(error, doing, where=where)
        # The transaction is lost. Unless a right is missing, a new attempt of the task writes everything again.
        return SinkUnavailable(found.message, where=found.where, hint=found.hint) if _passing(error) else found

    def _reason(self, error: KafkaError) -> KafkaError:
        """Why the transaction has failed: after that, the client refuses records without saying."""
        if error.code() in (KafkaError._STATE, KafkaError._FATAL) and self._delivery.transactional:
            try:
                self._producer.begin_transaction()  # refused for that reason
            except KafkaException as refused:
                found: KafkaError = refused.args[0]
                return found
        return error

    def _ran_out(self) -> bool:
        """Whether the broker may have ended the transaction by timeout, which looks as if another run had."""
        return self._delivery.transactional and (time.monotonic() - self._begun_s) * 1000 >= self._limit_ms


class _Final(Exception):
    """Wraps an error of the coordinator for which the call is not repeated."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


_LASTING = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION,
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
})  # fmt: skip


def _passing(error: KafkaError) -> bool:
    return error.code() not in _LASTING

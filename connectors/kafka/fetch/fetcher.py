"""A consumer that returns columns. It is told which partitions to read, and commits no offsets."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from cdc.errors import SourceError
from cdc.process.memory import MUCH, trim_memory
from connectors.kafka.formats.groups import Messages
from connectors.kafka.formats.scan import Heads, Texts
from connectors.kafka.formats.wrapped import head_of
from connectors.kafka.kernels import messages, prefixes

Hear = Callable[[KafkaError], None]
"""Takes the errors that the client reports about its connections."""
_MOST = 256 << 20
"""The most bytes in one buffer, since positions in it are numbers of 32 bits."""
_PADDING = 8
_REASON = 512
_MOST_HEADS = 32
"""The most schemas with which values are compared; values with other schemas are copied with theirs."""
ERROR_CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
"""void error_cb(rd_kafka_t *client, int code, const char *reason, void *opaque)"""
CONSUMER = 1
"""RD_KAFKA_CONSUMER"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A broker's error about a partition; `partition` is -1 for an error that concerns none."""

    topic: str
    partition: int
    offset: int
    error: KafkaError


@dataclass(slots=True)
class Fetched:
    """The result of one call: the messages of each partition in order, and failures."""

    messages: list[Messages] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.messages or self.failures)

    @property
    def count(self) -> int:
        """The number of messages."""
        return sum(map(len, self.messages))


class Fetcher:
    """A consumer. Another thread may call `close`; after that, `fetch` returns nothing.

    Args:
        config: the settings, by librdkafka's names.
        hear: gets errors of connections; called from within `fetch`.

    Raises KafkaException for a setting that is refused.
    """

    def __init__(self, config: Mapping[str, Any], hear: Hear) -> None:
        self._library = library()
        self._lock = threading.Lock()
        self._heard = ERROR_CALLBACK(lambda client, code, reason, opaque: hear(_error(code, reason)))
        self._client: int | None = _client(self._library, config, self._heard)
        self._queue = self._library.queue_get_consumer(self._client)
        self._found = np.zeros(0, np.int64)
        self._functions = self._library.address("message_timestamp"), self._library.address("message_destroy")
        self._taken = 0
        self._heads: list[bytes] = []

    def assign(self, positions: Iterable[tuple[str, int, int]]) -> None:
        """Read these partitions: topic, number, and the offset to begin at. Raises KafkaException."""
        lib, assigned = self._library, list(positions)
        listed = lib.topic_partition_list_new(len(assigned))
        try:
            for topic, partition, offset in assigned:
                lib.topic_partition_list_add(listed, topic.encode(), partition)
                lib.topic_partition_list_set_offset(listed, topic.encode(), partition, offset)
            with self._lock:
                code = lib.assign(self._client, listed) if self._client else 0
        finally:
            lib.topic_partition_list_destroy(listed)
        if code:
            raise KafkaException(KafkaError(code))

    def fetch(self, most: int, wait_s: float) -> Fetched:
        """Wait for the first message, and return at most `most` of those available then."""
        found = Fetched()
        with self._lock:
            if self._client is None:
                return found
            count = self._consume(0, 1, wait_s) if wait_s > 0 else 0
            count += self._consume(count, most - count, 0.0) if most > count else 0
            pointers = self._found[:count]
            first = 0
            while first < count:
                first += self._copy_to_buffer(pointers, first, found)
        return found

    def marks(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The first offset of a partition and the one after its last, as of the last answer."""
        low, high = ctypes.c_int64(-1), ctypes.c_int64(-1)
        with self._lock:
            if self._client is None:
                return None
            code = self._library.get_watermark_offsets(
                self._client, topic.encode(), partition, ctypes.byref(low), ctypes.byref(high)
            )
        return None if code or high.value < 0 else (low.value, high.value)

    def release_memory(self) -> None:
        """Return the memory of earlier reading to the system, because nothing will be fetched for a while."""
        if self._taken >= MUCH:
            self._taken = 0
            trim_memory()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                self._library.consumer_close(client)
                self._library.queue_destroy(self._queue)
                self._library.destroy(client)
        self.release_memory()

    def _consume(self, at: int, most: int, wait_s: float) -> int:
        """Have the client store addresses of messages from number `at` on; return how many came."""
        if len(self._found) < at + most:
            self._found = np.concatenate((self._found[:at], np.zeros(most, np.int64)))
        address = self._found.ctypes.data + 8 * at
        count: int = self._library.consume_batch_queue(self._queue, round(wait_s * 1000), address, most)
        if count < 0:
            raise KafkaException(KafkaError(self._library.last_error()))
        return count

    def _copy_to_buffer(self, pointers: Any, first: int, found: Fetched) -> int:
        """Copy as many messages as one buffer has room for; return their number."""
        sizes = np.zeros(1, np.int64)
        count: int = messages.fitting(pointers, first, _MOST, sizes)
        pointers = pointers[first : first + count]
        self._taken += int(sizes[0])
        data = np.empty(int(sizes[0]) + _PADDING, np.uint8)
        topics, offsets, times_ms, leader_epochs = np.empty((4, count), np.int64)
        partitions, key_begins, key_ends, begins, ends, headed = np.empty((6, count), np.int32)
        heads = np.array([[np.frombuffer(head, np.uint8).ctypes.data, len(head)] for head in self._heads], np.int64)
        addresses, lengths = np.ascontiguousarray(heads.reshape(-1, 2).T)
        good: int = messages.copy_messages(
            pointers, data.ctypes.data, topics, partitions, offsets, times_ms, key_begins, key_ends, begins, ends,
            leader_epochs, *self._functions, addresses, lengths, headed,
        )  # fmt: skip
        values = Texts(data, begins[:good], ends[:good], Heads(self._heads, headed[:good]))
        for topic, partition, rows in self._by_partition(topics[:good], partitions[:good]):
            found.messages.append(
                Messages(
                    topic, partition, offsets[rows], times_ms[rows],
                    Texts(data, key_begins[rows], key_ends[rows]), values.take(rows),
                )
            )  # fmt: skip
        found.failures += map(self._failure, leader_epochs[: count - good].tolist())
        self._learn(values, headed[:good])
        return count

    def _learn(self, values: Texts, headed: Any) -> None:
        """Remember the schema around the last value if it is new, so that later values are copied without it."""
        candidates = np.flatnonzero((headed < 0) & values.present)
        if not len(candidates) or len(self._heads) == _MOST_HEADS:
            return
        last = values.part(values.begins[candidates[-1:]], values.ends[candidates[-1:]])
        has_schema = not prefixes.count_without_schema(last.address, last.begins, last.ends, 0)
        if has_schema and (head := head_of(last)) is not None:
            self._heads.append(head)

    def _by_partition(self, topics: Any, partitions: Any) -> Iterator[tuple[str, int, Any]]:
        """The rows of each partition; a slice if all are of the same one."""
        if not len(topics):
            return
        if (topics == topics[0]).all() and (partitions == partitions[0]).all():
            yield self._name(int(topics[0])), int(partitions[0]), slice(0, len(topics))
            return
        for topic in dict.fromkeys(topics.tolist()):
            of_topic = topics == topic
            for partition in np.unique(partitions[of_topic]).tolist():
                yield self._name(topic), partition, np.flatnonzero(of_topic & (partitions == partition))

    def _name(self, topic: int) -> str:
        return bytes(self._library.topic_name(topic)).decode() if topic else ""

    def _failure(self, pointer: int) -> Failure:
        """The error that a message stands for; releases the message."""
        message = MessageFields.from_address(pointer)
        reason = ctypes.string_at(message.payload, message.len) if message.payload else b""
        found = Failure(
            self._name(message.topic), message.partition, message.offset, _error(message.err, reason)
        )  # fmt: skip
        self._library.message_destroy(pointer)
        return found


def warm_fetching() -> None:
    """Load the kernels that copy messages."""
    nothing, ints = np.zeros(0, np.int64), np.zeros(0, np.int32)
    messages.fitting(nothing, 0, _MOST, np.zeros(1, np.int64))
    messages.copy_messages(
        nothing, 0, nothing, ints, nothing, nothing, ints, ints, ints, ints, nothing, 0, 0, nothing, nothing,
        ints,
    )  # fmt: skip


def _error(code: int, reason: bytes | None) -> KafkaError:
    text = (reason or b"").decode("utf-8", "replace")
    return KafkaError(code, text) if text else KafkaError(code)


def _client(library: Library, config: Mapping[str, Any], heard: Any) -> int:
    """Create a consumer whose events come with its messages."""
    settings, error_text = library.conf_new(), ctypes.create_string_buffer(_REASON)
    for name, value in config.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if library.conf_set(settings, name.encode(), text.encode(), error_text, _REASON):
            library.conf_destroy(settings)
            raise KafkaException(_error(KafkaError._INVALID_ARG, error_text.value))
    library.conf_set_error_cb(settings, heard)
    library.conf_set_log_cb(settings, None)
    client = library.new(CONSUMER, settings, error_text, _REASON)
    if not client:
        code = library.last_error()
        library.conf_destroy(settings)
        raise KafkaException(_error(code, error_text.value))
    library.poll_set_consumer(client)
    return int(client)


class MessageFields(ctypes.Structure):
    """rd_kafka_message_t"""

    _fields_ = (
        ("err", c_int), ("topic", c_void_p), ("partition", c_int32), ("payload", c_void_p), ("len", c_size_t),
        ("key", c_void_p), ("key_len", c_size_t), ("offset", c_int64), ("private", c_void_p),
    )  # fmt: skip


_INT64S = POINTER(c_int64)
_FUNCTIONS: dict[str, tuple[type | None, list[type]]] = {
    "conf_new": (c_void_p, []),
    "conf_destroy": (None, [c_void_p]),
    "conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "conf_set_error_cb": (None, [c_void_p, ERROR_CALLBACK]),
    "conf_set_log_cb": (None, [c_void_p, c_void_p]),
    "new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "destroy": (None, [c_void_p]),
    "poll_set_consumer": (c_int, [c_void_p]),
    "consumer_close": (c_int, [c_void_p]),
    "queue_get_consumer": (c_void_p, [c_void_p]),
    "queue_destroy": (None, [c_void_p]),
    "topic_partition_list_new": (c_void_p, [c_int]),
    "topic_partition_list_add": (c_void_p, [c_void_p, c_char_p, c_int32]),
    "topic_partition_list_set_offset": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "topic_partition_list_destroy": (None, [c_void_p]),
    "assign": (c_int, [c_void_p, c_void_p]),
    "consume_batch_queue": (c_ssize_t, [c_void_p, c_int, c_void_p, c_size_t]),
    "last_error": (c_int, []),
    "get_watermark_offsets": (c_int, [c_void_p, c_char_p, c_int32, _INT64S, _INT64S]),
    "topic_name": (c_char_p, [c_void_p]),
    "message_destroy": (None, [c_void_p]),
    "message_timestamp": (c_int64, [c_void_p, c_void_p]),
}


class Library:
    """The functions of librdkafka, by their names without the prefix `rd_kafka_`."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> ctypes._NamedFuncPointer:
        raise AttributeError(name)

    def address(self, name: str) -> int:
        """The address of a function, for a kernel that calls it."""
        return ctypes.cast(getattr(self, name), c_void_p).value or 0


@lru_cache(maxsize=1)
def library() -> Library:
    """The librdkafka of this process. Raises SourceError when confluent-kafka does not expose it."""
    import confluent_kafka.cimpl as client

    return _library_of(client)


def _library_of(client: ModuleType) -> Library:
    where = str(client.__file__)
    try:
        return Library(ctypes.CDLL(where))
    except (OSError, AttributeError) as error:
        raise SourceError(
            f"librdkafka's functions are not found: {error}",
            where=where,
            hint="install confluent-kafka from its wheel, or against librdkafka as a shared library",
        ) from error

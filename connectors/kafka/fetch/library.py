"""The functions of the librdkafka that confluent-kafka brings, by its public C interface (rdkafka.h)."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import lru_cache
from types import ModuleType

from cdc.errors import SourceError

ERROR_CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
"""void error_cb(rd_kafka_t *client, int code, const char *reason, void *opaque)"""

CONSUMER = 1
"""RD_KAFKA_CONSUMER"""


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
    """The functions, without their common beginning `rd_kafka_`."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> ctypes._NamedFuncPointer:
        raise AttributeError(name)

    def address(self, name: str) -> int:
        """Where a function is, for a kernel that calls it."""
        return ctypes.cast(getattr(self, name), c_void_p).value or 0


@lru_cache(maxsize=1)
def library() -> Library:
    """The library in this process. Raises SourceError where confluent-kafka does not show it."""
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

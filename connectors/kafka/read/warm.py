"""Load the kernels by reading messages; this compiles them if no cached code fits the machine."""

from __future__ import annotations

import numpy as np

from cdc.schema import Column, DataType, TableSchema
from connectors.kafka.avro.schemas import program
from connectors.kafka.avro.unwrapper import WrittenTexts
from connectors.kafka.fetch.fetcher import warm_fetching
from connectors.kafka.formats.blocks import block_of
from connectors.kafka.formats.debezium import DebeziumFormat
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import Messages
from connectors.kafka.formats.scan import Texts

_MESSAGE = (
    b'{"op":"c","after":{"a":1,"b":"x\\n","c":"AQ==","d":"2026-01-31 12:00:00","e":"12:00:00"},'
    b'"source":{"db":"warm","table":"up","ts_ms":1}}'
)
_WRAPPED = b'{"schema":{"type":"struct"},"payload":' + _MESSAGE + b"}"
_COLUMNS = tuple(
    Column(name, DataType.parse(kind))
    for name, kind in zip("abcde", ("BIGINT", "STRING", "BYTES", "TIMESTAMP(6)", "TIME(6)"), strict=True)
)


def warm_kernels() -> int:
    """Read and decode messages; return the number of rows, which is two. Executor; repeating it costs nothing."""
    warm_fetching()
    messages = Messages.concat([Messages.of("warm", 0, (None,), (_MESSAGE,)) for _ in range(2)])
    written = DebeziumFormat()
    written.read(Messages.of("warm", 0, (None, None), (_WRAPPED, _WRAPPED)))
    reading = written.read(messages)
    rows = 0
    for group in reading.groups:
        block, _ = block_of(
            group, TableSchema(_COLUMNS), lambda column: Field(column.name, column.type), np.arange(2),
            lambda reason, number: None, lambda columns, images: {},
        )  # fmt: skip
        rows += len(block)
    return rows


def warm_avro() -> int:
    """Read one message; return the number of unreadable ones, which is 0. Executor; repeating it costs nothing."""
    schema = program('{"type": "record", "name": "warm", "fields": [{"name": "a", "type": ["null", "int"]}]}')
    return len(WrittenTexts(8, 1).add(schema, Texts.of([b"\0\0\0\0\1\2\2"]), np.arange(1)))

"""Compiles the decoder's kernels before their first use, in two processes at once: `scripts/warm.py`, once per machine.

Numba compiles a kernel with all that it calls, one after the other. So the largest of them, the text of JSON documents,
goes to one process while another compiles the rest of what reads values; then either takes what it lacks from the cache
on disk, the reading of events in the first process, the reading of rows in the second.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pyarrow as pa
from numba import int64

from connectors.mysql.kernels import decimal, one_value, payload, placing, row_by_row, rows, rows_event, values
from connectors.mysql.kernels.json import STACK_BYTES, json_text
from connectors.mysql.rows.addresses import address
from connectors.mysql.rows.warm import indexed
from connectors.shared.kernels.buffers import well_formed

_NULL = b"\x04\x00"
"""A JSON document."""


def compile_documents() -> None:
    """The text of JSON documents. Driver; a repeat costs nothing, here as below."""
    source, text, stack = (
        np.frombuffer(bytearray(_NULL), np.uint8),
        np.zeros(64, np.uint8),
        np.zeros(STACK_BYTES, np.uint8),
    )
    json_text(source, 0, len(source), text, 0, address(stack))


def compile_events() -> None:
    """Compile the kernels that find events and transactions in a log."""
    for _ in indexed():
        pass


def compile_text() -> None:
    """Compile the check of text in UTF-8."""
    well_formed(pa.array(["text"]))


def compile_compressed() -> None:
    """Compile the kernels that take compressed transactions apart, on events of which none is."""
    for buffer in indexed():
        plan = np.empty((len(buffer), payload.PLAN_WIDTH), np.int64)
        payload.plan_expansion(buffer.data, buffer.start, buffer.end, buffer.type, plan)
        lengths = buffer.end - buffer.start
        offsets, out = np.cumsum(lengths) - lengths, np.empty(int(lengths.sum()), np.uint8)
        count = payload.count_events(out, plan, offsets)
        start, end, position, commit = (np.empty(count, np.int64) for _ in range(4))
        kind, query = np.empty(count, np.uint8), np.empty(count, np.uint8)
        payload.assemble(
            buffer.data, buffer.start, buffer.end, buffer.type, buffer.end_position, buffer.commit_ms,
            buffer.query_kind, plan, offsets, out, start, end, kind, position, commit, query,
        )  # fmt: skip


def compile_values() -> None:
    """Compile the kernels that find and read values, except documents."""
    for kernel in (
        placing.place_images, one_value.fixed, one_value.temporal, one_value.invalid, decimal.decimal_text,
        values.write_label, values.write_set, rows_event.changes_end, row_by_row.undo_rows,
    ):  # fmt: skip
        _compile(kernel)


def compile_rows() -> None:
    """Compile the kernels that make columns of rows events: everything above, and the callers."""
    _compile(rows.decode_rows)


def _compile(kernel: Any) -> None:
    """Kernels whose arguments are addresses and numbers are all called with int64."""
    kernel.compile((int64,) * len(inspect.signature(kernel.py_func).parameters))

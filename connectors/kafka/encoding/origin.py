"""Where and when each message's change was, as columns beside the rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind
from connectors.kafka.encoding.changes import INSERT, Changes

_OPS = np.frombuffer(b"cud", np.uint8)
_READ = ord("r")
_TYPES = pa.array(["INSERT", "UPDATE", "DELETE"])
_MAXWELL_TYPES = pa.array(["insert", "update", "delete", "bootstrap-insert"])
_COPIED = 3


def beside(block: ChangeBlock, changes: Changes, now_ms: int) -> dict[str, pa.Array]:
    """Columns of m values: `op` and `change` (one ASCII byte), `type`, `maxwell_type`, `snapshot`, `ts_*`, `now_*`,
    `file`, `pos`, `row`, `server_id`, `gtid`, `thread`."""
    sequence = _numbers(block.sequence)[changes.row]
    copied = block.snapshot
    op = np.where((changes.kind == INSERT) & copied, _READ, _OPS[changes.kind]).astype(np.uint8)
    ts_ms = _numbers(block.timestamps_ms)[changes.row]
    count = len(changes)
    return {
        "op": pa.array(op),
        "change": pa.array(_OPS[changes.kind]),
        "type": _TYPES.take(pa.array(changes.kind)),
        "maxwell_type": _MAXWELL_TYPES.take(
            pa.array(np.where((changes.kind == INSERT) & copied, _COPIED, changes.kind).astype(np.uint8))
        ),
        "snapshot": pa.array(["true" if copied else "false"] * count, pa.string()),
        **_times("ts", ts_ms),
        **_times("now", np.full(count, now_ms, np.int64)),
        **_places(block, sequence),
        **_transaction(block, sequence),
        "row": pa.array(_rows(block, changes)),
        "thread": pa.nulls(count, pa.int64()),
    }


def _numbers(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)


def _times(name: str, ms: np.ndarray) -> dict[str, pa.Array]:
    return {f"{name}_ms": pa.array(ms), f"{name}_us": pa.array(ms * 1000), f"{name}_ns": pa.array(ms * 1_000_000)}


def _places(block: ChangeBlock, sequence: np.ndarray) -> Mapping[str, pa.Array]:
    """The log file and position, from the source's own words for a sequence: `file:position`."""
    found, inverse = np.unique(sequence, return_inverse=True)
    files, positions = [], []
    for each in found.tolist():
        file, _, position = block.position_text(each).rpartition(":")
        files.append(file)
        positions.append(int(position) if position.isdigit() else 0)
    names = pa.array(files, pa.string()).dictionary_encode()
    index = pa.array(inverse.astype(np.int32))
    return {"file": names.take(index).cast(pa.string()), "pos": pa.array(np.array(positions, np.int64)[inverse])}


def _transaction(block: ChangeBlock, sequence: np.ndarray) -> dict[str, pa.Array]:
    """The log file's name, the server and the transaction, where the source gives rows this metadata."""
    count = len(sequence)
    if block.metadata is None:
        return {"server_id": pa.array(np.zeros(count, np.int64)), "gtid": pa.nulls(count, pa.string())}
    of = pa.array(sequence)
    return {
        "file": block.metadata("binlog_file", of),
        "server_id": block.metadata("server_id", of),
        "gtid": block.metadata("gtid", of),
    }


def _rows(block: ChangeBlock, changes: Changes) -> np.ndarray:
    """Number of the row inside its event, in which an update's two images are one row."""
    row = _numbers(block.row)[changes.row]
    kinds = np.asarray(block.kinds.to_numpy(zero_copy_only=False), np.uint8)
    return np.asarray(np.where(kinds[changes.row] == RowKind.UPDATE_AFTER, row // 2, row), np.int32)

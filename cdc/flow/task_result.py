"""The result of a task, which crosses from the executor to the driver: handles of the sink, counts and times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SinkError, from_json
from cdc.schema import TableId
from cdc.sink import MOST_PAYLOAD, Prepared


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one split. `newest_ms` is the latest source commit time in it (0: no rows); `read_s` how long.

    `reports` is what the source's reader had to tell (see `Source.store_reports`). `read` is how many changes it read,
    by source table, `bytes_read` how large they were as columns, and `phases` where the seconds went: read, decode,
    transform, prepare. `noted` is the name of what the attempt has noted (`cdc.state.notes`), empty for nothing.
    """

    prepared: tuple[Prepared, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    newest_ms: int = 0
    read_s: float = 0.0
    error: str = ""
    reports: tuple[dict[str, Any], ...] = ()
    read: dict[str, int] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    bytes_read: int = 0
    noted: str = ""

    def to_row(self) -> tuple[str, bytes]:
        """A line of JSON, and the payloads of all handles one behind the other: `from_row` reads both back."""
        plain = replace(self, prepared=())
        handles = [{**handle.to_json(), "payload": len(handle.payload)} for handle in self.prepared]
        return json.dumps({**asdict(plain), "prepared": handles}), b"".join(each.payload for each in self.prepared)

    @classmethod
    def from_row(cls, text: str, payloads: bytes) -> TaskResult:
        """The result that `to_row` gave."""
        fields = json.loads(text)
        prepared, at = list[Prepared](), 0
        for handle in fields.pop("prepared"):
            size = handle.pop("payload")
            prepared.append(Prepared.from_json(handle, bytes(payloads[at : at + size])))
            at += size
        return cls(prepared=tuple(prepared), reports=tuple(fields.pop("reports")), **fields)

    def raise_error(self) -> None:
        """Raise the error that stopped the task, if one did."""
        if self.error:
            raise from_json(self.error)


def check_payloads(prepared: Sequence[Prepared]) -> None:
    """Raise SinkError when a task hands more bytes to the driver than it may."""
    total = sum(len(handle.payload) for handle in prepared)
    if total > MOST_PAYLOAD:
        largest = max(prepared, key=lambda handle: len(handle.payload))
        raise SinkError(
            f"the commit payload of {largest.table} has {len(largest.payload)} bytes, all of this task {total}; "
            f"{MOST_PAYLOAD} may go to the driver",
            where=str(largest.table),
            hint="let a batch be smaller, or write fewer and larger files a task",
        )


class ReadFigures:
    """The figures of the blocks that a task reads: for `TaskResult`.

    `newest_ms` is the latest source commit time, `bytes` their size as columns.
    """

    def __init__(self) -> None:
        self.newest_ms = self.bytes = 0
        self._changes: Counter[TableId] = Counter()

    def watch(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """The same blocks, counted as they pass."""
        for block in blocks:
            if len(block):
                last: Any = block.timestamps_ms[len(block) - 1]
                self.newest_ms = max(self.newest_ms, last.as_py())
                self.bytes += block.rows.nbytes
                self._changes[block.table] += int(np.count_nonzero(block.kinds.to_numpy() != RowKind.UPDATE_BEFORE))
            yield block

    def changes(self) -> dict[str, int]:
        """How many changes there were, by source table."""
        return {str(table): number for table, number in self._changes.items()}

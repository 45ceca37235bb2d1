"""The result that a task sends from the executor to the driver: handles of the sink, counts and times."""

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
    """The result of one split.

    Attributes:
        prepared: handles of the sink, for the commit.
        counts: rows and values by the reason why they differ from the source.
        newest_ms: the latest commit time in the source, 0 without rows.
        read_s: duration of the task.
        error: the error that stopped the task, as JSON; empty without one.
        reports: of the source's reader, for `Source.store_reports`.
        read: changes read, by source table.
        phases: seconds spent in read, decode, transform and prepare.
        bytes_read: size of the rows as Arrow columns.
        noted: name of the attempt's note (`cdc.state.notes`), empty without one.
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
        """The result as a line of JSON and the concatenated payloads of all handles, for `from_row`."""
        plain = replace(self, prepared=())
        handles = [{**handle.to_json(), "payload": len(handle.payload)} for handle in self.prepared]
        return json.dumps({**asdict(plain), "prepared": handles}), b"".join(each.payload for each in self.prepared)

    @classmethod
    def from_row(cls, text: str, payloads: bytes) -> TaskResult:
        """The result from what `to_row` returned."""
        fields = json.loads(text)
        prepared, at = list[Prepared](), 0
        for handle in fields.pop("prepared"):
            size = handle.pop("payload")
            prepared.append(Prepared.from_json(handle, bytes(payloads[at : at + size])))
            at += size
        return cls(prepared=tuple(prepared), reports=tuple(fields.pop("reports")), **fields)

    def raise_error(self) -> None:
        """Raise the error that stopped the task, if any."""
        if self.error:
            raise from_json(self.error)


def check_payloads(prepared: Sequence[Prepared]) -> None:
    """Raise SinkError if the payloads of a task exceed the limit of bytes sent to the driver."""
    total = sum(len(handle.payload) for handle in prepared)
    if total > MOST_PAYLOAD:
        largest = max(prepared, key=lambda handle: len(handle.payload))
        raise SinkError(
            f"the commit payload of {largest.table} has {len(largest.payload)} bytes, all of this task {total}; "
            f"the limit is {MOST_PAYLOAD}",
            where=str(largest.table),
            hint="make batches smaller, or write fewer and larger files per task",
        )


class ReadFigures:
    """Figures of the blocks that a task reads, for `TaskResult`.

    `newest_ms` is the latest commit time in the source, `bytes` the size of the rows as Arrow columns.
    """

    def __init__(self) -> None:
        self.newest_ms = self.bytes = 0
        self._changes: Counter[TableId] = Counter()

    def watch(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """Yield the same blocks and count them."""
        for block in blocks:
            if len(block):
                last: Any = block.timestamps_ms[len(block) - 1]
                self.newest_ms = max(self.newest_ms, last.as_py())
                self.bytes += block.rows.nbytes
                self._changes[block.table] += int(np.count_nonzero(block.kinds.to_numpy() != RowKind.UPDATE_BEFORE))
            yield block

    def changes(self) -> dict[str, int]:
        """The number of changes, by source table."""
        return {str(table): number for table, number in self._changes.items()}

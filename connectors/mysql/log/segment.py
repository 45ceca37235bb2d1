"""Segments: runs of complete transactions of which batches are made, and the queue that assembles batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from cdc.schema import TableId
from cdc.source import Limits, Split
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.positions import LogPosition

ANONYMOUS = ("", 0, 0)
"""Marks, among a segment's GTIDs, that it has transactions without one."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive complete transactions of the log.

    Attributes:
        file, position: where it ends; the next one begins there.
        bytes: log bytes in it.
        rows: estimated from event sizes; exact counts would need decoding, which planning does not do.
        tables: captured tables with rows in it.
        changed: captured tables whose definition changes at its beginning, before any of their rows.
        schemas: number of schema history entries valid at its end.
        gtids: transactions in it: (source id, first, last) of MySQL, or (domain, server, number) of MariaDB, and
            ANONYMOUS.
    """

    file: str
    position: int
    bytes: int = 0
    rows: int = 0
    tables: frozenset[TableId] = field(default_factory=frozenset)
    changed: frozenset[TableId] = field(default_factory=frozenset)
    schemas: int = 0
    gtids: tuple[Any, ...] = ()

    @property
    def relevant(self) -> bool:
        """Whether anything in it concerns captured tables."""
        return bool(self.tables or self.changed)

    def merge_with(self, later: Segment) -> Segment:
        """Merge with a later segment, which must not change a table with rows in this one."""
        return replace(
            later,
            bytes=self.bytes + later.bytes,
            rows=self.rows + later.rows,
            tables=self.tables | later.tables,
            changed=self.changed | later.changed,
            gtids=self.gtids + later.gtids,
        )


class SegmentQueue:
    """Segments read from the log that are not in a batch yet. Not thread-safe: the owner locks."""

    def __init__(self) -> None:
        self._waiting: deque[Segment] = deque()
        self.bytes = 0
        """Log bytes waiting."""
        self.transactions: int | None = 0
        """Transactions waiting; None once there was one without a GTID, or of MariaDB, whose runs have no counts."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, segment: Segment) -> None:
        """Add the next segment of the log. Segments without captured tables are merged into one of any length."""
        self.bytes += segment.bytes
        self._count(segment.gtids, 1)
        if self._waiting and not self._waiting[-1].relevant and not segment.relevant:
            segment = self._waiting.pop().merge_with(segment)
        self._waiting.append(segment)

    @property
    def relevant(self) -> bool:
        """Whether the queue has something that concerns captured tables."""
        return len(self._waiting) > 1 or any(segment.relevant for segment in self._waiting)

    def poll(self, limits: Limits | None) -> list[Segment]:
        """Remove and return the segments of the next batch; empty when none are waiting.

        A batch ends before a segment that changes a table with rows in the batch, so that every table has one schema in
        it; and before a segment that would exceed a limit, unless it is the first.
        """
        batch: list[Segment] = []
        tables: set[TableId] = set()
        size = rows = 0
        while self._waiting:
            segment = self._waiting[0]
            full = limits is not None and (
                size + segment.bytes > limits.max_bytes or rows + segment.rows > limits.max_rows
            )
            if batch and (full or not tables.isdisjoint(segment.changed)):
                break
            batch.append(self._waiting.popleft())
            self._count(segment.gtids, -1)
            tables |= segment.tables
            size += segment.bytes
            rows += segment.rows
        self.bytes -= size
        return batch

    def _count(self, gtids: Sequence[Any], sign: int) -> None:
        if self.transactions is None or any(gtid == ANONYMOUS or isinstance(gtid[0], int) for gtid in gtids):
            self.transactions = None
            return
        self.transactions += sign * sum(last - first + 1 for _, first, last in gtids)


def end_offset(start: MySqlOffset, batch: Sequence[Segment]) -> MySqlOffset:
    """Return the offset at the end of a batch that began at `start`. `gtids` stays None if unknown at the start."""
    last = batch[-1]
    done = gtids_after(start.gtids, batch)
    return replace(start, position=LogPosition(last.file, last.position), gtids=done, schemas=last.schemas)


def gtids_after(done: str | None, segments: Sequence[Segment]) -> str | None:
    """Return the GTID set or position after segments, given `done` before them.

    None when it was None before, or once there were transactions without a GTID: then no set describes what is
    committed.
    """
    gtids = [gtid for segment in segments for gtid in segment.gtids]
    if done is None or not gtids:
        return done
    if ANONYMOUS in gtids:
        return None
    mariadb = isinstance(gtids[0][0], int)
    return str(MariaDbGtid.parse(done).add_all(gtids) if mariadb else GtidSet.parse(done).add_all(gtids))


def cut_points(batch: Sequence[Segment], parts: int, least_bytes: int) -> list[Segment]:
    """Split a batch into at most `parts` parts of about the same size, none much below `least_bytes`.

    Returns the last segment of every part; the last one is the last of the batch.
    """
    total = sum(segment.bytes for segment in batch)
    parts = max(1, min(parts, total // least_bytes))
    goal, size = total / parts, 0
    ends: list[Segment] = []
    for segment in batch[:-1]:
        size += segment.bytes
        if size >= goal * (len(ends) + 1) and len(ends) < parts - 1:
            ends.append(segment)
    return [*ends, batch[-1]]


LEAST_SPLIT_BYTES = 4 << 20
"""Size below which a second task costs more than it saves."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Events after `start` up to `end`, a transaction end.

    Attributes:
        schemas: number of schema history entries that apply.
        server: whose positions these are (`ServerInfo.identity`); empty for files.
        after, upto: the GTIDs committed at the start and at the end: they name the same transactions on other servers.
        files_ahead: as in the offset.
    """

    start: LogPosition
    end: LogPosition
    schemas: int
    server: str = ""
    after: str | None = None
    upto: str | None = None
    files_ahead: int = 0


Cut = tuple[LogPosition, str | None]
"""Where a part of a batch begins or ends, and the GTIDs committed there."""


def cuts_of(planned: Sequence[Segment] | None, start: MySqlOffset, end: MySqlOffset, parallelism: int) -> list[Cut]:
    """Return where the first part of a batch begins, and the end of each part.

    `planned` are its segments; None if another process planned it, which makes it one part. Log without rows of
    captured tables before the first part is not read: its files may be purged by now. Returns nothing when nothing in
    the batch concerns captured tables, or when it only moves to another server or log.
    """
    if start.position == end.position or start.moved_to(end):
        return []
    if planned is None:
        return [(start.position, start.gtids), (end.position, end.gtids)]
    first = next((index for index, segment in enumerate(planned) if segment.tables), None)
    if first is None:
        return []
    done, begin = gtids_after(start.gtids, planned[:first]), start.position
    if first:
        begin = LogPosition(planned[first - 1].file, planned[first - 1].position)
    cuts = [(begin, done)]
    for cut in cut_points(planned[first:], parallelism, LEAST_SPLIT_BYTES):
        last = next(index for index in range(first, len(planned)) if planned[index] is cut)
        done, first = gtids_after(done, planned[first : last + 1]), last + 1
        cuts.append((LogPosition(cut.file, cut.position), done))
    return cuts


def splits_at(end: MySqlOffset, cuts: Sequence[Cut]) -> list[Split]:
    """Return the splits of a batch with these cuts, each with a LogRange."""
    return [
        Split(index, LogRange(low, high, end.schemas, end.server, after, upto, end.files_ahead))
        for index, ((low, after), (high, upto)) in enumerate(pairwise(cuts))
    ]


def splits_of(planned: Sequence[Segment] | None, start: MySqlOffset, end: MySqlOffset, parallelism: int) -> list[Split]:
    """Return the splits of a batch, divided by `cuts_of`."""
    return splits_at(end, cuts_of(planned, start, end, parallelism))

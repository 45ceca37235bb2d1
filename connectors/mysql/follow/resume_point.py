"""Finds the position in a server's log after the pipeline's committed transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc.errors import PositionLost, SourceUnavailable, UnsupportedChange
from cdc.schema import TableId
from connectors.mysql.follow.redefined import ChangedTables
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.event_bodies import Gtid, parse_gtid
from connectors.mysql.log.position_search import first_after, gtids_at, whole_log
from connectors.mysql.log.transaction_filter import TransactionFilter, begin_of, transaction_begins
from connectors.mysql.server.connection_errors import LOST_LOG_HINT
from connectors.mysql.server.gtid_range import GtidRange, Gtids, lacking
from connectors.mysql.server.positions import LogPosition, log_end
from connectors.mysql.server.server_info import ServerInfo

if TYPE_CHECKING:
    from connectors.mysql.log.stream import BinlogStream, OpenStream


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A position in a server's log with its GTIDs: everything before it, and nothing after it."""

    position: LogPosition
    gtids: str


def find_resume_point(
    info: ServerInfo,
    done: str,
    where: str,
    open_stream: OpenStream,
    open_after: Callable[[str], BinlogStream],
    captures: Callable[[TableId], bool],
) -> ResumePoint:
    """Find where the log continues after the transactions in `done`, all of which the server has.

    Transactions not in `done` may precede some in `done`, such as those made by an administrator on a replica. If none
    of them concerns a captured table, they count as done from here on; otherwise raises UnsupportedChange.
    """
    first = first_after(open_after(done), log_end(info))
    before = _with_purged(gtids_at(open_stream, first), info)
    _check_nothing_is_missing(done, before, first, where, mariadb=info.mariadb)
    late = GtidRange(before, done, mariadb=info.mariadb)
    if late.complete:
        return ResumePoint(first, done)
    position, mixed = _after_last(late, first, where, open_stream)
    concerned = _concerned(mixed, first, position, info, open_stream, captures)
    if concerned:
        raise UnsupportedChange(
            f"this server ({info.identity}) logged transactions on {', '.join(sorted(map(str, concerned)))} that the "
            f"pipeline has not read before ones that it has: {', '.join(map(str, mixed[:5]))}",
            where=where,
            hint="continue with a server that logs in the old order (replica_preserve_commit_order), or start over",
        )
    return ResumePoint(position, _with(done, mixed, mariadb=info.mariadb))


def _with_purged(before: str, info: ServerInfo) -> str:
    """Add purged transactions: a log restarted under another name does not list those of the old one."""
    return before if info.mariadb else str(GtidSet.parse(before).union(GtidSet.parse(info.purged)))


def _check_nothing_is_missing(done: str, before: str, at: LogPosition, where: str, *, mariadb: bool) -> None:
    """Raise PositionLost for transactions that count as done at a position but are not in the log before it."""
    missing: Gtids = (
        MariaDbGtid.parse(done).lacking(MariaDbGtid.parse(before)) if mariadb else lacking(done, before, mariadb=False)
    )
    if missing:
        reason = f"the transactions {missing}, which are before {at}, are in no file that the server has"
        raise PositionLost(reason, where=where, hint=LOST_LOG_HINT)


def _after_last(
    late: GtidRange, first: LogPosition, where: str, open_stream: OpenStream
) -> tuple[LogPosition, list[Gtid]]:
    """Return the end of the last transaction of `late`, and the other transactions from `first` up to it."""
    mixed: list[Gtid] = []
    end = first
    for buffer in whole_log(open_stream(first, True)):
        for index in transaction_begins(buffer):
            if late.complete:
                return begin_of(buffer, index), mixed
            gtid = parse_gtid(buffer, index)
            if not late.tick_off(gtid.source, gtid.number):
                mixed.append(gtid)
        end = LogPosition(buffer.file, int(buffer.end_position[-1]))
    if not late.complete:
        raise SourceUnavailable("the log ended before a transaction that the server has", where=where)
    return end, mixed


def _concerned(
    mixed: Sequence[Gtid],
    first: LogPosition,
    end: LogPosition,
    info: ServerInfo,
    open_stream: OpenStream,
    captures: Callable[[TableId], bool],
) -> set[TableId]:
    """Return captured tables that the transactions `mixed` between two positions write to or change."""
    from connectors.mysql.follow.segmenter import Segmenter

    chosen = frozenset(mixed)
    found: set[TableId] = set()
    accepted = TransactionFilter(lambda gtid: gtid in chosen)
    changes = ChangedTables(captures, (), info)
    segmenter = Segmenter(changes, captures, file=first.file, position=first.position)
    for buffer in whole_log(open_stream(first, True)):
        last = buffer.file == end.file
        for part in accepted.parts(buffer.until(end.position) if last else buffer):
            for segment in segmenter.feed(part):
                found |= segment.tables
        if last and int(buffer.end_position[-1]) > end.position:
            break
    return found | changes.tables


def _with(done: str, mixed: Sequence[Gtid], *, mariadb: bool) -> str:
    if not mariadb:
        return str(GtidSet.parse(done).add_all((gtid.source, gtid.number, gtid.number) for gtid in mixed))
    runs = ((*map(int, gtid.source.split("-")), gtid.number) for gtid in mixed)
    return str(MariaDbGtid.parse(done).add_all((domain, server, number) for domain, server, number in runs))

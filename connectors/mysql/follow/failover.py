"""Continues on another server: finds the position in its log after the pipeline's committed transactions.

Positions belong to one server. A batch is planned on one server, so a move is a batch of its own: it holds no rows, its
start has the old server's position and its end the new one's, with the same GTIDs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from cdc.errors import PositionLost, SourceUnavailable, UnsupportedChange
from cdc.schema import TableId
from connectors.mysql.follow.redefined import ChangedTables
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.event_bodies import Gtid, parse_gtid
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.places import first_after, gtids_at, whole_log
from connectors.mysql.log.sieve import Sieve, begin_of, transaction_begins
from connectors.mysql.server.connection_errors import LOST_LOG_HINT
from connectors.mysql.server.gtid_range import GtidRange, Gtids, lacking
from connectors.mysql.server.positions import LogPosition, check_gtid_position, file_number, log_end
from connectors.mysql.server.same_server import check_has_transactions, needed_gtids
from connectors.mysql.server.server_check import check_server
from connectors.mysql.server.server_info import ServerInfo, where_of

if TYPE_CHECKING:
    from connectors.mysql.follow.streams import Streams
    from connectors.mysql.log.stream import BinlogStream, OpenStream


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A position in a server's log with its GTIDs: everything before it, and nothing after it."""

    position: LogPosition
    gtids: str


def offset_on_new_server(start: MySqlOffset, streams: Streams, captures: Callable[[TableId], bool]) -> MySqlOffset:
    """Translate an offset of another server to the current server. Stream reader; repeatable.

    Raises:
        SourceUnavailable: the server lacks committed transactions; it may still receive them.
        AnotherServer: the server changed again meanwhile.
        PositionLost: it has purged transactions that are not committed by the pipeline.
        UnsupportedChange: in the order of its log, no position separates committed from other transactions.
        SourceError: there are no GTIDs to find the position by, or the server cannot be captured from.
    """
    with streams.session() as connection:
        info, where = check_server(connection, captures), where_of(connection)
        done = needed_gtids(start.gtids, where, old=start.server, new=info.identity)
        check_has_transactions(info, done, where, old=start.server)
        check_gtid_position(connection, info, done)
    open_stream = partial(streams.at, server=info.identity)
    place = find_resume_point(info, done, where, open_stream, partial(streams.after, server=info.identity), captures)
    ahead = start.files_ahead + file_number(start.position.file) + 1 - file_number(place.position.file)
    least = start.files_ahead + 1 if info.identity == start.server else 0  # a move is recognized by either field
    return replace(
        start, position=place.position, gtids=place.gtids, server=info.identity, files_ahead=max(ahead, least)
    )


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
    sieve = Sieve(lambda gtid: gtid in chosen)
    changes = ChangedTables(captures, (), info)
    segmenter = Segmenter(changes, captures, file=first.file, position=first.position)
    for buffer in whole_log(open_stream(first, True)):
        last = buffer.file == end.file
        for part in sieve.parts(buffer.until(end.position) if last else buffer):
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

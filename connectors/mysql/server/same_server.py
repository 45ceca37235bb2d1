"""Checks that an address still leads to the server of the known positions. Used on every connection that reads."""

from __future__ import annotations

from cdc.errors import PositionLost, SourceError, SourceUnavailable
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import LOST_LOG_HINT
from connectors.mysql.server.gtid_range import Gtids, lacking
from connectors.mysql.server.positions import LogPosition, check_file_position, list_logs
from connectors.mysql.server.server_info import ServerInfo, gtids_at, identity_of, where_of

_POINT = "point hostname and port at the old server or a replica of it, or start over with another --state-dir"


class AnotherServer(SourceError):
    """The address leads to another server than before.

    Always caught, by code that then finds the position to continue at.
    """


def check_same(connection: MySqlConnection, identity: str) -> None:
    """Raise AnotherServer when the server does not have that identity; an empty one matches any."""
    if not identity:
        return
    found = identity_of(connection)
    if found != identity:
        raise AnotherServer(
            f"this is another server ({found}) than the one read so far ({identity})", where=where_of(connection)
        )


def check_not_reset(connection: MySqlConnection, info: ServerInfo, done: str | None) -> None:
    """Raise PositionLost when the same server no longer knows transactions read from it.

    Its log was reset or truncated, so that a position in it now means something else.
    """
    if done is None:
        return
    if info.mariadb:
        mine, theirs = MariaDbGtid.parse(info.executed), MariaDbGtid.parse(done)
        domains = {domain for domain, _, _ in mine.domains}
        behind = mine.lacking(theirs).domains
        lost: Gtids = MariaDbGtid(tuple(entry for entry in behind if entry[0] in domains or not mine))
    else:
        lost = lacking(info.executed, done, mariadb=False)
    if lost:
        raise PositionLost(
            f"the server no longer knows the transactions {lost}, which were read from it: its log was reset, or it "
            "lost them in a crash",
            where=where_of(connection),
            hint=LOST_LOG_HINT,
        )


def check_same_log(connection: MySqlConnection, info: ServerInfo, at: LogPosition, done: str | None) -> None:
    """Raise PositionLost when the server's log does not continue at that position, where `done` is committed.

    Raises AnotherServer when the file is missing but nothing unread is lost with it: `log_bin` was renamed, or
    everything before was purged. GTIDs then determine where the log continues. Not for MariaDB, where a server is known
    only by a number, and the file alone distinguishes it from another one. Raises SourceError.
    """
    if info.mariadb or done is None:
        check_file_position(connection, info, at)
        return
    purged, read = GtidSet.parse(info.purged), GtidSet.parse(done)
    if read.contains(purged) and all(log.name != at.file for log in list_logs(connection)):
        raise AnotherServer(f"{at.file} is gone, and all of it was read", where=where_of(connection))
    check_file_position(connection, info, at)
    if gone := purged.newer_than(read):  # though older files are there
        raise PositionLost(
            f"the transactions {gone} were not read and are in no file that the server has: they were logged under "
            "another name (log_bin was changed and changed back), or counted as done (gtid_purged)",
            where=where_of(connection),
            hint=LOST_LOG_HINT,
        )


def check_same_history(
    connection: MySqlConnection, info: ServerInfo, file: str, position: int, done: str | None
) -> None:
    """Raise SourceError when a MariaDB server had other transactions at that position than were read there.

    MariaDB servers have no unique name, only a number, which is often left at 1, so another server looks like the same
    one. Raises SourceUnavailable when the server cannot answer.
    """
    if not info.mariadb or done is None:
        return
    there, read = MariaDbGtid.parse(gtids_at(connection, file, position)), MariaDbGtid.parse(done)
    numbers = {domain: (server, number) for domain, server, number in read.domains}
    other = [entry for entry in there.domains if numbers.get(entry[0], entry[1:]) != entry[1:]]
    if other:
        raise SourceError(
            f"at {file}:{position} the log of this server ({info.identity}) stands at {there}, the one that was read "
            f"stood at {read}: it is another server, or its log was reset",
            where=where_of(connection),
            hint=_POINT,
        )


def needed_gtids(done: str | None, where: str, *, old: str, new: str) -> str:
    """Return the GTIDs of an offset on the server `old`.

    Raises SourceError without any, as no position corresponds then.
    """
    if done is None:
        raise SourceError(
            f"this is the server {new}, the pipeline has read {old} so far, and without GTIDs its log has no place to "
            "go on at",
            where=where,
            hint=_POINT,
        )
    return done


def check_has_transactions(info: ServerInfo, done: str, where: str, *, old: str) -> None:
    """Raise SourceUnavailable when the server lacks transactions that the pipeline has read from `old`.

    Raises SourceError when it has none at all of the servers that wrote them: it cannot be a lagging replica.
    """
    lost = lacking(info.executed, done, mariadb=info.mariadb)
    if lost and not info.mariadb and info.executed:
        writers = {uuid for (uuid, _), _ in GtidSet.parse(done).sources}
        if writers.isdisjoint(uuid for (uuid, _), _ in GtidSet.parse(info.executed).sources):
            raise SourceError(
                f"this is the server {info.identity} with the transactions {info.executed}, the pipeline has read "
                f"{old} up to {done}: none of those are here, so it is not a replica of that one",
                where=where,
                hint=_POINT,
            )
    if lost:
        raise SourceUnavailable(
            f"this server ({info.identity}) lacks the transactions {lost}, which the pipeline has read already",
            where=where,
            hint="when it is a replica, let it catch up; when it took over without them, they are lost there and may "
            "be in the sink: start over with an empty --state-dir and empty sink tables",
        )

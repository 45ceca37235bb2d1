"""Whether an address still leads to the server whose positions are in hand. Asked on every connection that reads."""

from __future__ import annotations

from cdc.errors import PositionLost, SourceError, SourceUnavailable
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.gtid import MariaDbGtid
from connectors.mysql.server.gtid_range import Gtids, lacking
from connectors.mysql.server.server_info import ServerInfo, identity_of, where_of


class AnotherServer(SourceError):
    """The address leads to another server than before. Always caught: by what then looks for the place to go on."""


def check_same(connection: MySqlConnection, identity: str) -> None:
    """Raises AnotherServer when the server is not the one with that identity; an empty one is any."""
    if not identity:
        return
    found = identity_of(connection)
    if found != identity:
        raise AnotherServer(
            f"this is another server ({found}) than the one read so far ({identity})", where=where_of(connection)
        )


def check_not_reset(connection: MySqlConnection, info: ServerInfo, done: str | None) -> None:
    """Raises PositionLost when the same server no longer knows transactions that were read from it: its log was reset
    or cut off, and a position in it means something else now."""
    if done is None:
        return
    if info.mariadb:
        mine, theirs = MariaDbGtid.parse(info.executed), MariaDbGtid.parse(done)
        domains = {domain for domain, _, _ in mine.domains}
        behind = mine.behind(theirs).domains
        lost: Gtids = MariaDbGtid(tuple(entry for entry in behind if entry[0] in domains or not mine))
    else:
        lost = lacking(info.executed, done, mariadb=False)
    if lost:
        raise PositionLost(
            f"the server no longer knows the transactions {lost}, which were read from it: its log was reset, or it "
            "lost them in a crash",
            where=where_of(connection),
            hint="start the pipeline anew with an empty state directory and empty sink tables",
        )


def needed_gtids(done: str | None, where: str) -> str:
    """The GTIDs of an offset. Raises SourceError when it has none: then nothing says where another server stands."""
    if done is None:
        raise SourceError(
            "this is not the server that the pipeline has read so far, and without GTIDs its log has no place to go "
            "on at",
            where=where,
            hint="point the pipeline at the old server, or start anew with an empty --state-dir",
        )
    return done


def check_has(info: ServerInfo, done: str, where: str) -> None:
    """Raises SourceUnavailable when the server lacks transactions that the pipeline has read elsewhere."""
    lost = lacking(info.executed, done, mariadb=info.mariadb)
    if lost:
        raise SourceUnavailable(
            f"this server ({info.identity}) lacks the transactions {lost}, which the pipeline has read already",
            where=where,
            hint="when it is a replica, let it catch up; when it took over without them, they are lost there and may "
            "be in the sink: start anew with an empty --state-dir and empty sink tables",
        )

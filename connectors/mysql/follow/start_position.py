"""Finds where a new pipeline starts in the log. Stream reader process, once per pipeline."""

from __future__ import annotations

from cdc.errors import SourceError
from connectors.mysql.follow.streams import Streams
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.position_search import first_after, first_at, gtids_at
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import (
    LogPosition,
    check_file_position,
    check_gtid_position,
    earliest_position,
    log_end,
    position_at,
)
from connectors.mysql.server.server_info import ServerInfo, where_of


def find_start(
    options: MySqlSourceOptions, streams: Streams, connection: MySqlConnection, info: ServerInfo
) -> LogPosition:
    """Return the beginning of the first transaction selected by `scan.startup.mode`. Raises SourceError."""
    mode = options.startup_mode
    if mode == "earliest-offset":
        return earliest_position(connection)
    if mode == "timestamp":
        millis = options.timestamp_millis or 0
        return first_at(streams.at, position_at(streams.session, millis), millis)
    if mode == "specific-offset" and options.specific_offset_file is not None:
        position = LogPosition(options.specific_offset_file, options.specific_offset_pos or 4)
        check_file_position(connection, info, position)
        return position
    if mode == "specific-offset":
        done = options.specific_offset_gtid_set or ""
        check_gtid_position(connection, info, done)
        position = first_after(streams.after(done), log_end(info))
        _check_no_hole(connection, info, done, gtids_at(streams.at, position))
        return position
    return log_end(info)


def _check_no_hole(connection: MySqlConnection, info: ServerInfo, done: str, before: str) -> None:
    """Refuse a GTID set with holes: transactions after the first missing one would be repeated."""
    again: GtidSet | MariaDbGtid
    if info.mariadb:
        again = MariaDbGtid.parse(before).lacking(MariaDbGtid.parse(done))
    else:
        beyond = GtidSet.parse(done).minus(GtidSet.parse(before))
        again = beyond.minus(beyond.minus(GtidSet.parse(info.executed)))
    if again:
        raise SourceError(
            f"the GTID set has a hole: {again} lie after the first transaction it lacks and would be read again",
            where=where_of(connection),
            hint="give the set that was executed at one moment, as the server showed it",
        )

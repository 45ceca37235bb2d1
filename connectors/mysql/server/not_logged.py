"""Changes that a server carries out and does not write into its log: nothing in the log tells of them.

A replica, or a node of a Galera cluster, logs what it takes from others only with `log_replica_updates`, which MariaDB
has off. `binlog_do_db` and `binlog_ignore_db` leave databases out: their rows, and every statement of a session whose
default database is one of them (with `binlog_do_db` also of one without any), whatever tables it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cdc.errors import SourceError, first_of
from cdc.schema import TableId
from connectors.mysql.ddl.versions import by_transaction, declared_versions
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import table_ids
from connectors.mysql.server.server_info import ServerInfo, query
from connectors.mysql.table import FIX_GENERATED, FIX_TRANSACTION_IDS, MySqlTable

_WITHOUT_GENERATED = (11, 8, 0)
"""The first series of MariaDB in which this was seen (11.8.9); 11.4.5 logs them."""
_SOURCES = {
    False: ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"),  # the second before MySQL 8.0.22
    True: ("SHOW ALL SLAVES STATUS",),  # MariaDB, for accounts with REPLICA MONITOR
}
_STATES = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_running', 'wsrep_cluster_size')"


def not_logged_problems(
    connection: MySqlConnection, info: ServerInfo, captures: Callable[[TableId], bool] | None = None
) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do) for each reason why changes of captured tables do not get into the log.

    `captures`: whether a table is captured; without it databases are not looked at. Raises SourceError.
    """
    if not info.log_bin:
        return
    others = "" if info.logs_received else _unlogged_sources(connection, info)
    if others:
        name = "log_slave_updates" if info.mariadb else "log_replica_updates"
        fix = f"add {name}=ON under [mysqld] in its configuration file and restart it, or read from the other server"
        end = "RESET SLAVE ALL" if info.mariadb else "RESET REPLICA ALL"
        fix += f" (one that is no replica any more: run {end})" if others == "a replica" else ""
        yield f"the server is {others} and {name} is OFF: what it takes from others is not in its log", fix
    if captures is None or not info.filters_log:
        return
    names = [
        str(table) for table in table_ids(connection) if captures(table) and not info.logs_database(table.database)
    ]
    if names:
        fix = "change these settings in its configuration file and restart it, or leave the tables out (tables.exclude)"
        yield f"binlog_do_db or binlog_ignore_db keeps rows out of the log: those of {first_of(names)}", fix


def describe_filter(info: ServerInfo) -> str:
    """The consequence of a log filter for captured tables, in words; empty when the log leaves none of them out."""
    if not info.filters_log:
        return ""
    listed = f"binlog_do_db={','.join(sorted(info.do_db))}" if info.do_db else ""
    listed = listed or f"binlog_ignore_db={','.join(sorted(info.ignore_db))}"
    return (
        f"the server has {listed}: TRUNCATE, DROP and other schema changes by sessions in a database that is left out "
        "are not in its log, whatever table they name, and do not get into the sink"
    )


def badly_logged(info: ServerInfo, found: Mapping[TableId, MySqlTable]) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do) for tables whose changes MariaDB does not log as rows with all of their values."""
    if not info.mariadb:
        return
    if info.version_number >= _WITHOUT_GENERATED and (names := _names_of(found, _has_computed)):
        yield (
            f"{names} have generated columns, which this version of MariaDB leaves out of updated and deleted rows: "
            "the first such row stops the run",
            FIX_GENERATED,
        )
    if names := _names_of(found, by_transaction):
        yield (
            f"{names} are versioned by transaction ids, so MariaDB logs their changes as statements, whatever "
            "binlog_format is: all captured tables are re-snapshotted after each, or the run stops",
            FIX_TRANSACTION_IDS,
        )


def _names_of(found: Mapping[TableId, MySqlTable], concerned: Callable[[MySqlTable], bool]) -> str:
    return first_of([str(table) for table, definition in found.items() if concerned(definition)])


def _has_computed(table: MySqlTable) -> bool:
    """Whether it has computed columns; those of its versions are in every row."""
    versions = declared_versions(table)
    return any(column.generated and column not in versions for column in table.columns)


def _unlogged_sources(connection: MySqlConnection, info: ServerInfo) -> str:
    """The sources whose changes the server carries out without logging them; empty for none."""
    for statement in _SOURCES[info.mariadb]:
        try:
            if query(connection, statement):
                return "a replica"
            break
        except SourceError as error:
            if error.retryable:
                raise  # the connection is gone; other errors: a spelling this server lacks, or no privilege
    if not info.mariadb:
        return ""
    states = {str(name).lower(): str(value) for name, value in query(connection, _STATES)}
    if int(states.get("slaves_running") or 0) > 0:
        return "a replica"
    return "a node of a cluster" if int(states.get("wsrep_cluster_size") or 0) > 0 else ""

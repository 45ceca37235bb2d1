"""Changes that a server applies without writing them to its log.

A replica, or a node of a Galera cluster, logs changes received from others only with `log_replica_updates`, which is
off by default in MariaDB. `binlog_do_db` and `binlog_ignore_db` exclude databases: their rows, and every statement of a
session whose default database is one of them (with `binlog_do_db` also of one without any), whatever tables it names.
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
"""First series of MariaDB in which this was observed (11.8.9); 11.4.5 logs them."""
_SOURCES = {
    False: ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"),  # the second before MySQL 8.0.22
    True: ("SHOW ALL SLAVES STATUS",),  # MariaDB, for accounts with REPLICA MONITOR
}
_STATES = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_running', 'wsrep_cluster_size')"


def not_logged_problems(
    connection: MySqlConnection, info: ServerInfo, captures: Callable[[TableId], bool] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (problem, fix) for each reason why changes of captured tables are not logged.

    `captures`: whether a table is captured; without it databases are not checked. Raises SourceError.
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
    """Describe the consequence of a log filter for captured tables; empty without one."""
    if not info.filters_log:
        return ""
    listed = f"binlog_do_db={','.join(sorted(info.do_db))}" if info.do_db else ""
    listed = listed or f"binlog_ignore_db={','.join(sorted(info.ignore_db))}"
    return (
        f"the server has {listed}: TRUNCATE, DROP and other schema changes by sessions in a database that is left out "
        "are not in its log, whatever table they name, and do not get into the sink"
    )


def badly_logged(info: ServerInfo, found: Mapping[TableId, MySqlTable]) -> Iterator[tuple[str, str]]:
    """Yield (problem, fix) for tables whose changes MariaDB does not log as complete rows."""
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
    """Return whether it has computed columns, other than those of its versions, which are in every row."""
    versions = declared_versions(table)
    return any(column.generated and column not in versions for column in table.columns)


def _unlogged_sources(connection: MySqlConnection, info: ServerInfo) -> str:
    """Return what makes the server apply unlogged changes: "a replica" or "a node of a cluster"; empty for nothing."""
    for statement in _SOURCES[info.mariadb]:
        try:
            if query(connection, statement):
                return "a replica"
            break
        except SourceError as error:
            if error.retryable:
                raise  # the connection is lost; other errors: unknown statement, or no privilege
    if not info.mariadb:
        return ""
    states = {str(name).lower(): str(value) for name, value in query(connection, _STATES)}
    if int(states.get("slaves_running") or 0) > 0:
        return "a replica"
    return "a node of a cluster" if int(states.get("wsrep_cluster_size") or 0) > 0 else ""

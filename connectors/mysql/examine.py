"""`cdc doctor`: checks of everything a pipeline needs of a MySQL or MariaDB server. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from cdc.errors import SourceError, SourceUnavailable, first_of
from cdc.finding import Finding, Level, error, ok, warning
from cdc.schema import TableId
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.engines import to_innodb, without_transactions
from connectors.mysql.server.foreign_keys import examine_cascades
from connectors.mysql.server.information_schema import read_tables, table_ids
from connectors.mysql.server.not_logged import (
    badly_logged,
    describe_filter,
    not_logged_problems,
)
from connectors.mysql.server.positions import check_file_position, check_gtid_position, list_logs
from connectors.mysql.server.same_server import check_not_reset
from connectors.mysql.server.server_check import (
    check_replication_privilege,
    check_select,
    explain_no_tables,
    settings_problems,
)
from connectors.mysql.server.server_info import ServerInfo, query, server_info, server_settings
from connectors.mysql.table import MySqlTable

_SKEW_S = 2.0
_SHORT_S = 86_400
_WEEK = "SET {scope} binlog_expire_logs_seconds = 604800"


def examine(
    session: Callable[[], MySqlConnection], options: Callable[[], MySqlSourceOptions], committed: MySqlOffset | None
) -> Iterator[Finding]:
    """Yield all findings. `options` compare names as the server does; `committed` is the pipeline's position."""
    try:
        connection = session()
    except SourceError as failed:
        yield _failed("connection", failed)
        return
    try:
        settings = server_settings(connection)
        info, refused = _with_log(connection)
        yield from refused
        for subject, findings in (
            ("server settings", lambda: _settings(info or settings)),
            ("server settings", lambda: () if info is None else _left_out(connection, info, options().pattern.matches)),
            ("privileges", lambda: _privileges(connection, settings)),
            ("clock", lambda: [_clock(connection)]),
            ("binlog", lambda: _log(connection, info, committed) if info is not None and info.log_bin else ()),
            ("tables", lambda: _tables(connection, info or settings, options())),
        ):
            yield from _all_of(subject, findings)
    except SourceError as failed:
        yield _failed("server", failed)
    finally:
        connection.close()


def _all_of(subject: str, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of one check; an error of the server becomes a finding, so that the other checks still run."""
    try:
        yield from findings()
    except SourceError as failed:
        yield _failed(subject, failed)


def _with_log(connection: MySqlConnection) -> tuple[ServerInfo | None, Sequence[Finding]]:
    """Return the server info with its log position, or None and the reason why the account may not see it."""
    try:
        return server_info(connection), ()
    except SourceUnavailable:
        raise
    except SourceError as failed:
        return None, (_failed("privileges", failed),)


def _settings(info: ServerInfo) -> Iterator[Finding]:
    name = "MariaDB" if info.mariadb else "MySQL"
    yield ok("server", f"{name} {info.version}, {'with' if info.gtid else 'without'} GTIDs")
    for what, fix in settings_problems(info):
        yield error("server settings", what, _persisting(info, fix))
    if info.log_bin and not info.gtid:
        fix = "SET PERSIST gtid_mode step by step to ON: see the server's manual, Enabling GTID Transactions Online"
        yield warning("GTIDs", "without them a pipeline cannot continue on another server after a failover", fix)


def _left_out(connection: MySqlConnection, info: ServerInfo, captures: Callable[[TableId], bool]) -> Iterator[Finding]:
    """Check for databases and tables excluded from the log."""
    for what, fix in not_logged_problems(connection, info, captures):
        yield error("server settings", what, _persisting(info, fix))
    if filtered := describe_filter(info):
        fix = "make such statements in the database of their table, and run cdc verify after one that was not"
        yield warning("server settings", filtered, fix)


def _privileges(connection: MySqlConnection, info: ServerInfo) -> Iterator[Finding]:
    if info.log_bin:
        check_replication_privilege(connection, info)
        yield ok("privileges", "the account may read the binary log")


def _persisting(info: ServerInfo, fix: str) -> str:
    """Use SET PERSIST on MySQL, which keeps a setting over restarts."""
    return fix if info.mariadb else fix.replace("SET GLOBAL", "SET PERSIST")


def _clock(connection: MySqlConnection) -> Finding:
    before = time.time()
    theirs = float(query(connection, "SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
    apart = theirs - (before + time.time()) / 2
    if abs(apart) <= _SKEW_S:
        return ok("clock", f"{abs(apart):.1f} s apart")
    message = f"the server's clock is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} this machine's"
    return warning("clock", f"{message}: the lag in seconds is wrong by that much", "synchronize both with NTP")


def _log(connection: MySqlConnection, info: ServerInfo, committed: MySqlOffset | None) -> Iterator[Finding]:
    logs = list_logs(connection)
    size = sum(log.size for log in logs) / (1 << 30)
    kept_s = _retention_s(connection)
    message = f"{len(logs)} files of {size:.1f} GiB, kept for {'ever' if not kept_s else _hours(kept_s)}"
    if 0 < kept_s < _SHORT_S:
        fix = f"run on the server: {_WEEK.format(scope='GLOBAL' if info.mariadb else 'PERSIST')}"
        yield warning(
            "binlog retention", f"{message}: a pipeline that is stopped longer has to re-snapshot every table", fix
        )
    else:
        yield ok("binlog retention", message)
    if committed is None:
        return
    try:
        if committed.server == info.identity:
            check_file_position(connection, info, committed.position)
            check_not_reset(connection, info, committed.gtids)
        elif committed.gtids is None:
            yield error(
                "position",
                f"the pipeline read another server ({committed.server})",
                "point the pipeline at that server again",
            )
            return
        else:
            check_gtid_position(connection, info, committed.gtids)
    except SourceError as failed:
        yield _failed("position", failed)
    else:
        yield ok("position", f"the log is there from {committed.position} on, where the pipeline is")


def _retention_s(connection: MySqlConnection) -> int:
    """Retention in seconds; 0 means forever. Variables that the server lacks count as 0."""
    names = "'binlog_expire_logs_seconds', 'expire_logs_days'"
    rows = query(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    found = {str(name).lower(): float(value) for name, value in rows}
    return int(found.get("binlog_expire_logs_seconds", 0) or found.get("expire_logs_days", 0) * 86_400)


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:.0f} h" if seconds < 2 * _SHORT_S else f"{seconds / _SHORT_S:.0f} days"


def _tables(connection: MySqlConnection, info: ServerInfo, options: MySqlSourceOptions) -> Iterator[Finding]:
    found = read_tables(connection, options.pattern.matches)
    if not found:
        yield _failed("tables", explain_no_tables(table_ids(connection), options.pattern, connection))
        return
    try:
        check_select(connection, found)
        yield ok("tables", f"{len(found)} match and can be read")
    except SourceError as failed:
        yield _failed("tables", failed)
    yield from _keyless(found)
    for problem, fix in badly_logged(info, found):
        yield warning("tables", problem, fix)
    yield from _engines(connection, found)
    yield from examine_cascades(connection, info, found.keys(), options.cascades)


def _keyless(found: Mapping[TableId, MySqlTable]) -> Iterator[Finding]:
    names = [str(table) for table, definition in found.items() if not definition.primary_key]
    if names:
        message = f"{len(names)} without a primary key: {first_of(names)}"
        yield warning("keys", message, "add a primary key, or give one in a transform rule (primary-keys)")


def _engines(connection: MySqlConnection, found: Mapping[TableId, MySqlTable]) -> Iterator[Finding]:
    for table, engine in without_transactions(connection, found).items():
        fix = f"run on the server: {to_innodb(table)}"
        yield warning("engines", f"{table} is {engine}: it cannot be copied while it is written to", fix)


def _failed(subject: str, failed: SourceError) -> Finding:
    text = f"{failed.where}: {failed.message}" if failed.where else failed.message
    return Finding(Level.ERROR, subject, text, failed.hint)

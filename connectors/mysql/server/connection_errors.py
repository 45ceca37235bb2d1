"""Converts errors of the driver and the server to ours: what happened, whether it is retryable, the next step.

Server error numbers: MySQL "Server Error Message Reference", MariaDB "Error Codes"; 2000 to 2999 are the client's.
"""

from __future__ import annotations

import re
import socket
import ssl

import pymysql

from cdc.errors import CorruptLog, PositionLost, SourceError, SourceUnavailable
from connectors.shared.login.mysql import MALFORMED, LoginTimeout, NotMySql, UnsafeLogin
from connectors.shared.servers.tls import is_tls_refusal, tls_hint, tls_reason

GRANT = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}"

LOST_LOG_HINT = (
    "set scan.on-purged: resnapshot, which re-snapshots every table into a shadow table; or start the pipeline "
    "over with an empty state directory and empty sink tables"
)
"""Hint for a gap in the log."""

GONE = frozenset({
    0, 2003, 2006, 2013, 2055, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1317, 1927, 1928, 3169, 4031,
})  # fmt: skip
"""0 is a session that PyMySQL has closed after such an error."""
BUSY = {
    1040: "the server has no connection left",
    1135: "the server has no thread left",
    1203: "the user has too many connections",
    1226: "the user exceeded a resource limit of its account",
    1205: "a lock was not released in time",
    1213: "the server chose this session to end a deadlock",
    3032: "the server is closed to its users (offline_mode)",
}
_NO_TABLESPACE = 1814
_REFUSED = {
    1045: (
        "access denied",
        "check source.username and source.password, from which hosts the account may connect, and whether it requires "
        "TLS or a client certificate (SHOW CREATE USER)",
    ),
    1698: ("access denied", "the account authenticates by another plugin than a password; give the pipeline its own"),
    1130: ("this host may not connect to the server", "create the account for this host: CREATE USER 'user'@'%' ..."),
    1129: ("the server blocks this host after many failed connections", "run FLUSH HOSTS on it"),
    1251: ("the server asks for an authentication method that this client lacks", "use caching_sha2_password"),
    2059: ("the server asks for an authentication method that this client lacks", "use caching_sha2_password"),
    1862: ("the password has expired", "set a new one on the server"),
    1820: ("the password has expired", "set a new one on the server"),
    3118: ("the account is locked", "run ALTER USER ... ACCOUNT UNLOCK"),
    3955: ("the account is blocked after failed logins", "run ALTER USER ... ACCOUNT UNLOCK"),
    4151: ("the account is locked", "run ALTER USER ... ACCOUNT UNLOCK"),
    2026: ("the server does not offer TLS", "give the server a certificate; tls.mode: preferred goes without TLS"),
    3159: ("the server accepts secure connections only", "set tls.mode: required"),
    1049: ("the database does not exist", ""),
}
_PRIVILEGE = frozenset({1044, 1142, 1143, 1227, 1370, 1403, 1410})
_NO_TABLE = frozenset({1049, 1146})
_UNREADABLE = frozenset(
    {1016, 1017, 1030, 1031, 1033, 1034, 1035, 1105, 1168, 1194, 1195, 1286, 1296, 1429, 1430, 1431, 1432, 1707, 1932}
)
"""Errors of a table that cannot be opened or read: its files, its engine, its underlying tables or its other server."""
_DENIED = 1045
_DUMP_FAILED = 1236
_PURGED = re.compile(
    r"purged|could not find (?:first log|gtid state)|is not in the (?:master|source)'s binlog|> file size"
    r"|impossible position|more gtids than|not present in",
    re.IGNORECASE,
)
_PASSING = re.compile(r"could not find next log|could not open log|memory allocation failed", re.IGNORECASE)
"""What opening the log again settles: a reset or purged file is then known as that."""
_DAMAGED = re.compile(r"crc|checksum|bogus data|corrupt|truncated|binlog file header|error reading", re.IGNORECASE)


def as_source_error(error: Exception, where: str, *, logged_in: bool = False) -> SourceError:
    """Convert an error of PyMySQL or the operating system; `where` is `user@host:port`. Contains no secret.

    `logged_in`: the session was already open, so "access denied" (1045) concerns a privilege, as in responses to
    replication commands, not the password.
    """
    if isinstance(error, SourceError):
        return error
    if isinstance(error, UnsafeLogin | NotMySql | LoginTimeout):
        return _login_error(error, where)
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, Exception):
        return _network_error(cause, where)
    code, text = _code_and_text(error)
    if code is None:
        return _network_error(error, where)
    return _privilege_error(text, where) if logged_in and code == _DENIED else _server_error(code, text, where)


def _login_error(error: UnsafeLogin | NotMySql | LoginTimeout, where: str) -> SourceError:
    if isinstance(error, UnsafeLogin):
        hint = (
            "the password was not sent; use tls.mode: verify-identity, with tls.ca when the certificate is your own; "
            "where nobody can come between, allow-public-key-retrieval: true lets it be encrypted with a key of the "
            "server's own"
        )
        return SourceError(str(error), where=where, hint=hint)
    if isinstance(error, NotMySql):
        hint = "check source.hostname and source.port: another program may listen there"
        return SourceError(f"this is not a MySQL or MariaDB server: {error}", where=where, hint=hint)
    hint = "check source.hostname, source.port and firewalls, and whether it is MySQL that listens there"
    return SourceUnavailable(str(error), where=where, hint=f"{hint}; connect.timeout says how long to wait")


def is_gone(error: SourceError) -> bool:
    """Return whether the server reported a missing database or table; DROP and CREATE are not one step."""
    return _code(error) in _NO_TABLE


def lacks_privilege(error: SourceError) -> bool:
    """Return whether the server refused a statement because the account lacks a privilege."""
    return _code(error) in _PRIVILEGE


def lacks_tablespace(error: SourceError) -> bool:
    """Return whether the server reported a missing file for a table's rows: other tables are still readable."""
    return _code(error) == _NO_TABLESPACE


def is_about_table(error: SourceError) -> bool:
    """Return whether the server could not open or read an existing table, for a reason that lies in the table."""
    return _code(error) in _UNREADABLE


def _code(error: SourceError) -> int | None:
    """Return the server's code behind an error of ours; None without one."""
    return _code_and_text(error.__cause__)[0] if isinstance(error.__cause__, Exception) else None


def _code_and_text(error: Exception) -> tuple[int | None, str]:
    if isinstance(error, pymysql.err.MySQLError) and len(error.args) > 1 and isinstance(error.args[0], int):
        return error.args[0], str(error.args[1])
    return None, str(error)


def _server_error(code: int, text: str, where: str) -> SourceError:
    if code == _DUMP_FAILED:
        return _dump_error(text, where)
    if code == MALFORMED:
        return _login_error(NotMySql(text), where)
    if code in GONE:
        return SourceUnavailable(f"the connection was lost: {text}", where=where, hint="is the server running?")
    if code in BUSY:
        return SourceUnavailable(f"{BUSY[code]}: {text}", where=where)
    if code == _NO_TABLESPACE:
        message = "a table's tablespace is discarded, and the new one not imported yet"
        hint = "run ALTER TABLE ... IMPORT TABLESPACE, or exclude the table with tables.exclude"
        return SourceUnavailable(f"{message}: {text}", where=where, hint=hint)
    if code in _PRIVILEGE:
        return _privilege_error(text, where)
    if code in _REFUSED:
        message, hint = _REFUSED[code]
        return SourceError(f"{message}: {text}", where=where, hint=hint)
    return SourceError(f"the server answered with error {code}: {text}", where=where)


def _privilege_error(text: str, where: str) -> SourceError:
    hint = f"run on the server: {GRANT.format(user=account(where))}"
    return SourceError(f"the account lacks a privilege: {text}", where=where, hint=hint)


_GTID_MODE = re.compile(r"Cannot replicate .*transaction.* when @@GLOBAL\.GTID_MODE = (ON|OFF)", re.IGNORECASE)
_RESET = (
    "if its log was reset since (RESET BINARY LOGS) or it is another server than before, no event begins there: "
    "start over with another --state-dir"
)

_NEVER_SENT = (
    "an event that is larger than that (an update has its row before and after) is sent to nobody: where it has that "
    "value, start over with another --state-dir"
)


def _dump_error(text: str, where: str) -> SourceError:
    """Convert error 1236, which stands for any end of a binlog dump; only its English text has the reason."""
    if "same server_uuid/server_id" in text or "same server_id" in text:
        hint = "set source.server-id to ids that no other replica or pipeline uses"
        return SourceError(f"another client reads the log under the same server id: {text}", where=where, hint=hint)
    if _PURGED.search(text):
        hint = f"{LOST_LOG_HINT}; keep binary logs longer on the server"
        return PositionLost(f"the log no longer has the needed events: {text}", where=where, hint=hint)
    if found := _GTID_MODE.search(text):
        mode = f"{found[1].upper()}_PERMISSIVE"
        hint = f"run on the server: SET GLOBAL gtid_mode = {mode}; start again, and take it back once that is read"
        return SourceError(
            f"the log has transactions from before gtid_mode was changed: {text}", where=where, hint=hint
        )
    if "max_allowed_packet" in text:
        hint = f"run on the server: SET GLOBAL max_allowed_packet = 1073741824; {_NEVER_SENT}; {_RESET}"
        return SourceError(f"an event is larger than the server may send: {text}", where=where, hint=hint)
    if _DAMAGED.search(text):
        hint = f"look at the log with mysqlbinlog --verify-binlog-checksum; {_RESET}"
        return CorruptLog(f"the server cannot read its own binary log: {text}", where=where, hint=hint)
    kind = SourceUnavailable if _PASSING.search(text) else SourceError
    hint = "see the server's error log, then start again"
    return kind(f"the server ended the binlog dump: {text}", where=where, hint=hint)


def _network_error(error: Exception, where: str) -> SourceError:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = (
            "name the authority that signed it in tls.ca; tls.mode verify-identity also wants source.hostname in the "
            "certificate, verify-ca does not, and required verifies nothing"
        )
        message = f"the server's certificate is not accepted: {error.verify_message}"
        return SourceError(message, where=where, hint=tls_hint(error, hint))
    if is_tls_refusal(error):
        hint = "the server may ask for a client certificate (tls.cert, tls.key) or offer only old TLS versions"
        return SourceError(f"TLS failed: {tls_reason(error)}", where=where, hint=hint)
    if isinstance(error, UnicodeError):
        return SourceError(f"this is not a host name: {error}", where=where, hint="check source.hostname")
    if isinstance(error, socket.gaierror):
        return SourceUnavailable(
            f"the host name is not known: {error.strerror}", where=where, hint="check source.hostname"
        )
    if isinstance(error, TimeoutError):
        return SourceUnavailable(
            "no answer in time", where=where, hint="check source.hostname, source.port and firewalls"
        )
    if isinstance(error, OSError):
        hint = "is the server running there, and is source.port right?"
        return SourceUnavailable(f"no connection: {error.strerror or error}", where=where, hint=hint)
    hint = "check that a MySQL or MariaDB server listens at source.hostname and source.port"
    return SourceError(f"the server cannot be used: {error}", where=where, hint=hint)


def account(where: str) -> str:
    """Return `'user'@'%'` for a statement to copy, from `user@host:port`."""
    return "'" + where.rpartition("@")[0].replace("'", "''") + "'@'%'"

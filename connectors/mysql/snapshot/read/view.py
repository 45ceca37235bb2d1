"""Opens a consistent view of one table, and determines its position in the log: without a lock, in a millisecond.

Everything in the log before `low` is in the view, nothing after `high` is; changes in between may be in it or not. The
end of the log that a server reports includes transactions that are written but not committed yet, so `low` is
determined as follows:

- MySQL with GTIDs: `low` is the end of the log once every transaction that had a GTID then and was not committed
(gtid_owned) is committed (gtid_executed). A transaction gets its GTID before it is written to the log and releases it
after it is committed. On a replica applying a long transaction that would take long; then `low` is a GTID set.
- MySQL without GTIDs: `low` is an end of the log noted a while ago (`margin_s`); no commit takes that long.
- MariaDB reports the log position of a view (binlog_snapshot_position), so `low` equals `high`.
- XA transactions are in the log from their prepare on: none may be prepared and unfinished.

The table's metadata lock, which every SELECT holds until its transaction ends, protects the definition. That definition
is compared with the expected one, and a statement between `low` and `high` that names the table makes the view
unusable.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cdc.errors import SourceError, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from connectors.mysql.gtid import GtidSet
from connectors.mysql.server.connection import RETRY
from connectors.mysql.server.connection_errors import is_gone
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import clock_s, query, where_of
from connectors.mysql.snapshot.read.session import ChunkSessions
from connectors.mysql.table import MySqlTable, difference
from connectors.shared.sql.text import quoted

_COMMIT_S: Final = 1.0
_COMMIT_PAUSE_S: Final = 0.01
_XA_S: Final = 60.0
_NOTE_OLD_S: Final = 30.0
"""Age in seconds beyond which a noted end of the log is not used, as it would make the window long."""
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG: Final = re.compile(r":([a-z_][a-z0-9_]*)")
_OWNED: Final = re.compile(r":(\d+)#")


class TableAltered(Exception):
    """The table differs from its schema history: the log before or after `position` contains the change."""

    def __init__(self, reason: str, position: LogPosition) -> None:
        super().__init__(reason)
        self.position = position


@dataclass(frozen=True, slots=True)
class View:
    """A transaction of `ChunkSessions.reader` that shows a table at one moment.

    Attributes:
        low: everything before it is in the view; None when `gtids` is used instead.
        high: nothing after it is in the view.
        gtids: transactions that are in the view; None for MariaDB, and on servers without GTIDs.
        opened_ms: time of opening, milliseconds since the epoch.
        versioned: the table keeps old row versions (MariaDB), which are in the log, too.
    """

    low: LogPosition | None
    high: LogPosition
    gtids: str | None
    opened_ms: int
    versioned: bool


def open_view(
    sessions: ChunkSessions,
    table: MySqlTable,
    *,
    note: Mapping[str, Any],
    margin_s: float,
    clock: Callable[[], float] = time.time,
    retry: RetryPolicy = RETRY,
    is_old: Callable[[LogPosition], bool] = lambda at: False,
) -> View:
    """Open a view in the reader session; releases the previous one. Executor.

    Args:
        table: its definition in the schema history.
        note: an earlier end of the log, `file`, `position` and `at_s`; or empty.
        margin_s: minimum age of a noted end of the log, without GTIDs.
        is_old: whether a position lies before what was read of the log.

    Raises:
        TableAltered: the table is deleted or has another definition.
        SourceUnavailable: blocked by a lock or a prepared transaction, or the connection is lost; retryable.
        SourceError: the table's engine has no views.
    """
    sessions.end_view()
    versioned = sessions.check_engine(table.id)
    low, gtids = _low(sessions, note, margin_s, retry)
    old = not sessions.info.mariadb and sessions.info.version_number < (5, 6, 5)
    query(sessions.reader, f"START TRANSACTION WITH CONSISTENT SNAPSHOT{'' if old else ', READ ONLY'}")
    opened_ms = int(clock() * 1000)
    if sessions.info.mariadb:
        low = high = past_checkpoints(_snapshot_position(sessions), sessions.events_from, is_old)
    else:
        high = sessions.end_of_log()
    _lock(sessions, table)
    return View(low, high, gtids, opened_ms, versioned)


def _low(
    sessions: ChunkSessions, note: Mapping[str, Any], margin_s: float, retry: RetryPolicy
) -> tuple[LogPosition | None, str | None]:
    """Return the position and the transactions contained in every view opened from now on; MariaDB needs neither."""
    pauses = Backoff(replace(retry, timeout_s=min(_XA_S, retry.timeout_s)), "opening a view")
    waiting = True
    while waiting:
        low, gtids = None, None
        if not sessions.info.mariadb and sessions.info.gtid:
            low, gtids = _committed(sessions, retry)
        elif not sessions.info.mariadb:
            low = log_end_before(sessions, note, margin_s, retry)
        if not sessions.prepared():
            return low, gtids
        waiting = pauses.pause("an XA transaction is prepared and not ended")
    raise SourceUnavailable(
        "an XA transaction is prepared but not ended, and its rows are already in the log",
        where=where_of(sessions.side),
        hint="see XA RECOVER; end it with XA COMMIT or XA ROLLBACK",
    )


def _committed(sessions: ChunkSessions, retry: RetryPolicy) -> tuple[LogPosition | None, str]:
    """Return the end of the log and the committed transactions, once all transactions before that end are committed."""
    end = sessions.end_of_log()
    underway = parse_owned_gtids(sessions.gtids_underway())
    pause_s = _COMMIT_PAUSE_S
    pauses = Backoff(replace(retry, timeout_s=_COMMIT_S, first_pause_s=pause_s, longest_pause_s=pause_s), "commits")
    while True:
        done = sessions.executed_gtids()
        if GtidSet.parse(done).contains(underway):
            return end, done
        if not pauses.pause("transactions are being committed"):
            return None, sessions.executed_gtids()


def parse_owned_gtids(text: str) -> GtidSet:
    """Parse @@GLOBAL.gtid_owned: `uuid[:tag]:number#thread:...`, the next source without a separator.

    Format: MySQL `sql/rpl_gtid.h`, Owned_gtids::to_string.
    """
    found = GtidSet()
    starts = [match.span() for match in _UUID.finditer(text)]
    ends = [*(start for start, _ in starts[1:]), len(text)][: len(starts)]
    for (start, behind), end in zip(starts, ends, strict=True):
        tag = _TAG.match(text, behind, end)
        source = text[start:behind] + (f":{tag[1]}" if tag else "")
        numbers = [int(number) for number in _OWNED.findall(text, behind, end)]
        found = found.add_all([(source, number, number) for number in numbers])
    return found


def log_end_before(
    sessions: ChunkSessions, note: Mapping[str, Any], margin_s: float, retry: RetryPolicy
) -> LogPosition:
    """Return an end of the log from at least `margin_s` ago."""
    # By the server's clock: this machine's may differ from that of the planner. Both times are cut to seconds.
    age_s = clock_s(sessions.side) - note["at_s"] - 1 if "at_s" in note else -1
    if margin_s <= age_s <= _NOTE_OLD_S:
        return LogPosition(note["file"], note["position"])
    end = sessions.end_of_log()
    if not retry.wait(margin_s):
        raise SourceUnavailable("the run is asked to stop", where=where_of(sessions.side))
    return end


def _snapshot_position(sessions: ChunkSessions) -> LogPosition:
    rows = query(sessions.reader, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    found = {str(name).lower(): str(value) for name, value in rows}
    file, position = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "0")
    if not file:
        raise SourceError(
            "the server does not report the log position of a view (binlog_snapshot_position)",
            where=where_of(sessions.reader),
            hint="is log_bin on?",
        )
    return LogPosition(file, int(position))


def past_checkpoints(
    at: LogPosition,
    events_from: Callable[[LogPosition], Sequence[tuple[str, int]]],
    is_old: Callable[[LogPosition], bool],
) -> LogPosition:
    """Move the position of a MariaDB view forward over log checkpoints, only as far as needed for it not to be old.

    The server writes checkpoints of its log concurrently with commits. If one came just before a commit was noted,
    views are positioned before it until the next commit. `events_from` returns the types and end positions of the next
    few events.
    """
    for kind, end in events_from(at) if is_old(at) else ():
        if kind != "Binlog_checkpoint":
            break
        at = LogPosition(at.file, end)
        if not is_old(at):
            break
    return at


def _lock(sessions: ChunkSessions, table: MySqlTable) -> None:
    """Take the table's metadata lock, then compare its definition in the session that sees the current one."""
    try:
        query(sessions.reader, f"SELECT 1 FROM {quoted(table.id.database, table.id.table)} LIMIT 0")
    except SourceError as error:
        if error.retryable or not is_gone(error):
            raise
        raise TableAltered("the table is gone", sessions.end_of_log()) from error
    reason = difference(table, sessions.definition(table.id))
    if reason:
        raise TableAltered(reason, sessions.end_of_log())

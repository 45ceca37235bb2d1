"""Reports the progress of snapshots: progress bars, log lines, and `snapshot.json` for other tools. Driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.source import TableProgress
from cdc.state.store import Store

FILE_NAME = "snapshot.json"
MOST_BARS = 8
"""The most tables that get a progress bar; the others are only counted."""

_BAR = 20
_WRITE_S = 1.0
_LOG_S = 10.0
_NAME = 32


class SnapshotMonitor:
    """Polls the source for the progress of snapshots and reports changes.

    Args:
        read: the source's `progress`.
        store: the store of the state directory.
        say: writes a log line with fields.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[TableProgress]],
        store: Store,
        say: Callable[..., None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read, self._store, self._say, self._clock = read, store, say, clock
        self._tables: Sequence[TableProgress] = ()
        self._states: dict[TableId, str] = {}
        self._finished: set[TableId] = set()
        self._read_s = self._written_s = 0.0
        read()  # starts the clock of tables whose snapshot ends before the first update

    def update(self, *, last: bool = False) -> None:
        """Poll the source if a second has passed since the last poll, or if this is the last one."""
        now = self._clock()
        if not last and 0 <= now - self._read_s < _WRITE_S:  # the clock may be set back
            return
        before, self._read_s = self._tables, now
        self._tables = tuple(self._read())
        self._report_finished()
        if not self._tables or self._tables == before:
            return
        with suppress(StateError):  # for information only; the status document tells of a full disk
            self._store.write_json_later(FILE_NAME, snapshot_json(self._tables, now), indent=1)
        if not 0 <= now - self._written_s < _LOG_S and self._in_flight():
            self._written_s = now
            for table in self._in_flight()[:MOST_BARS]:
                self._say("copying", **{key: value for key, value in _fields(table).items() if value is not None})

    @property
    def tables(self) -> Sequence[TableProgress]:
        """The progress of each table, as of the last poll."""
        return self._tables

    def re_snapshots(self) -> list[str]:
        """One line per table whose re-snapshot runs or ended in this run: progress and reason. For the summary."""
        lines = []
        for table in self._tables:
            if table.why and (table.state != "done" or table.table in self._finished):
                how_far = "re-snapshotted" if table.state == "done" else "is being re-snapshotted"
                lines.append(f"{table.table}: {how_far}, {table.rows:,} rows: {table.why}")
        return lines

    def bars(self) -> list[str]:
        """One progress bar per table in flight; empty if there is none."""
        flight = self._in_flight()
        waiting = sum(table.state == "waiting" for table in self._tables)
        lines = [bar(table) for table in flight[:MOST_BARS]]
        more = [f"{len(flight) - MOST_BARS} more in flight"] if len(flight) > MOST_BARS else []
        more += [f"{waiting} tables wait to be copied"] if waiting and flight else []
        return [*lines, ", ".join(more)] if more else lines

    def _in_flight(self) -> list[TableProgress]:
        return [table for table in self._tables if table.state == "copying"]

    def _report_finished(self) -> None:
        """Log the tables whose snapshot is done, and those whose re-snapshot begins."""
        for table in self._tables:
            before = self._states.get(table.table)
            if table.why and table.state != "done" and before in (None, "done"):
                self._say("is re-snapshotted", table=str(table.table), why=table.why)
            if table.state == "done" and before is not None and before != "done":
                self._finished.add(table.table)
                seconds = round(table.updated_s - table.started_s, 1)
                self._say("copied", table=str(table.table), rows=table.rows, chunks=table.chunks, seconds=seconds)
            self._states[table.table] = table.state


def snapshots_in_progress(store: Store) -> list[str]:
    """One line per snapshot in progress, of a running or ended run: progress and reason. For `cdc plan`.

    Raises StateError.
    """
    noted = store.read_json(FILE_NAME) or {}
    lines = []
    for name, fields in noted.get("tables", {}).items():
        if fields["state"] != "done":
            why = f": {fields['why']}" if fields.get("why") else ""
            verb = "is re-snapshotted" if why else "is copied"
            lines.append(f"{name} {verb}, {fields['rows']:,} of {fields['estimated_rows']:,} rows{why}")
    return lines


def bar(table: TableProgress) -> str:
    """`shop.orders [#####...............]  25 %  250,000 of 1,000,000 rows, 90,000 rows/s, 8 s left, chunk 3 of 10`."""
    share = min(1.0, table.rows / table.estimated_rows) if table.estimated_rows else 0.0
    filled = int(share * _BAR)
    eta = "" if table.eta_s is None else f", {duration(table.eta_s)} left"
    return (
        f"{str(table.table)[-_NAME:]:{_NAME}} [{'#' * filled}{'.' * (_BAR - filled)}] {share:4.0%}  "
        f"{table.rows:,} of {table.estimated_rows:,} rows, {table.rows_per_s:,.0f} rows/s{eta}, "
        f"chunk {table.chunks} of {table.planned_chunks}"
    )


def duration(seconds: float) -> str:
    """`8 s`, `3 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def snapshot_json(tables: Sequence[TableProgress], now: float) -> dict[str, Any]:
    """The content of `snapshot.json`: when it was written (seconds since 1970), and the figures of each table."""
    return {"at_s": round(now, 3), "tables": {str(table.table): _fields(table, name=False) for table in tables}}


def _fields(table: TableProgress, *, name: bool = True) -> dict[str, Any]:
    return {
        **({"table": str(table.table)} if name else {"state": table.state}),
        "rows": table.rows,
        "estimated_rows": table.estimated_rows,
        "rows_per_s": round(table.rows_per_s),
        "eta_s": None if table.eta_s is None else round(table.eta_s),
        "chunks": table.chunks,
        "planned_chunks": table.planned_chunks,
        **({"why": table.why} if table.why else {}),
    }

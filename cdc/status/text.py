"""Formats a status document for people: `cdc status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from cdc.status.file import LiveStatus
from cdc.status.model import PHASES, StatusDocument, TableStatus

_SHOWN = 5
"""Number of the last errors, schema changes and notices to show."""


def status_text(seen: LiveStatus) -> Iterator[str]:
    """Yield the lines, without line ends."""
    status = seen.status
    yield f"{status.name}: {status.source} -> {status.sink}, {seen.state}{_since(seen)}"
    yield f"  lag         {lag_text(status)}"
    yield f"  rows        {status.totals.rows:,} in {status.batches_total:,} batches{_rates(status)}"
    changes = status.totals
    yield f"              {changes.inserts:,} inserts, {changes.updates:,} updates, {changes.deletes:,} deletes"
    yield f"  schema      {status.schema.behavior}: {_schema(status)}"
    if status.phases:
        yield f"  seconds in  {phases_text(status.phases)}"
    if status.dead_letters:
        yield f"  dead letters  {status.dead_letters:,}"
    yield f"  starts      {status.runs:,}, of them {status.restarts:,} after a failure"
    if status.position is not None:
        yield f"  position    {', '.join(f'{name} {value}' for name, value in status.position.items())}"
    if status.paused:
        yield f"  paused      {', '.join(status.paused)}"
    if status.resumed:
        yield f"  resumed     {', '.join(status.resumed)}: not re-snapshotted yet"
    if status.note:
        yield f"  waits       {status.note}"
    yield from _tables(status.tables)
    for reason, number in sorted(status.counts.items()):
        yield f"  counted     {reason}: {number:,}"
    for change in status.schema_changes[-_SHOWN:]:
        yield f"  {moment(change.at_s)}  schema change {change.outcome}: {change.table}: {change.change}"
    for notice in status.notices[-_SHOWN:]:
        yield f"  {moment(notice.at_s)}  {notice.text}"
    for error in status.errors[-_SHOWN:]:
        where, hint = f"{error.where}: " if error.where else "", f" ({error.hint})" if error.hint else ""
        yield f"  {moment(error.at_s)}  {error.kind}: {where}{error.message}{hint}"


def lag_text(status: StatusDocument) -> str:
    """Format the lag: `0.3 s, 1.2 MB, 17 transactions behind`; omits unknown parts."""
    lag = status.lag
    parts = [] if lag.seconds is None else [f"{lag.seconds:,.1f} s"]
    parts += [] if lag.bytes is None else [size_text(lag.bytes)]
    parts += [] if lag.transactions is None else [f"{lag.transactions:,} transactions"]
    return f"{', '.join(parts)} behind" if parts else "not known yet"


def size_text(size: int) -> str:
    """Format a size: `0 B`, `512 kB`, `1.5 GB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} B"


def phases_text(phases: dict[str, float]) -> str:
    """Format phases, in the order of PHASES: `read 1.20, decode 0.31`."""
    return ", ".join(f"{name} {phases[name]:,.2f}" for name in PHASES if name in phases)


def moment(at_s: float) -> str:
    """Format a time: `2026-01-31 12:00:00Z`."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _since(seen: LiveStatus) -> str:
    status = seen.status
    if seen.alive:
        return f" since {moment(status.started_s)} (process {status.pid} on {status.host})"
    return f" at {moment(status.updated_s)}"


def _rates(status: StatusDocument) -> str:
    return f", reads {status.read_per_s:,.0f} and writes {status.written_per_s:,.0f} rows/s"


def _schema(status: StatusDocument) -> str:
    schema = status.schema
    return (
        f"{schema.applied:,} applied, {schema.held_back:,} held back, {schema.refused:,} refused, "
        f"{schema.failed:,} failed"
    )


def _tables(tables: Sequence[TableStatus]) -> Iterator[str]:
    if not tables:
        return
    width = max(len("table"), *(len(table.table) for table in tables))
    yield f"  {'table':{width}}  {'read':>12}  {'inserts':>12}  {'updates':>12}  {'deletes':>12}  copy"
    for table in tables:
        written = table.written
        yield (
            f"  {table.table:{width}}  {table.read:>12,}  {written.inserts:>12,}  {written.updates:>12,}  "
            f"{written.deletes:>12,}  {copy_text(table)}"
        ).rstrip()


def copy_text(table: TableStatus) -> str:
    """Describe the progress of a table's copy; empty without one."""
    copy = table.copy
    if copy is None:
        return ""
    share = f" {min(1.0, copy.rows / copy.estimated_rows):.0%}" if copy.estimated_rows else ""
    how = f"{copy.state}{share}, {copy.rows:,} rows" if copy.state == "copying" else copy.state
    return f"{how}: {copy.why}" if copy.why else how

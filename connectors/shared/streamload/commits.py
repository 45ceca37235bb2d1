"""Commits a decided batch: the loads of a table in log order, tables in parallel. Driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cdc.errors import LoadsLost, SinkError
from cdc.process.faults import crash_point
from cdc.schema import TableId
from cdc.sink import Prepared


class LoadLost(SinkError):
    """A decided load no longer exists in the server. Never propagates beyond `commit_all`.

    `forgotten`: the server does not know whether it was committed; otherwise it certainly was not.
    """

    def __init__(self, message: str, *, where: str, hint: str = "", forgotten: bool) -> None:
        super().__init__(message, where=where, hint=hint)
        self.forgotten = forgotten


Commit = Callable[[TableId, Any], None]
"""Commits one handle of a table, or finds that it is committed. Raises LoadLost, SinkError."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one table's loads; `lost` comes with its partition, and whether a part of that is committed."""

    table: TableId
    error: SinkError | None = None
    lost: LoadLost | None = None
    partition: int = 0
    doubled: bool = False


def commit_all(commit: Commit, batch: int, prepared: Sequence[Prepared], threads: int) -> None:
    """Commit every handle: those of a table one after another in log order, tables in parallel.

    After a lost load, the table's later ones are not committed, as they must come after it. A handle is a mapping; its
    `upserts` says whether its rows replace those with their keys (true if missing). Raises after every table was tried:
    errors that are not retryable first, and all lost loads as one LoadsLost.
    """
    tables: dict[TableId, list[Prepared]] = {}
    for item in sorted(prepared, key=lambda item: item.partition):
        tables.setdefault(item.table, []).append(item)

    def commit_table(table: TableId) -> _Outcome:
        last = -1
        for item in tables[table]:
            try:
                commit(table, item.handle)
            except LoadLost as lost:
                doubled = (lost.forgotten or item.partition == last) and not item.handle.get("upserts", True)
                return _Outcome(table, None, lost, item.partition, doubled)
            except SinkError as error:
                return _Outcome(table, error)
            last = item.partition
            crash_point("mid-commit", batch)
        return _Outcome(table)

    if len(tables) == 1:
        outcomes = [commit_table(table) for table in tables]
    else:
        with ThreadPoolExecutor(max(1, min(threads, len(tables))), thread_name_prefix="cdc-commit") as pool:
            outcomes = list(pool.map(commit_table, tables))
    _raise(outcomes)


def _raise(outcomes: Sequence[_Outcome]) -> None:
    """Raise the loss only when nothing is left that a retry may commit."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        raise next((error for error in errors if not error.retryable), errors[0])
    lost = [outcome for outcome in outcomes if outcome.lost is not None]
    if lost:
        raise _lost(lost)


def _lost(outcomes: Sequence[_Outcome]) -> LoadsLost:
    """Combine losses to one error: the reason of the first, the tables of all."""
    first = outcomes[0].lost
    assert first is not None
    names = ", ".join(str(outcome.table) for outcome in outcomes)
    return LoadsLost(
        f"decided rows of {names} are not in the sink any more: {first.message}",
        where=first.where,
        hint=first.hint,
        tables={str(outcome.table): outcome.partition for outcome in outcomes if not outcome.doubled},
        uncertain=[str(outcome.table) for outcome in outcomes if outcome.doubled],
    )

"""All events of a batch: source events after the transform rules, user requests, edits of the pipeline file. Driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc.events import CaptureEnded, SourceEvent, TableCreated, TableRenamed, Uncertain
from cdc.flow.middle import Middle
from cdc.schema import TableId
from cdc.source import Snapshots, Source
from cdc.tables import events as on
from cdc.tables.entry import TableViews
from cdc.tables.machine import unfit_rows
from cdc.tables.pauses import paused_tables
from cdc.tables.requests import Mailbox, Request, RequestKind
from cdc.tables.states import NO_MEMBER, Tables, TableState
from cdc.transform.rule_events import apply_rules

log = logging.getLogger(__name__)

_REQUESTED: Mapping[RequestKind, Callable[[TableId], on.Event]] = {
    RequestKind.SNAPSHOT: on.SnapshotRequested,
    RequestKind.PAUSE: on.PauseRequested,
    RequestKind.RESUME: on.ResumeRequested,
}


@dataclass(frozen=True, slots=True)
class BatchEvents:
    """The events of one batch.

    Attributes:
        edits: the effects of an edited pipeline file besides those of its routes, in order; before the events.
        events: in order.
        after: the tables after them, on the source side and after the rules.
        requests: the user requests that the batch takes in.
    """

    edits: Sequence[on.Event]
    events: Sequence[on.Event]
    after: TableViews
    requests: Sequence[Request]


class EventCollector:
    """Collects the events of batches."""

    def __init__(self, middle: Middle, source: Source, mailbox: Mailbox) -> None:
        self._middle, self._source, self._mailbox = middle, source, mailbox

    def collect(self, before: TableViews, logged: Sequence[SourceEvent], *, first: bool) -> BatchEvents:
        """Collect the events of a batch; `logged` are those in the source's log.

        The `first` batch of a run also has the events of an edited pipeline file. Raises SpecError, TransformError as
        `apply_rules`, StateError.
        """
        requests = self._mailbox.open()
        excluded = self._excluded_tables(before.tables) if first else []
        pauses = paused_tables(before, requests)
        ruled = apply_rules(self._middle.rules, before, [*excluded, *logged], pauses, edited=first)
        sooner = [request for request in requests if request.table in before.rules]
        came = _tables_that_come(ruled.events)
        later = [
            request
            for request in requests
            if request.table not in before.rules or (request.kind is RequestKind.SNAPSHOT and request.table in came)
        ]
        edits = [*(self._unfit(before.tables) if first else ()), *ruled.edits]
        events = [
            *_requested(sooner),
            *ruled.events,
            *_requested(later),
            *self._resnapshot_requests(ruled.stale),
        ]
        return BatchEvents(edits, events, ruled.after, requests)

    def forget(self, requests: Iterable[Request]) -> None:
        """Remove the user requests that a decided batch has taken in. Repeatable."""
        self._mailbox.remove(requests)

    def snapshots_unasked(self, table: TableId) -> bool:
        """Whether the source re-snapshots a table without a user request."""
        return self._source.snapshots(table) is Snapshots.ALWAYS

    def uncertain(self, tables: Iterable[TableId]) -> Iterator[on.RowsUncertain]:
        """Events for tables that have lost values in the sink, if their source re-snapshots them automatically."""
        why = "a column was dropped in the sink, and is there again as the file was edited once more"
        for table in sorted(tables):
            if self.snapshots_unasked(table):
                yield on.RowsUncertain(table, Uncertain(why, same_rows=True))
            else:
                text = "%s: %s, without its values: `cdc resync FILE %s` re-snapshots the table"
                log.warning(text, table, why, table)

    def _excluded_tables(self, tables: Tables) -> list[SourceEvent]:
        """Events for tables excluded since the last run. A paused table stays paused: it has no rows anyway."""
        away = NO_MEMBER | {TableState.PAUSED, TableState.RESUMED}
        followed = {source for (source, _), pair in tables.pairs.items() if pair.state not in away}
        excluded = sorted(table for table in followed if table in tables.sources and not self._source.captures(table))
        return [CaptureEnded(table, "the source leaves it out") for table in excluded]

    def _unfit(self, tables: Tables) -> list[on.Event]:
        """Events for tables whose rows no longer fit after an edit of the behavior, if their source can re-snapshot."""
        found = unfit_rows(tables, self._middle.routes) if self._middle.policy.exact else ()
        return [each for each in found if self._source.snapshots(each.table) is not Snapshots.NEVER]

    def _resnapshot_requests(self, stale: Mapping[TableId, str]) -> Iterator[on.SnapshotRequested]:
        """Snapshot requests for tables whose rows are stale, if their source re-snapshots them automatically."""
        for table, why in sorted(stale.items()):
            if self.snapshots_unasked(table):
                yield on.SnapshotRequested(table, why, by_user=False)
            else:
                text = "%s: %s: the rows in the sink stay as they are; `cdc resync FILE %s` re-snapshots the table"
                log.warning(text, table, why, table)


def _tables_that_come(events: Iterable[SourceEvent]) -> set[TableId]:
    """The names that a batch gives to tables. A request for one of them may mean that table, or the one before it."""
    created = {event.table for event in events if isinstance(event, TableCreated)}
    return created | {event.new_table for event in events if isinstance(event, TableRenamed)}


def _requested(requests: Sequence[Request]) -> list[on.Event]:
    return [_REQUESTED[request.kind](request.table) for request in requests]

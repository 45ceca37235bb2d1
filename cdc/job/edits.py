"""Checks edits of the pipeline file since the previous run against the pipeline's state. Driver, at the start.

| edited | what is done |
|---|---|
| the sink's type, or the location of its data | refused, unless the sink at the new location knows this pipeline |
| a route that moves a captured table | the table is re-snapshotted into its new sink table, if its source can |
| a route of tables that do not exist yet | accepted |
| a pattern of table names that matches no table | refused, unless the file allows it |
| `shard-column`, for rows already in the sink | refused |
| a topic name of the sink, for tables with rows in another topic | refused |
| options that identify the pipeline in the sink, or that rows in the sink were written with | refused |
| options that only matter when a pipeline starts for the first time | a warning |
| anything else | left to the component that the option belongs to |

The sink is checked as well: it must have the batches of the state, and the tables (`cdc.job.sink_tables`). Nothing is
planned, decided or committed before all checks pass, so reverting an edit leaves no trace.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from cdc.errors import EditRefused
from cdc.flow.middle import Middle
from cdc.job.checkpoint import any_planned
from cdc.job.edited_routes import filled_tables, routes_of
from cdc.job.sink_tables import SinkTables
from cdc.planning.edited_options import check_batches, edited_options, fingerprint_of, relocated_rows
from cdc.planning.table_checks import check_patterns
from cdc.schema import TableId
from cdc.sink import Delivery, Sink
from cdc.source import Source
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.fingerprint import Fingerprint, Fingerprints
from cdc.tables.log import TableLog

log = logging.getLogger(__name__)


class Edits:
    """Compares a pipeline file with what its state directory says about earlier runs."""

    def __init__(self, spec: PipelineSpec, middle: Middle, state: StateDir) -> None:
        """`middle` is the compiled pipeline file."""
        self._spec, self._middle, self._state = spec, middle, state
        self._log, self._fingerprints = CommitLog(state.commits), Fingerprints(state.store)
        self._now = fingerprint_of(spec)

    def check_sink(self, sink: Sink) -> None:
        """Raise EditRefused if rows would go to another sink than before, SinkError if this one has lost batches."""
        before, committed = self._fingerprints.read(), self._log.committed()
        if before is not None and before.sink != self._now.sink:
            raise self._refusal("sink.type", before.sink, self._now.sink)
        moved = before is not None and not before.same_location(self._now)
        last = sink.last_committed_batch() if committed >= 0 else None
        if moved and (last is None or last < 0):
            assert before is not None
            raise self._refusal("sink", ", ".join(before.locations), ", ".join(self._now.locations))
        self._check_options(before, sink)
        check_batches(last, committed, self._log.last(), ", ".join(self._now.locations))

    def _check_options(self, before: Fingerprint | None, sink: Sink) -> None:
        last = self._log.last()
        in_tasks = sink.delivery is Delivery.COMMIT_IN_TASK and any_planned(self._state.checkpoint)
        if before is None or (last < 0 and not in_tasks):
            return
        tables = TableLog(self._state.store).at(last).source if last >= 0 else None
        for edit in edited_options(before, self._spec.source, self._spec.sink, tables):
            if edit.refused:
                raise EditRefused(
                    edit.text,
                    where=f"{self._spec.file}: {edit.key}",
                    hint="revert the edit, or start over with another --state-dir",
                )
            log.warning("%s %s", edit.key, edit.text)

    def _check_named(self, before: Fingerprint, filled: Iterable[TableId]) -> None:
        """Raise EditRefused when rows of tables that are filled already would go to other topics."""
        text = relocated_rows(before.naming, self._spec.sink, filled)
        if text:
            old, now = before.naming or {}, self._now.naming or {}
            keys = " and ".join(f"sink.{key}" for key in {**old, **now} if old.get(key) != now.get(key))
            raise EditRefused(
                text,
                where=f"{self._spec.file}: {keys}",
                hint="revert the edit; or give the table another sink-table with a route, it is copied there; or "
                "start over with another --state-dir",
            )

    def check_patterns(self, source: Source) -> None:
        """Raise SpecError for a pattern that is new since the previous run and matches no table.

        The source is queried only if there are new patterns. Raises SourceError.
        """
        before = self._fingerprints.read()
        if before is None or not source.lists_all_tables:
            return
        if {*self._now.patterns} - {*before.patterns}:
            check_patterns(self._spec, self._middle.routes, source.tables(), complete=True, known=before.patterns)

    def check_tables(self, source: Source, sink: Sink) -> None:
        """Raise EditRefused if an edit moves tables that cannot be moved, SinkError if the sink lacks tables.

        Runs before decided batches are committed. If it passes, the new fingerprint is stored; the first batch then
        detects the changed routes and requests the snapshots of moved tables.
        """
        before = self._fingerprints.read()
        if before is not None and (last := self._log.last()) >= 0:
            known = TableLog(self._state.store).at(last)
            old = routes_of(known, self._state.store)
            captured = filter(source.captures, known.source)
            filled = filled_tables(self._spec.file, captured, old, self._middle.routes, source)
            self._check_named(before, filled.keys() & known.sink.keys())
            where = ", ".join(self._now.locations) or self._now.sink
            SinkTables(source, sink, self._state, where, self._middle).restore(filled)
        if before != self._now:
            self._fingerprints.write(self._now)

    def _refusal(self, key: str, before: str, now: str) -> EditRefused:
        return EditRefused(
            f"is {now} now, earlier runs wrote to {before}: the data there would not be updated any more",
            where=f"{self._spec.file}: {key}",
            hint="revert the edit, or start over with another --state-dir; where it is the same cluster at other "
            "addresses, list one of the old ones with them for one run",
        )

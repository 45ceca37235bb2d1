"""Plans a pipeline against its source and sink as they are now. Changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import EngineError, first_of
from cdc.planning.differences import notes_since, unfit_notes
from cdc.planning.edited_options import check_sink
from cdc.planning.last_run import LastRun
from cdc.planning.plan import Plan, TablePlan
from cdc.planning.planner import plan_pipeline
from cdc.planning.table_checks import check_patterns
from cdc.schema import TableId
from cdc.source import Context, Snapshots
from cdc.spec.compiled import compile_spec
from cdc.state.store import LocalStore
from cdc.tables.table_map import ExistingRows

if TYPE_CHECKING:
    from cdc.sink import Sink
    from cdc.source import Source
    from cdc.spec.model import PipelineSpec
    from cdc.state.directory import StateDir


def plan_file(spec: PipelineSpec, state: StateDir | None = None) -> Plan:
    """Connect to source and sink and plan; `state` is the state of earlier runs, None when there were none.

    Raises SourceError, SinkError, SpecError, StateError; EngineError without a driver.
    """
    with tempfile.TemporaryDirectory(prefix="cdc-plan-") as folder:
        store = LocalStore(Path(folder))
        name = (state and state.pipeline(source=spec.source.type)) or spec.name
        try:
            source = spec.source.build(Context(name, store.within("source")))
            sink = spec.sink.build(Context(name, store.within("sink")))
        except ImportError as error:
            raise EngineError(f"a connector cannot be loaded: {error}", hint="install what it needs") from error
        try:
            middle, tables = compile_spec(spec), source.tables()
            last = LastRun() if state is None else LastRun.read(state)
            if state is not None:
                check_sink(spec, sink, state, last.fingerprint)
            known = () if last.fingerprint is None else last.fingerprint.patterns
            missing = check_patterns(spec, middle.routes, tables, complete=source.lists_all_tables, known=known)
            plan = plan_pipeline(spec, middle, tables, sink, last, sink.keyless)
            plan = with_existing_rows(plan, middle.existing_rows, source, sink, last.sink_tables)
            since = notes_since(last, middle.rules, sink, spec.sink, spec.source)
            notes = (*plan.notes, *since, *unfit_notes(last, middle, source))
            if changed := last.changed_tables(tables):
                notes = (*notes, changed_note(changed))
            return replace(plan, notes=notes, unmatched=tuple(map(str, missing)))
        finally:
            source.stop()


def changed_note(changed: Sequence[TableId]) -> str:
    """Return a line about source tables that have changed since the last run."""
    return f"the source has changed {first_of(changed)}: a run applies the changes when it reaches them in the log"


def with_existing_rows(
    plan: Plan, existing: ExistingRows, source: Source, sink: Sink, known: Collection[TableId] = ()
) -> Plan:
    """Add to the plan what happens to existing rows of sink tables before their first snapshot. Raises SinkError.

    `known` are sink tables of earlier runs.
    """
    return replace(plan, tables=tuple(
        table if table.sink in known else _with_rows(table, existing, source, sink) for table in plan.tables
    ))  # fmt: skip


def _with_rows(plan: TablePlan, existing: ExistingRows, source: Source, sink: Sink) -> TablePlan:
    new = plan.actual is not None and not plan.refused and source.snapshots(plan.source) is Snapshots.ALWAYS
    if not new or not sink.holds_rows(plan.sink):
        return plan
    if existing.refuses(plan.schema):
        return replace(plan, refused=str(existing.refusal(plan.sink, plan.schema)), statements=())
    return replace(plan, rows=existing)

"""`cdc resync`: ask a pipeline, running or not, to copy one table anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cdc.errors import SourceError, StateError
from cdc.flow.held import check_not_paused
from cdc.job.pausing import check_known
from cdc.job.state_location import changing
from cdc.route import RouteTable
from cdc.schema import TableId
from cdc.source import Context, CopiesAnew, Resyncs
from cdc.spec.model import PipelineSpec
from cdc.spec.routing import made_routing
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog


def request_resync(spec: PipelineSpec, table: str, state_dir: Path | None) -> None:
    """Leave the request in the state directory. Raises StateError when the pipeline never ran, TableUnknown for a name
    that is none of its tables, SourceError when its source cannot read the table anew, NotNow when it is paused.

    What is decided and was given up by the sink is then let go for this table (`cdc.flow.lost`): the copy comes later.
    """
    with changing(state_dir, spec) as state:
        ask(spec, table, state)


def ask(spec: PipelineSpec, table: str, state: StateDir) -> None:
    """Leave the request of `request_resync` in a state directory."""
    pipeline = state.pipeline(source=spec.source.type)
    if pipeline is None:
        raise StateError(
            "no pipeline has run here yet",
            where=state.store.where(),
            hint="give the --state-dir that the pipeline runs with",
        )
    source = spec.source.build(Context(pipeline, state.source))
    if not isinstance(source, Resyncs):
        raise SourceError("this source reads a log only, it cannot read a table anew", where=table)
    found, log = TableId.parse(table), CommitLog(state.commits)
    check_known(state, found)
    check_not_paused(state, found)
    last = log.last()  # before the request: a batch that is decided later may hold the beginning of the copy
    routing = made_routing(spec)
    sink_tables = routing.table(found)
    together = routing.policy.mirrors and _copied_together(source, routing.table, sink_tables, state, last)
    tables = TableLog(state.store).at(last)
    if not together:
        _check_told_apart(found, sink_tables, tables)
    source.resync(found)
    for sink_table in sink_tables:
        alone = sink_table in tables.tables.merged and not together
        log.note_resync(sink_table, last, found if alone else None)


def _copied_together(
    source: object, route: RouteTable, sink_tables: Sequence[TableId], state: StateDir, last: int
) -> bool:
    """Whether all that go to these sink tables are copied when one of them is (docs/tables.md)."""
    tables = TableLog(state.store).at(last).rules
    others = [table for table in tables if {*route(table)} & {*sink_tables}]
    return isinstance(source, CopiesAnew) and all(map(source.copies_anew, others))


def _check_told_apart(table: TableId, sink_tables: Sequence[TableId], tables: TableViews) -> None:
    """Raise SourceError when the rows of a table are among those of others, and nothing tells them apart."""
    known, merged = tables.sink, tables.tables.merged
    for sink_table in sink_tables:
        if sink_table in merged and sink_table in known and not known[sink_table].primary_key:
            raise SourceError(
                f"its rows in {sink_table} cannot be told from those of other tables without a key",
                where=str(table),
                hint="start anew with an empty --state-dir and sink table, which copies all of them",
            )

"""Routes blocks of source tables to sink tables, by the routes and the states of the tables. Executor."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from cdc.block import ChangeBlock, Stream
from cdc.errors import EngineError
from cdc.evolution.merge import fits_exactly, same_key
from cdc.flow.gather import gather
from cdc.flow.middle import Middle
from cdc.flow.shadow_tables import gathered_tables, tables_for
from cdc.schema import TableId, TableSchema
from cdc.sink import Sink
from cdc.sink_columns import with_source
from cdc.source import Count
from cdc.tables.router import targets
from cdc.tables.states import NO_MEMBER, Tables, TableState

_NOT_FOLLOWED = NO_MEMBER | {TableState.MISSING}
"""States in which rows are counted, or stop the run."""

_TAKEN_IN = (
    "if the file takes the table in again since the last run: `cdc run --until-caught-up` once with the table left out "
    "(tables.exclude), then with it"
)
"""Next step for a table that was left out when the batch was planned."""
_SKIPPED = (
    "if a schema change was skipped under another schema.change.behavior, go back to that one (try_evolve), or start "
    "over with an empty --state-dir and sink table"
)
_OTHER_LOG = "the source's log and the state directory are of different pipelines, or this is a defect: report it"


@dataclass(frozen=True, slots=True)
class BlockRouter:
    """Routes the blocks of one task; `tables` are the tables after the schema changes of its batch."""

    sink: Sink
    middle: Middle
    tables: Tables

    def select_wanted(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """Skip blocks that no sink table gets, such as those of paused tables, before the rules are evaluated."""
        wanted: dict[tuple[TableId, frozenset[Stream]], bool] = {}
        for block in blocks:
            key = block.table, block.streams
            if key not in wanted:
                wanted[key] = self._is_wanted(*key)
            if wanted[key]:
                yield block

    def _is_wanted(self, source: TableId, streams: frozenset[Stream]) -> bool:
        """Whether a sink table takes rows of these streams; true for unfollowed tables, which `route` reports."""
        for target in self.middle.routes.targets(source):
            state, shadowed = self.tables.state((source, target.table)), self.tables.sink_state(target.table).shadowed
            if state in _NOT_FOLLOWED or targets(state, streams, shadowed=shadowed):
                return True
        return False

    def route(self, blocks: Iterator[ChangeBlock], only: Collection[str] | None, count: Count) -> Iterator[ChangeBlock]:
        """Yield the blocks as the sink gets them; those of merged tables in log order.

        Args:
            only: names of the sink tables to yield blocks for; None for all.
            count: counts rows whose sink table is missing and values that do not fit.

        Raises EngineError for rows of a table that is not followed, and for columns that differ from the sink table's.
        """
        return gather(self._routed(blocks, only, count), gathered_tables(self.sink, self.tables.merged))

    def _routed(
        self, blocks: Iterator[ChangeBlock], only: Collection[str] | None, count: Count
    ) -> Iterator[ChangeBlock]:
        """Yield one block per sink table that a block is routed to, with that table's columns."""
        tables = self.tables
        for block in blocks:
            for target in self.middle.routes.targets(block.table):
                table, state = target.table, tables.state((block.table, target.table))
                known, sink_state = tables.sinks.get(table), tables.sink_state(table)
                if known is None:
                    if state is TableState.MISSING:
                        count(f"no-table-in-sink {table}", len(block))
                    elif only is None or str(table) in only:  # a run without persistent state
                        yield replace(with_source(block, target), table=table)
                    continue
                if state in NO_MEMBER:
                    raise _not_followed(block.table, table, state)
                sink_tables = tables_for(self.sink, table, state, block.streams, shadowed=sink_state.shadowed)
                if only is not None:
                    sink_tables = [sink_table for sink_table in sink_tables if str(sink_table) in only]
                if not sink_tables:
                    continue
                routed = replace(with_source(block, target), table=table)
                exact = self.middle.policy.exact and not sink_state.merged
                fitted, fits = routed, None
                for sink_table in sink_tables:
                    schema = known if sink_table == table else sink_state.shadow or known
                    if schema is not fits:
                        _check_columns(routed, schema, exact=exact)
                        fitted, fits = self.middle.coercion(routed, schema, count), schema
                    yield replace(fitted, table=sink_table)


def _not_followed(source: TableId, table: TableId, state: TableState) -> EngineError:
    """The error for rows of a table that is not followed, such as one that was left out when the batch was planned."""
    hint = f"{_TAKEN_IN}; else {_OTHER_LOG}" if state is TableState.DETACHED else _OTHER_LOG
    return EngineError(f"rows of {source} were read, whose state is {state}", where=str(table), hint=hint)


def _check_columns(block: ChangeBlock, known: TableSchema, *, exact: bool) -> None:
    """Raise EngineError if a block's key differs from the sink table's; with `exact`, also if its columns differ."""
    if fits_exactly(block.schema, known) if exact else (known is block.schema or same_key(known, block.schema)):
        return
    other = _SKIPPED if same_key(known, block.schema) else _OTHER_LOG
    raise EngineError(
        f"rows with the columns {', '.join(block.schema.names)} and the key {block.schema.primary_key} do not fit "
        f"the sink's table, which has {', '.join(known.names)} and the key {known.primary_key}",
        where=str(block.table),
        hint=f"{_TAKEN_IN}; else {other}",
    )

"""Repairs sink tables that were altered or dropped by hand since the pipeline last wrote to them. Driver.

At the start of a run, before a batch fails on them:

| in the sink | what is done |
|---|---|
| a column was dropped | it is added again, NULL in existing rows |
| a column was added | it is ignored |
| a table was dropped | the run stops; the error names the tables and the `cdc resync` commands |
| the same, `cdc resync` requested | its rows of decided batches are dropped; it is created and re-snapshotted |
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cdc.errors import ChangeRefused, SinkError, first_of
from cdc.evolution import journal
from cdc.flow.expected import not_added
from cdc.flow.middle import Middle
from cdc.flow.shadow_tables import names_of
from cdc.planning.altered import altered_tables
from cdc.schema import CreateTable, TableId, TableSchema
from cdc.sink import Sink
from cdc.source import Snapshots, Source
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.requests import Mailbox, RequestKind, snapshots_requested
from cdc.tables.states import Schemas

log = logging.getLogger(__name__)

_SHOWN = 5
"""The most tables named in a message."""


class SinkTables:
    """The sink's tables at the start of a run, before its first commit. `where` is the sink's location, for errors."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        state: StateDir,
        where: str,
        middle: Middle,
    ) -> None:
        self._rules, self._policy = middle.rules, middle.policy
        self._source, self._sink, self._state, self._where = source, sink, state, where
        self._log, self._tables = CommitLog(state.commits), TableLog(state.store)

    def restore(self, filled: Mapping[TableId, Collection[TableId]]) -> None:
        """Restore the sink tables that the pipeline has filled; `filled` maps each to its source tables.

        Raises SinkError for missing tables without a request, ChangeRefused for a column that the policy does not add.
        Repeatable: requests are on disk before anything else is done.
        """
        last, sink = self._log.last(), self._sink
        if self._half_applied(last):
            return
        known = self._tables.at(last).sink
        filled_tables = sorted(filled.keys() & known.keys())
        found = sink.missing_tables(filled_tables) if filled_tables else []
        if found is None:
            return
        missing = sorted(found)
        self._add_columns(last, {table: known[table] for table in filled_tables if table not in found})
        if not missing:
            return
        mailbox = Mailbox(self._state.store)
        requested = snapshots_requested(mailbox)
        unrequested = [table for table in missing if not requested.intersection(filled[table])]
        if unrequested:
            raise self._missing_error(unrequested, filled)
        for table in missing:
            sources = {each for each in filled[table] if self._source.snapshots(each) is Snapshots.ALWAYS}
            if len(filled[table]) > max(1, len(sources)):
                raise self._missing_error([table], {})
            for source in sorted(sources - requested):
                mailbox.add(source, RequestKind.SNAPSHOT)
            log.warning("%s: it was dropped in the sink; it is created and re-snapshotted, as requested", table)
        self._remove_from_decisions(missing)
        self._apply(last, [self._creation(table, known[table], filled[table]) for table in missing])

    def _add_columns(self, last: int, schemas: Schemas) -> None:
        """Add columns that were dropped in these tables, and log a warning for each altered table.

        A table that no longer takes rows is only warned of; the run stops when rows for it arrive.
        """
        creations = [CreateTable(table, schema) for table, schema in schemas.items()]
        try:
            missing = self._sink.plan_text(creations) if creations else ()
        except ChangeRefused as error:
            log.warning("a table was altered in the sink: %s", error)
            return
        if not missing:
            return
        for altered in altered_tables(self._sink, schemas):
            if altered.lost and not self._policy.adds_columns:
                raise not_added(altered.table, altered.lost, self._policy)
            again = f"; `cdc resync FILE TABLE` brings the values of {', '.join(altered.lost)}" if altered.lost else ""
            log.warning("%s: %s%s", altered.table, altered.text, again)
        self._apply(last, creations)

    def _creation(self, table: TableId, schema: TableSchema, sources: Collection[TableId]) -> CreateTable:
        """The creation of a table as the first time, with the options of its source table's rule."""
        rule = None if self._rules is None else self._rules.rule(min(sources))
        if rule is None:
            return CreateTable(table, schema)
        return CreateTable(table, schema, tuple(rule.table_options.items()), rule.partition_keys)

    def _half_applied(self, last: int) -> bool:
        """Whether an undecided batch has begun to change the sink's tables: it may have dropped some."""
        document = self._state.sink.read_json(journal.FILE)
        return document is not None and document.get("batch", -1) > last

    def _apply(self, last: int, creations: Sequence[CreateTable]) -> None:
        """Create tables on behalf of the last decided batch; the next one has not begun to change anything.

        The sink's journal is removed first: it is from that batch or from an earlier restore, and outdated.
        """
        self._state.sink.remove(journal.FILE)
        self._sink.apply(last, creations)

    def _remove_from_decisions(self, tables: Sequence[TableId]) -> None:
        """Remove the rows of tables from decisions that are not committed."""
        names = {name for table in tables for name in names_of(self._sink, table)}
        for decision in self._log.uncommitted():
            retained = tuple(handle for handle in decision.prepared if str(handle.table) not in names)
            if retained != decision.prepared:
                self._log.decide(replace(decision, prepared=retained))

    def _missing_error(self, tables: Sequence[TableId], sources: Mapping[TableId, Collection[TableId]]) -> SinkError:
        shown = first_of(tables, _SHOWN)
        names = [min(sources[table]) for table in tables if table in sources]
        commands = ", ".join(f"`cdc resync FILE {name}`" for name in names[:_SHOWN])
        able = any(self._source.snapshots(name) is not Snapshots.NEVER for name in names)
        again = f"request a re-snapshot ({commands}) and start again; " if able else ""
        return SinkError(
            f"tables that this pipeline has filled are missing, or not visible: {shown}",
            where=self._where,
            hint=f"restore them, or give the user the right to see them; {again}or start over with another --state-dir",
        )

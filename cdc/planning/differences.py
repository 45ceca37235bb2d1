"""Changes since the last run that the next one will find: edited rules and options, tables altered in the sink.

For `cdc plan`, from the state directory and the sink's actual tables. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc.errors import ChangeRefused, SpecError, first_of
from cdc.evolution.merge import missing_columns
from cdc.planning.edited_options import edited_options, relocated_rows
from cdc.schema import CreateTable, DataType, TableId, TableSchema
from cdc.source import Snapshots
from cdc.state.decisions import CommitLog
from cdc.state.fingerprint import Fingerprints
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog
from cdc.tables.machine import unfit_rows
from cdc.tables.states import Schemas
from cdc.transform.rule_edits import edits, rule_changes, texts_of

if TYPE_CHECKING:
    from cdc.flow.middle import Middle
    from cdc.sink import Sink
    from cdc.source import Source
    from cdc.state.directory import StateDir
    from cdc.transform.rules import Rules


def last_sink_tables(state: StateDir) -> Collection[TableId]:
    """Return the sink's tables as of the last decided batch; none before the first run. Raises StateError."""
    last = CommitLog(state.commits).last()
    return TableLog(state.store).at(last).sink.keys() if last >= 0 else ()


def changed_tables(state: StateDir, tables: Schemas) -> list[TableId]:
    """Return the source tables whose columns differ from those after the last decided batch: a run will apply their
    changes from the log. Raises StateError."""
    last = CommitLog(state.commits).last()
    before = TableLog(state.store).at(last).source if last >= 0 else {}
    return [
        table
        for table, schema in sorted(tables.items())
        if table in before and _columns(before[table]) != _columns(schema)
    ]


def _columns(schema: TableSchema) -> list[tuple[str, DataType]]:
    return [(column.name, column.type) for column in schema.columns]


def ruled_tables(state: StateDir) -> Schemas:
    """Return the source tables' schemas after the rules, as of the last decided batch. Raises StateError."""
    last = CommitLog(state.commits).last()
    return TableLog(state.store).at(last).rules if last >= 0 else {}


def changed_note(changed: Sequence[TableId]) -> str:
    """Return a line about such tables."""
    return f"the source has changed {first_of(changed)}: a run applies the changes when it reaches them in the log"


def notes_since(
    state: StateDir,
    rules: Rules | None,
    sink: Sink | None,
    options: object = None,
    paused: Collection[TableId] = (),
    source: object = None,
) -> Sequence[str]:
    """Describe what was edited or altered since the last decided batch; nothing before the first run.

    `options` are the sink's options, `source` the source's. Rules of `paused` tables are skipped: a run continues
    without them.

    Raises StateError for a damaged state, SinkError.
    """
    last = CommitLog(state.commits).last()
    if last < 0:
        return ()
    tables = TableLog(state.store).at(last)
    notes = list(_edited(tables, rules, paused))
    kept = Fingerprints(state.store).read()
    if kept is not None and (moved := relocated_rows(kept.naming, options, tables.sink)):
        notes.append(f"a run would stop: {moved}")
    for edit in () if kept is None else edited_options(kept, source, options, tables.source):
        notes.append(f"{'a run would stop: ' if edit.refused else ''}{edit.key} {edit.text}")
    return [*notes, *_altered(sink, tables.sink)]


def unfit_notes(state: StateDir, middle: Middle, source: Source) -> Sequence[str]:
    """Describe tables that get columns under the edited behavior that were skipped before. Raises StateError."""
    last = CommitLog(state.commits).last()
    if last < 0 or not middle.policy.exact:
        return ()
    notes = []
    for each in unfit_rows(TableLog(state.store).at(last).tables, middle.routes):
        able = source.snapshots(each.table) is not Snapshots.NEVER
        then = "is re-snapshotted for that" if able else "stops a run with its next rows"
        notes.append(f"{each.target.table}: columns of {each.table} were skipped here before; {each.table} {then}")
    return notes


def _edited(tables: TableViews, rules: Rules | None, paused: Collection[TableId]) -> Iterator[str]:
    views = tables.source, tables.rules
    sources, behind = ({table: schema for table, schema in view.items() if table not in paused} for view in views)
    texts = {table: text for table, text in tables.rule_texts.items() if table not in paused}
    before = replace(tables, rule_texts=texts)
    try:
        for edit in rule_changes(before, texts_of(rules, sources), edits(rules, sources, behind)):
            yield f"{edit.table}: {edit.text}"
    except SpecError as error:  # the source may have changed the tables since
        yield f"the rules do not fit the tables as of the last run: {error}"


def _altered(sink: Sink | None, sink_tables: Schemas) -> Iterator[str]:
    if sink is None:
        return
    try:
        found = altered_tables(sink, sink_tables)
    except ChangeRefused as error:
        yield f"the sink's tables were altered: {error}"
        return
    for altered in found:
        yield f"{altered.table}: {altered.text}"


@dataclass(frozen=True, slots=True)
class Altered:
    """A sink table that was altered by hand.

    Attributes:
        table: the sink table.
        lost: missing columns that the pipeline fills.
        new: columns that the pipeline does not know.
        refused: why rows can no longer be written, with what to do; empty when they can.
    """

    table: TableId
    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    refused: str = ""

    @property
    def text(self) -> str:
        """The difference in words that follow the table's name."""
        parts = []
        if self.lost:
            names = ", ".join(self.lost)
            parts.append(f"{names} was dropped in the sink: it is added again, NULL in existing rows")
        if self.new:
            parts.append(f"{', '.join(self.new)} was added in the sink: it is left as it is, NULL in new rows")
        if self.refused:
            parts.append(f"a run would stop: {self.refused}")
        return "; ".join(parts)


def altered_tables(sink: Sink, known: Schemas) -> Sequence[Altered]:
    """Return the existing tables that differ from their known schema. Driver; queries the sink for each table.

    Missing tables are not included.
    """
    found = []
    for table, schema in sorted(known.items()):
        actual = sink.describe(table)
        if actual is None:
            continue
        lost, new = missing_columns(actual, schema), missing_columns(schema, actual)
        altered = Altered(table, lost, new, _refusal_reason(sink, CreateTable(table, schema)))
        if altered != Altered(table):
            found.append(altered)
    return found


def _refusal_reason(sink: Sink, change: CreateTable) -> str:
    try:
        sink.plan_text([change])
    except ChangeRefused as error:
        return str(error)
    return ""

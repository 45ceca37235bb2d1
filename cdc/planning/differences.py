"""Changes since the last run that the next one will find: edited rules and options, tables altered in the sink.

For `cdc plan`. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc.errors import ChangeRefused, SpecError
from cdc.planning.altered import altered_tables
from cdc.planning.edited_options import edited_options, relocated_rows
from cdc.schema import TableId
from cdc.source import Snapshots
from cdc.tables.machine import unfit_rows
from cdc.transform.rule_edits import edits, rule_changes, texts_of

if TYPE_CHECKING:
    from cdc.flow.middle import Middle
    from cdc.planning.last_run import LastRun
    from cdc.sink import Sink
    from cdc.source import Source
    from cdc.tables.entry import TableViews
    from cdc.tables.states import Schemas
    from cdc.transform.rules import Rules


def notes_since(
    last: LastRun, rules: Rules | None, sink: Sink | None, options: object = None, source: object = None
) -> Sequence[str]:
    """Describe what was edited or altered since the last decided batch; nothing before the first run.

    `options` are the sink's options, `source` the source's. Rules of paused tables are skipped: a run continues without
    them.

    Raises SinkError.
    """
    tables, fingerprint = last.tables, last.fingerprint
    if tables is None:
        return ()
    notes = list(_edited(tables, rules, last.paused))
    if fingerprint is not None:
        if refusal := relocated_rows(fingerprint.naming, options, tables.sink):
            notes.append(f"a run would stop: {refusal}")
        for edit in edited_options(fingerprint, source, options, tables.source):
            notes.append(f"{'a run would stop: ' if edit.refused else ''}{edit.key} {edit.text}")
    return [*notes, *_altered(sink, tables.sink)]


def unfit_notes(last: LastRun, middle: Middle, source: Source) -> Sequence[str]:
    """Describe tables that get columns under the edited behavior that were skipped before."""
    if last.tables is None or not middle.policy.exact:
        return ()
    notes = []
    for each in unfit_rows(last.tables.tables, middle.routes):
        able = source.snapshots(each.table) is not Snapshots.NEVER
        then = "is re-snapshotted for that" if able else "stops a run with its next rows"
        notes.append(f"{each.target.table}: columns of {each.table} were skipped here before; {each.table} {then}")
    return notes


def _edited(tables: TableViews, rules: Rules | None, paused: Collection[TableId]) -> Iterator[str]:
    views = tables.source, tables.rules
    sources, ruled = ({table: schema for table, schema in view.items() if table not in paused} for view in views)
    texts = {table: text for table, text in tables.rule_texts.items() if table not in paused}
    before = replace(tables, rule_texts=texts)
    try:
        for edit in rule_changes(before, texts_of(rules, sources), edits(rules, sources, ruled)):
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

"""What a run that goes on would find otherwise than the one before left it: edited rules, tables altered in the sink.

For `cdc plan`, from the state directory and the sink's actual tables. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from cdc.errors import ChangeRefused, SpecError
from cdc.flow.altered import altered_tables
from cdc.flow.containers import moved_rows
from cdc.flow.route_stage import RouteStage, routed_schemas
from cdc.flow.rule_edits import kept_texts, texts_of, told_edits
from cdc.flow.rule_stage import RuleStage, edits, schemas_of
from cdc.flow.sink_schemas import SinkSchemas
from cdc.state.decisions import CommitLog
from cdc.state.fingerprint import Fingerprints

if TYPE_CHECKING:
    from cdc.schema import TableId
    from cdc.sink import Sink
    from cdc.state.directory import StateDir
    from cdc.transform.rules import Rules


def known_tables(state: StateDir) -> Collection[TableId]:
    """The sink's tables as of the last decided batch; none before the first run. Raises StateError."""
    last = CommitLog(state.commits).last()
    return SinkSchemas(state.store).at(last).keys() if last >= 0 else ()


def notes_since(
    state: StateDir,
    rules: Rules | None,
    sink: Sink | None,
    options: object = None,
    paused: Collection[TableId] = (),
) -> Sequence[str]:
    """Lines about what was edited or altered since the last decided batch; none before the first run.

    `options` are those of the sink. Of the rules of `paused` tables nothing is said: a run goes on without them.

    Raises StateError for a damaged state, SinkError.
    """
    log = CommitLog(state.commits)
    last = log.last()
    decision = log.get(last) if last >= 0 else None
    if decision is None:
        return ()
    stages = decision.all_stages(RouteStage.name)
    notes = list(_edited(state, rules, last, paused, with_rules=RuleStage.name in stages))
    kept = Fingerprints(state.store).read()
    if kept is not None and (moved := moved_rows(kept.naming, options, SinkSchemas(state.store).at(last))):
        notes.append(f"a run would stop: {moved}")
    return [*notes, *_altered(state, sink, last)]


def _edited(
    state: StateDir, rules: Rules | None, last: int, paused: Collection[TableId], *, with_rules: bool
) -> Iterator[str]:
    store = state.store
    if not with_rules and rules is None:
        return
    logs = schemas_of(store) if with_rules else (routed_schemas(store),) * 2
    sources, behind = ({table: schema for table, schema in log.at(last).items() if table not in paused} for log in logs)
    before = kept_texts(store) if with_rules else texts_of(None, sources)
    try:
        for table, text in told_edits(before, texts_of(rules, sources), edits(rules, sources, behind)):
            yield f"{table}: {text}"
    except SpecError as error:  # of tables as they were: the source may have changed them since
        yield f"the rules do not fit the tables as the last run has left them: {error}"


def _altered(state: StateDir, sink: Sink | None, last: int) -> Iterator[str]:
    if sink is None:
        return
    try:
        found = altered_tables(sink, SinkSchemas(state.store).at(last))
    except ChangeRefused as error:
        yield f"the sink's tables were altered: {error}"
        return
    for altered in found:
        yield f"{altered.table}: {altered.text}"

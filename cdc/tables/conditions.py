"""Conditions of the transition table: one function for each name in `cells.CONDITIONS`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc.evolution.behavior import Behavior
from cdc.evolution.merge import find, missing_columns
from cdc.schema import AlterColumnType, AlterPrimaryKey, RenameColumns, RenameTable
from cdc.tables import events as on
from cdc.tables.operations import OPERATE
from cdc.tables.states import TableState
from cdc.tables.step import Step
from cdc.tables.table_map import ExistingRows

Condition = Callable[[Step], bool]
_PAUSED = (TableState.PAUSED, TableState.RESUMED)


def holds(step: Step, name: str) -> bool:
    """Whether a condition holds; with the prefix `not `, whether it does not. May raise ChangeRefused."""
    positive = name.removeprefix("not ")
    return _HOLDS[positive](step) == (positive == name)


def _all_re_snapshotted(step: Step) -> bool:
    if step.sink.shadowed:
        return True
    return step.policy.mirrors and step.tables.now.shadows and not step.not_snapshotted


def _grows(step: Step) -> bool:
    if step.is_comment:
        return False
    if isinstance(step.event, on.TableCreated):
        return step.grows(OPERATE["create"])
    if isinstance(step.event, on.TableChanged) and not step.sink.merged:
        return step.grows(OPERATE["alter"])
    return step.grows(OPERATE["widen"])


def _delete(step: Step) -> bool:
    return step.target.shard_gone == "delete" and step.policy.mirrors


def _follows(step: Step) -> bool:
    if step.new is None or step.sink_schema is None or step.rename_refusal or step.policy.behavior is Behavior.IGNORE:
        return False
    return step.policy.behavior is Behavior.EXCEPTION or step.policy.allows(RenameTable(step.table, step.new.table))


def _exact(step: Step) -> bool:
    return step.policy.exact and bool(step.rename_refusal)


def _copied(step: Step) -> bool:
    if not (_exact(step) and step.policy.mirrors and step.moves_rows) or step.state in _PAUSED:
        return False
    there, last_name = step.arriving, step.tables.last_name(step.new_source)
    return step.tables.now.snapshots(last_name) and (not there.is_shared or _all_re_snapshotted(there))


def _shared(step: Step) -> bool:
    return any(step.sinks.state(table).merged for _, table in step.tables.pairs_of(step.source))


def _source_is(state: TableState) -> Condition:
    def condition(step: Step) -> bool:
        return state in step.tables.states_of(step.source)

    return condition


def _uncertain(step: Step) -> on.Uncertain | None:
    return step.event.uncertain if isinstance(step.event, on.TableChanged | on.RowsUncertain) else None


def _same_rows(step: Step) -> bool:
    uncertain = _uncertain(step)
    return uncertain is not None and uncertain.same_rows


def _rekeyed(step: Step) -> bool:
    if isinstance(step.event, on.SnapshotRequested):
        return not step.event.by_user  # rules compute its rows otherwise
    if step.sink_schema is None or not isinstance(step.event, on.TableChanged):
        return False
    match step.change:
        case AlterPrimaryKey():
            return True
        case AlterColumnType(column=column):
            known = find(step.sink_schema, column.name)
            return known is not None and known.name in step.sink_schema.primary_key
    return False


def _replaceable(step: Step) -> bool:
    """Whether a snapshot can replace all rows of the sink table."""
    return step.tables.now.snapshots(step.source) and (not step.sink.merged or _all_re_snapshotted(step))


def _allowed(step: Step) -> bool:
    return step.policy.behavior is not Behavior.IGNORE and step.policy.allows(step.change)


def _lacks(step: Step) -> bool:
    sink, schema = step.sink_schema, step.source_schema
    if sink is None or schema is None or not step.policy.adds_columns:
        return False
    return bool(missing_columns(sink, schema))


def _keyed(step: Step) -> bool:
    return step.sink_schema is not None and bool(step.sink_schema.primary_key)


def _occupied(step: Step) -> bool:
    if step.sink_schema is not None or step.table in step.tables.known or not step.policy.allows(step.created):
        return False
    return step.tables.now.holds_rows(step.table)


def _keys_certain(step: Step) -> bool:
    pair = step.tables.pair(step.pair)
    if pair.by_user or (pair.state is not TableState.LIVE and pair.since < step.tables.now.batch):
        return False  # the snapshot was requested for another reason
    return isinstance(step.event, on.SnapshotBegun) and step.event.keys_certain


def _by_statement(step: Step) -> bool:
    event = step.event
    return isinstance(event, on.TableCreated) and not event.by_snapshot and event.created.statement is not None


def _is(name: str, kind: type[on.Event]) -> Condition:
    return lambda step: isinstance(step.event, kind) and bool(getattr(step.event, name))


_HOLDS: Mapping[str, Condition] = {
    "merged": lambda step: step.sink.merged,
    "last": lambda step: not step.is_shared,
    "shared": _shared,
    "there": lambda step: step.sink_schema is not None,
    "keyed": _keyed,
    "shadowed": lambda step: step.sink.shadowed,
    "stale": lambda step: step.sinks.is_stale(step.table, step.source),
    "grows": _grows,
    "lacks": _lacks,
    "mirrors": lambda step: step.policy.mirrors,
    "all again": _all_re_snapshotted,
    "allowed": _allowed,
    "carried out": lambda step: step.is_carried_out,
    "delete": _delete,
    "exchanges": lambda step: isinstance(step.event, on.TableChanged) and isinstance(step.change, RenameColumns),
    "comment": lambda step: step.is_comment,
    "by snapshot": _is("by_snapshot", on.TableCreated),
    "by statement": _by_statement,
    "uncertain": lambda step: _uncertain(step) is not None,
    "same rows": _same_rows,
    "rekeyed": _rekeyed,
    "respelled": lambda step: step.is_respelled,
    "replaceable": _replaceable,
    "gap": _is("gap", on.RowsUncertain),
    "keys certain": _keys_certain,
    "void before": lambda step: step.is_void_before,
    "paused": _source_is(TableState.PAUSED),
    "resumed": _source_is(TableState.RESUMED),
    "same table": lambda step: step.new is not None and step.new.table == step.table,
    "sharded": lambda step: step.new is not None and step.new.shard_column is not None,
    "follows": _follows,
    "copied": _copied,
    "exact": _exact,
    "occupied": _occupied,
    "rows refused": lambda step: step.tables.now.existing_rows.refuses(step.schema),
    "replaces": lambda step: step.tables.now.existing_rows is ExistingRows.REPLACE,
    "re-snapshot helps": _is("resnapshot_helps", on.OperationRefused),
}

NAMES = frozenset(_HOLDS)
"""The names of all conditions."""

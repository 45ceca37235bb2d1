"""Renames of tables: within the captured tables, out of them, and into them. Including swaps.

A statement's pairs are followed to the end before anything is decided: `RENAME TABLE a TO t, b TO a, t TO b` swaps two
tables through a name that need not be captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.errors import UnsupportedChange
from cdc.schema import DropTable, RenameTable, TableId
from connectors.mysql.ddl.delta import NO_TABLES, UNDEFINED
from connectors.mysql.ddl.online import is_copy, may_rename, why_uncertain
from connectors.mysql.ddl.work import COPY_IT, StatementWork
from connectors.mysql.table import MySqlTable

Pair = tuple[TableId, TableId]


def rename_tables(pairs: Sequence[Pair], work: StatementWork) -> None:
    """Apply the pairs left to right. Raises UnsupportedChange for a table renamed in whose rows were not followed."""
    pairs = _without_temporary(pairs, work)
    finals = _finals(pairs)
    definitions = {origin: work.table(origin) for origin in finals}
    marks = {origin: work.mark(origin) for origin in finals}
    copies = {target: _online_copy(target, finals, definitions, work) for target in finals.values()}
    swapped = {target for target, copy in copies.items() if copy is not None}
    work.uncertain = {_follow(table, finals, work): why for table, why in work.uncertain.items()}
    for origin in finals:
        work.put(origin, None)
        if marks[origin] in UNDEFINED:
            work.put_mark(origin, None)
    for origin, target in finals.items():
        definition = definitions[origin]
        work.put(target, None if definition is None else replace(definition, id=target))
        if marks[origin] in NO_TABLES:
            work.put_mark(target, marks[origin])
        elif marks[origin] == "unknown" and work.captures(target):
            work.free_name(target)
            work.put_mark(target, "unknown")
        elif target in swapped:
            _adopt_copy(definitions[target], copies[target], work)
        else:
            _judge(origin, target, origin in swapped, work)
    _emit_steps(pairs, finals, definitions, work)
    for origin, target in finals.items():
        if marks[origin] not in NO_TABLES and target not in swapped and _is_renamed_in(origin, target, work):
            work.free_name(target)
            if target not in work.unknown:
                work.emit(None, work.table(target))
                work.put_mark(target, "arrived")


def _without_temporary(pairs: Sequence[Pair], work: StatementWork) -> list[Pair]:
    """Return the pairs that permanent tables can have.

    MariaDB also logs renames of temporary tables, which may have the name of a permanent one: these go to a name in
    use, or are followed by another rename of the same table.
    """
    kept: list[Pair] = []
    moved: dict[TableId, bool] = {}

    def exists(table: TableId) -> bool:
        return moved.get(table, work.table(table) is not None)

    for number, (old, new) in enumerate(pairs):
        name_in_use = old != new and work.captures(new) and exists(new)
        if name_in_use or (exists(old) and _is_renamed_again(old, pairs[number + 1 :])):
            work.notices.append(f"RENAME TABLE {old} TO {new} is one of a temporary table, and left out")
            continue
        kept.append((old, new))
        if exists(old):
            moved |= {old: False, new: True}
    return kept


def _is_renamed_again(table: TableId, pairs: Sequence[Pair]) -> bool:
    """Return whether the pairs rename a table before they give its name to another one."""
    return next((old == table for old, new in pairs if table in (old, new)), False)


def _finals(pairs: Sequence[Pair]) -> dict[TableId, TableId]:
    """Return the final name of each table that exists at the start."""
    origins: dict[TableId, TableId] = {}
    for old, new in pairs:
        origins[new] = origins.pop(old, old)
    return {origin: target for target, origin in origins.items()}


def _follow(table: TableId, finals: dict[TableId, TableId], work: StatementWork) -> TableId:
    """Return the name of a captured table in events after the statement: the old one if it is renamed away."""
    target = finals.get(table, table)
    return target if work.captures(target) else table


def _judge(origin: TableId, target: TableId, replaced: bool, work: StatementWork) -> None:
    """Handle a table that leaves or enters the captured ones."""
    if origin == target or work.captures(origin) == work.captures(target):
        return
    if work.captures(target):
        _check_known(origin, target, work)
    elif work.table(target) is not None and not replaced:
        work.put_mark(origin, "left")
        work.notices.append(
            f"{origin} was renamed to {target}, which is not captured: its changes are no longer followed, "
            "the sink keeps its rows"
        )


def _is_renamed_in(origin: TableId, target: TableId, work: StatementWork) -> bool:
    return work.captures(target) and not work.captures(origin)


def _check_known(origin: TableId, target: TableId, work: StatementWork) -> None:
    """Raise UnsupportedChange for a table renamed in that cannot be copied; record one with an unknown definition."""
    what = f"{origin}, which is not captured, was renamed to this captured table"
    if not work.known.copied(target):
        raise UnsupportedChange(
            f"{what}, so its rows are not known",
            where=str(target),
            hint="for gh-ost and pt-online-schema-change set scan.parse.online.schema.changes.enabled: true; "
            "else capture the other name too; or, where a server is read, leave it out with tables.exclude and run "
            "`cdc run --until-caught-up`, then take it in again: it is copied, in modes that only read the log if "
            "scan.startup.table-modes has it with initial",
        )
    if work.table(target) is None:
        unknown = f"{what}, and it was created before the pipeline's log begins, so its definition here is not known"
        if work.known.copied_when_uncertain(target):
            work.unknown[target] = unknown
            return
        raise UnsupportedChange(
            unknown,
            where=str(target),
            hint="leave it out with tables.exclude and run `cdc run --until-caught-up`, then take it in again: it is "
            "copied then",
        )


def _online_copy(
    target: TableId,
    finals: dict[TableId, TableId],
    definitions: dict[TableId, MySqlTable | None],
    work: StatementWork,
) -> MySqlTable | None:
    """Return the copy that replaces a captured table at the end of an online schema change; None for other renames.

    None too if the old table gets a name that is captured: it goes there with its rows, and the copy is a new table.
    """
    if not work.known.online_schema_changes or not work.captures(target) or definitions.get(target) is None:
        return None
    if work.captures(finals[target]):
        return None
    for origin, final in finals.items():
        if final == target and is_copy(origin, target) and not work.captures(origin):
            return definitions[origin]
    return None


def _adopt_copy(old: MySqlTable | None, copy: MySqlTable | None, work: StatementWork) -> None:
    """Give the copy's definition to the table, and re-snapshot its rows unless they are certain.

    Raises UnsupportedChange if they cannot be re-snapshotted and values would be lost.
    """
    if old is None or copy is None:
        return
    work.emit(old, replace(copy, id=old.id))
    reason = "; ".join(why_uncertain(old, copy, work))
    if not reason or work.leave_uncertain(old.id, f"an online schema change: {reason}", same_rows=False):
        return
    if may_rename(old, copy, work):
        raise UnsupportedChange(
            f"an online schema change drops columns and adds others, and may have renamed them: {reason}",
            where=str(old.id),
            hint=COPY_IT,
        )
    work.notices.append(f"{old.id}: an online schema change: {reason}; the sink keeps the values that it has")


def _emit_steps(
    pairs: Sequence[Pair],
    finals: dict[TableId, TableId],
    definitions: dict[TableId, MySqlTable | None],
    work: StatementWork,
) -> None:
    """Emit the statement's own steps for tables that stay captured, using the same temporary names."""
    staying = {
        origin
        for origin, target in finals.items()
        if work.captures(origin) and work.captures(target) and definitions[origin] is not None
    }
    if all(finals[origin] == origin for origin in staying):
        return
    current: dict[TableId, TableId] = {}
    for old, new in pairs:
        origin = current.pop(old, old)
        current[new] = origin
        if origin in staying:
            if work.mark(new) == "left":
                work.changes.append(DropTable(new))
                work.put_mark(new, None)
            work.changes.append(RenameTable(old, new))

"""What edited rules mean for rows that are in the sink already, which the earlier rules have made.

<state>/rule_texts.json   {"shop.orders": {"total": "price * qty", "": "total > 0"}}: by table and column how it is
                          computed, the filter under the empty name; those that pass are left out
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cdc.errors import SpecError
from cdc.schema import AddColumn, AlterColumnType, DropColumn, RenameColumn, RenameColumns, SchemaChange, TableId
from cdc.state.store import Store

if TYPE_CHECKING:
    from cdc.flow.sink_schemas import Schemas
    from cdc.transform.rules import Rules

_FILE = "rule_texts.json"
Texts = Mapping[str, Mapping[str, str]]


def texts_of(rules: Rules | None, sources: Schemas, held: Collection[TableId] = ()) -> Texts:
    """How the rules compute the columns of these source tables. Raises SpecError where a rule does not fit a table; of
    those that are `held` it is left out."""
    found: dict[str, Mapping[str, str]] = {}
    for table, schema in sources.items():
        try:
            found[str(table)] = {} if rules is None else rules.texts(table, schema)
        except SpecError:
            if table not in held:
                raise
    return found


def kept_texts(store: Store) -> Texts | None:
    """As the run before has left them; None before the first. Raises StateError."""
    return store.read_json(_FILE)


def keep_texts(store: Store, texts: Texts) -> None:
    """For the run after this one. Driver, behind a batch's changes."""
    if kept_texts(store) != texts:
        store.write_json(_FILE, texts)


def told_edits(before: Texts | None, now: Texts, changes: Sequence[SchemaChange]) -> Iterator[tuple[str, str]]:
    """Source tables whose rules were edited, and what that means, in words that follow the table's name.

    `changes` are those that lead from the tables that the earlier rules made to those that these make.
    """
    made: dict[str, list[SchemaChange]] = {}
    for change in changes:
        made.setdefault(str(change.table), []).append(change)
    for table in dict.fromkeys((*made, *now)):
        own = made.get(table, [])
        new = [change.column.name for change in own if isinstance(change, AddColumn | AlterColumnType)]
        gone = [change.name for change in own if isinstance(change, DropColumn)]
        renamed = [name for each in own if isinstance(each, RenameColumn) for name in (each.old_name, each.new_name)]
        renamed += [name for each in own if isinstance(each, RenameColumns) for pair in each.names for name in pair]
        old, computed = (texts.get(table, {}) for texts in (before or now, now))
        other = [name for name in sorted({*old, *computed}) if old.get(name) != computed.get(name)]
        known = before is not None and table in before
        others = [name for name in other if name and name not in (*new, *gone, *renamed)] if known else []
        if new or gone or others or (known and "" in other):
            yield table, _sentence(table, new, gone, others, filtered=known and "" in other)


def _sentence(table: str, new: list[str], gone: list[str], others: list[str], *, filtered: bool) -> str:
    text = "the rules have changed: "
    if not (new or others or filtered):
        return f"{text}{', '.join(gone)} {'goes' if len(gone) == 1 else 'go'}"
    text += "rows that are there keep what they have"
    text += f", without values in {', '.join(new)}" if new else ""
    text += f", as the earlier rules made {', '.join(others)}" if others else ""
    text += ", those that the earlier filter held back stay out" if filtered else ""
    return f"{text}; `cdc resync FILE {table}` copies them anew"

"""What is known of the pairs of source and sink tables besides their schemas, as the log of tables keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import EngineError
from cdc.evolution.merge import same_key
from cdc.schema import TableId, TableSchema
from cdc.tables.entry import Json, Pair, TableViews


class Part(StrEnum):
    """How far a source table is in a copy of a sink table (`cdc.flow.together`)."""

    WANTED = "wanted"
    """The source has been asked to copy it; what comes of an earlier copy of it does not count."""
    BEGUN = "begun"
    """Its rows come twice: for the table, and for the copy."""
    WHOLE = "whole"
    """Its rows come once, and go to both."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of sink tables besides their schemas.

    Attributes:
        merged: those that several source tables go to, or went to.
        over: whose copies are written over the rows that are there.
        left: rows of the source table are in the sink table from an earlier time, and nobody has followed them since.
        together: what each source table has to do with the copy beside its sink table, where one is under way.
        waiting: rows and changes of the source table do not go to the sink table, until a copy that was asked for
            begins with all of them.
        routes: what led rows to their tables, as `RouteTable.to_json` says; None where nobody has said it.
        paused: those of `waiting` whose source table is paused: no copy brings them back before it is resumed.
        resumed: those of `waiting` that were paused: the next copy replaces the rows that are there, or is written
            over them.
    """

    merged: frozenset[TableId] = frozenset()
    over: frozenset[Pair] = frozenset()
    waiting: frozenset[Pair] = frozenset()
    left: frozenset[Pair] = frozenset()
    together: Mapping[Pair, Part] = field(default_factory=dict)
    routes: Mapping[str, Any] | None = None
    paused: frozenset[Pair] = frozenset()
    resumed: frozenset[Pair] = frozenset()

    @property
    def left_out(self) -> frozenset[TableId]:
        """Source tables whose rows are not wanted at all."""
        return frozenset(source for source, _ in self.paused | self.resumed)


_OF_PAIRS = ("over", "waiting", "left", "paused", "resumed")


def marks_of(views: TableViews) -> Marks:
    """The marks that hold behind a batch."""
    found = {name: frozenset(pair for pair, state in views.pairs.items() if state.get(name)) for name in _OF_PAIRS}
    together = {pair: Part(state["part"]) for pair, state in views.pairs.items() if "part" in state}
    return Marks(merged_tables(views), together=together, routes=views.routes, **found)


def merged_tables(views: TableViews) -> frozenset[TableId]:
    """The sink tables that several source tables go to, or went to."""
    return frozenset(table for table, state in views.sinks.items() if state.get("merged"))


def with_marks(views: TableViews, marks: Marks) -> TableViews:
    """The same tables with these marks."""
    pairs: dict[Pair, dict[str, Any]] = {}
    for name in _OF_PAIRS:
        for pair in getattr(marks, name):
            pairs.setdefault(pair, {})[name] = True
    for pair, part in marks.together.items():
        pairs.setdefault(pair, {})["part"] = str(part)
    sinks: Mapping[TableId, Json] = {table: {"merged": True} for table in marks.merged}
    return replace(views, pairs=pairs, sinks=sinks, routes=marks.routes)


def check_columns(block: ChangeBlock, known: TableSchema, *, exact: bool) -> None:
    """Raise EngineError when a routed block has another key than the sink's table, or other columns though `exact`.

    Their order does not count: a column that is moved in the source stays where it is in the sink.
    """
    if known is block.schema or (
        same_key(known, block.schema) and not (exact and {*known.names} != {*block.schema.names})
    ):
        return
    raise EngineError(
        f"rows with the columns {', '.join(block.schema.names)} and the key {block.schema.primary_key} do not fit "
        f"the sink's table, which has {', '.join(known.names)} and the key {known.primary_key}",
        where=str(block.table),
        hint="the source's log and the state directory are of different pipelines, or this is a defect: report it",
    )

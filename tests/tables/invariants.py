"""Tables of tests, and what holds of them whatever comes."""

from __future__ import annotations

from cdc.route import RouteTable
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.spec.model import RouteRule
from cdc.tables.states import AWAITED, SinkState, Tables, TableState

A, B, C, D = (TableId("shop", name) for name in "abcd")
ONE, ALL = TableId("ods", "one"), TableId("ods", "all")
ID, NOTE = Column("id", DataType.parse("INT"), nullable=False), Column("note", DataType.parse("STRING"))
KEYED, KEYLESS = TableSchema((ID,), ("id",)), TableSchema((ID,))
WIDE = TableSchema((ID, NOTE), ("id",))


def to(*targets: tuple[str, TableId]) -> RouteTable:
    return RouteTable([RouteRule(source_table=source, sink_table=str(sink)) for source, sink in targets])


def check(after: Tables, *, shadows: bool) -> None:
    """The invariants."""
    members: dict[TableId, list[TableState]] = {}
    sources: dict[TableId, set[bool]] = {}
    for (source, table), pair in after.pairs.items():
        if pair.state not in (TableState.ABSENT, TableState.DETACHED):
            members.setdefault(table, []).append(pair.state)
            if pair.state is not TableState.MISSING:
                sources.setdefault(source, set()).add(pair.state is TableState.PAUSED)
            assert source in after.sources, f"{source} is {pair.state}, and not followed"
    for table in {*members, *after.states}:
        state = after.states.get(table, SinkState())
        shadowed = state.shadowed
        states = members.get(table, [])
        assert not {TableState.SHADOW, TableState.FROZEN} & {*states} or shadowed
        assert not shadowed or (shadows and AWAITED & {*states}), f"{table}: {states}"
        assert not shadowed or TableState.OVERWRITE not in states
        alone = ([TableState.FROZEN], [TableState.SHADOW])
        assert state.shadow is None or states in alone, f"{table}: its other source tables have another schema"
    assert all(len(paused) == 1 for paused in sources.values()), "a source table is paused, or is not"


ROUTES = (
    to(), to((r"shop.\.*", ALL)), to(("shop.a|shop.b", ALL)), to(("shop.a", ALL), ("shop.b", ONE)),
    to(("shop.a", ALL), (r"shop.\.*", ONE)),
)  # fmt: skip

"""The transition table as a page of the documentation: `make schemas` rewrites docs/tables.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cdc.block import Stream
from cdc.tables import events as on
from cdc.tables.cells import AS_REQUESTED, CARRIED_OUT, CONDITIONS, NOTICES, OPERATIONS, Case, Cell, Impossible
from cdc.tables.router import To, streams
from cdc.tables.states import MEANING, TableState
from cdc.tables.transitions import TRANSITIONS

_HEAD = """# The life of a table

A *pair* is a source table and one of the sink tables that its rows go to. Each pair is in one state. Events move it to
another: they come from the source, from `cdc pause`, `cdc resume` and `cdc resync`, from an edited pipeline file and
from the sink. All events of a batch come before its rows. What each event does in each state is a table, which the
engine runs and this page is printed from (`make schemas`).

Rows of a source table come in streams. **log** is every change of the source's log. A snapshot reads **rows**; those,
with the changes of the log that they do not hold, are the table. Where no snapshot runs, a change is in both.

A *shadow table* stands beside the table that readers see, the *live* one. A re-snapshot fills it, and it takes the live
table's place in one step (`SwapShadow`) once it is whole. A sink without shadow tables empties the table instead, and
the pair is in the state `snapshot` then.

Source tables with a pair in `requested`, `suspended` or `resumed` are the open orders: the source is asked to snapshot
them again. Nothing else asks.

A test goes through all cells. Random lives of tables come to most of them; these have an answer although no source or
file that keeps its promises leads there:

| event | states | as |
|---|---|---|
| `RowsUncertain` | `shadow`, `frozen`, `overwrite` | the snapshot that runs is void before it (`SnapshotVoid`) |
| `SnapshotBegun`, `SnapshotDone`, `SnapshotVoid` | `detached` | nobody snapshots a table that is not followed |
| `CaptureEnded`, `RouteRemoved` | `absent`, `detached` | only a table that is followed leaves |
| `RowsUnfit` | `absent`, `missing` | only tables that are in the sink are looked at |
| `TableCreated` | `live`, `snapshot`, `missing` | a table is dropped or left before; a source may tell one twice |
"""

_DRAWN = (
    on.TableCreated,
    on.TableChanged,
    on.RowsUncertain,
    on.SnapshotVoid,
    on.SnapshotBegun,
    on.SnapshotDone,
    on.SnapshotRequested,
    on.PauseRequested,
    on.ResumeRequested,
    on.RouteAdded,
    on.TableDropped,
)
"""Events in the diagram; the table has all."""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *_states(), *_diagram(), *_tables(), *_word_tables()]
    return "\n".join(parts).rstrip() + "\n"


def _states() -> Iterator[str]:
    yield "## States\n\n| state | is | the live table gets | the shadow table gets |\n|---|---|---|---|"
    for state in TableState:
        live, shadow = (_listed(streams(state, to)) for to in (To.LIVE, To.SHADOW))
        yield f"| `{state}` | {MEANING[state]} | {live} | {shadow} |"


def _listed(found: frozenset[Stream]) -> str:
    if found == {Stream.LOG, Stream.SNAPSHOT_ROWS}:
        return "log, and rows of the snapshot"
    if found == {Stream.SNAPSHOT_ROWS, Stream.SNAPSHOT_LOG}:
        return "rows of the snapshot, and the log that they do not hold"
    return "".join(found) or "-"


def _diagram() -> Iterator[str]:
    yield "\n## Diagram\n\nWithout the events that end a table's life from every state alike.\n"
    yield "```mermaid\nstateDiagram-v2"
    edges: dict[tuple[TableState, TableState], list[str]] = {}
    for (state, event), cell in TRANSITIONS.items():
        if event in _DRAWN and not isinstance(cell, Impossible):
            for to in dict.fromkeys(case.to for case in cell if case.to is not None and case.to is not state):
                if to is not TableState.DETACHED:
                    edges.setdefault((state, to), []).append(event.__name__)
    for (state, to), events in edges.items():
        yield f"    {state} --> {to}: {', '.join(events)}"
    yield "```"


def _tables() -> Iterator[str]:
    yield (
        "\n## Transitions\n\nOf several cases the first one counts whose conditions all hold. "
        "*stays*: the state is the same after the event."
    )
    for event in on.EVENTS:
        assert event.__doc__ is not None, "events are documented"
        yield f"\n### {event.__name__}\n\n{_sentence(event.__doc__)}\n"
        yield "| states | when | next | operations |\n|---|---|---|---|"
        cells: dict[Cell, list[TableState]] = {}
        for state in TableState:
            cells.setdefault(TRANSITIONS[state, event], []).append(state)
        for cell, states in cells.items():
            yield from _rows(", ".join(f"`{state}`" for state in states), cell)


def _sentence(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _rows(states: str, cell: Cell) -> Iterator[str]:
    if isinstance(cell, Impossible):
        yield f"| {states} | | *impossible* | {cell.why} |"
        return
    for number, case in enumerate(cell):
        when = ", ".join(f"**not** {name[4:]}" if name.startswith("not ") else name for name in case.when)
        to = "*stays*" if case.to is None else f"`{case.to}`"
        yield f"| {states if number == 0 else ''} | {when} | {to} | {_operations_text(case)} |"


def _operations_text(case: Case) -> str:
    notices = [f"notice *{case.notice}*"] if case.notice else []
    return "; ".join([*case.do, *notices])


def _word_tables() -> Iterator[str]:
    yield "\n## Words of the table\n\n| condition | holds when |\n|---|---|"
    yield from (f"| {name} | {text} |" for name, text in CONDITIONS.items())
    yield "\n| operation | does |\n|---|---|"
    yield from (f"| {name} | {text} |" for name, text in OPERATIONS.items())
    yield "\n| notice | text | counted as |\n|---|---|---|"
    for name, text in NOTICES.items():
        word = text.split()[0].rstrip(":")
        counted = f"`{'' if name in CARRIED_OUT else 'held-back '}{word} TABLE`"
        if name in AS_REQUESTED:
            counted += f", `{word} TABLE` where a user has asked for it and the policy lets no rows go"
        yield f"| {name} | `{text}` | {counted} |"


if __name__ == "__main__":
    Path(__file__).resolve().parents[1].joinpath("docs", "tables.md").write_text(page(), encoding="utf-8")

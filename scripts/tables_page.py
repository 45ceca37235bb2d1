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

A *pair* is a source table and one of the sink tables it is routed to. Each pair has one state, which events change.
Events come from the source, from `cdc pause`, `cdc resume` and `cdc resync`, from an edited pipeline file, and from the
sink. All events of a batch are handled before its rows. The engine runs the transition table below, and this page is
generated from it (`make schemas`).

The rows of a source table arrive in three streams:

| stream | rows |
|---|---|
| log | every change in the source's log |
| snapshot rows | the rows that a snapshot reads |
| snapshot log | changes in the log that the rows of the snapshot do not include; together they are the table |

While no snapshot is running, the log and the snapshot log are the same.

Readers see the *live* table. A re-snapshot fills a *shadow table*, which replaces the live table in one step
(`SwapShadow`) once it is complete. A sink without shadow tables empties the live table instead, and the pair is in the
state `snapshot`.

A re-snapshot is requested from the source while a pair of the source table is in the state `requested`, `suspended` or
`resumed`, or if another one was requested during a snapshot.

A test checks every cell. These cells have a result although a correct source and a valid file never lead to them:

| event | states | reason |
|---|---|---|
| `RowsUncertain` | `shadow`, `frozen`, `overwrite` | the running snapshot is declared void first (`SnapshotVoid`) |
| `SnapshotBegun`, `SnapshotDone`, `SnapshotVoid` | `detached` | a table that is not followed has no snapshots |
| `CaptureEnded`, `RouteRemoved` | `absent`, `detached` | the table is not followed already |
| `RowsUnfit` | `absent`, `missing` | only existing sink tables are checked |
| `TableCreated` | `live`, `snapshot`, `missing` | a table is dropped or excluded first; a source may repeat an event |
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
        return "log, snapshot rows"
    if found == {Stream.SNAPSHOT_ROWS, Stream.SNAPSHOT_LOG}:
        return "snapshot rows, snapshot log"
    return "".join(found) or "-"


def _diagram() -> Iterator[str]:
    yield "\n## Diagram\n\nWithout events that have the same effect in every state.\n"
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
        "\n## Transitions\n\nThe first case whose conditions all hold applies. "
        "*stays*: the event does not change the state."
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
    yield "\n## Conditions, operations and notices\n\n| condition | holds when |\n|---|---|"
    yield from (f"| {name} | {text} |" for name, text in CONDITIONS.items())
    yield "\n| operation | does |\n|---|---|"
    yield from (f"| {name} | {text} |" for name, text in OPERATIONS.items())
    yield "\n| notice | text | counted as |\n|---|---|---|"
    for name, text in NOTICES.items():
        word = text.split()[0].rstrip(":")
        counted = f"`{'' if name in CARRIED_OUT else 'held-back '}{word} TABLE`"
        if name in AS_REQUESTED:
            counted += f", `{word} TABLE` if a user has requested it and the policy deletes no rows"
        yield f"| {name} | `{text}` | {counted} |"


if __name__ == "__main__":
    Path(__file__).resolve().parents[1].joinpath("docs", "tables.md").write_text(page(), encoding="utf-8")

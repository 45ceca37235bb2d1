"""The transition table is whole: each event has an answer in each state, and the page shows it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tables_page import page

from cdc.tables.cells import CARRIED_OUT, CONDITIONS, NOTICES, OPERATIONS, Case, Impossible
from cdc.tables.conditions import NAMES
from cdc.tables.events import EVENTS, Event
from cdc.tables.operations import OPERATE
from cdc.tables.states import TableState
from cdc.tables.transitions import TRANSITIONS

CELLS = [(key, cell) for key, cell in TRANSITIONS.items() if not isinstance(cell, Impossible)]


def test_each_event_has_an_answer_in_each_state_and_nothing_else_is_in_the_table() -> None:
    assert TRANSITIONS.keys() == set(product(TableState, EVENTS))


def test_the_conditions_of_cells_leave_nothing_out_and_every_case_can_be_taken() -> None:
    for key, cell in CELLS:
        _check_conditions(key, cell)


def _check_conditions(key: tuple[TableState, type[Event]], cell: tuple[Case, ...]) -> None:
    names = sorted({name.removeprefix("not ") for case in cell for name in case.when})
    taken = set()
    for values in product((False, True), repeat=len(names)):
        found = dict(zip(names, values, strict=True))
        first = next(
            (
                place
                for place, case in enumerate(cell)
                if all(found[name.removeprefix("not ")] is not name.startswith("not ") for name in case.when)
            ),
            None,
        )
        assert first is not None, f"{key}: no case for {found}"
        taken.add(first)
    assert taken == {*range(len(cell))}, key


def test_words_are_explained_and_carried_out() -> None:
    cases = [case for _, cell in CELLS for case in cell]
    assert {name.removeprefix("not ") for case in cases for name in case.when} == CONDITIONS.keys() == NAMES
    assert {name for case in cases for name in case.do} == OPERATIONS.keys() == OPERATE.keys()
    assert {case.notice for case in cases} - {""} == NOTICES.keys()
    assert NOTICES.keys() > CARRIED_OUT


def test_the_page_is_printed_from_the_table() -> None:
    kept = Path(__file__).parents[2] / "docs" / "tables.md"
    assert kept.read_text(encoding="utf-8") == page(), "run `make schemas`"

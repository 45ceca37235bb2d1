"""Which tests a run has: the tiers of `docs/architecture.md`, Tests.

A behaviour that is tried on several servers, with several cases, is tried with each case on one server in turn by
`make test`, so that each case and each server is met; all pairs are the exhaustive tier's. A behaviour without cases
is tried on all servers by both, but where the servers make little difference.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from servers import FLAVORS

ALIKE = (FLAVORS, ("doris", "starrocks"), ("opensearch", "elasticsearch"))
"""Servers that one piece of code speaks with, as parameters have them."""

ONE_SERVER_EACH = (
    "tests/differential/", "tests/verify/", "tests/connectors/mysql/snapshot/", "tests/test_plan_live.py",
    "tests/connectors/mysql/follow/test_unlogged.py", "tests/crash/test_load_bad_input.py",
)  # fmt: skip
"""Where what is tried is behind the servers' differences: tests of a file are on one server in turn, also those without
cases."""

EXHAUSTIVE = pytest.mark.exhaustive

_OF_A_FILE = re.compile(r"^pytestmark = (?:\[.*?\]|[^\n]*)", re.MULTILINE | re.DOTALL)


def in_turn(number: int, of: int) -> pytest.MarkDecorator:
    """For classes that try the same behaviours on servers of one kind: `make test` tries those with this number, modulo
    `of`."""
    return pytest.mark.in_turn(number, of)


def crossed(names: str, first: Sequence[Any], second: Sequence[Any]) -> pytest.MarkDecorator:
    """All pairs of the values of two parameters. `make test` has each value of the first with one of the second, in
    turn."""
    return pytest.mark.parametrize(
        names.split(", "),
        [
            pytest.param(one, other, marks=() if (number - place) % len(second) == 0 else EXHAUSTIVE)
            for number, one in enumerate(first)
            for place, other in enumerate(second)
        ],
    )


def one_in(every: int, values: Sequence[Any]) -> list[Any]:
    """Values of a parameter, of which `make test` has one in so many."""
    groups = [one if isinstance(one, tuple) else (one,) for one in values]
    return [pytest.param(*one, marks=EXHAUSTIVE if number % every else ()) for number, one in enumerate(groups)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is tried by another case or by another server already."""
    groups: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(lambda: defaultdict(dict))
    turns: dict[type, dict[str, int]] = defaultdict(dict)
    for item in items:
        if isinstance(item, pytest.Function):
            _note(item, groups)
            _mark_in_turn(item, turns)
    for cases in groups.values():
        for number, servers in enumerate(cases.values()):
            if len(cases) > 1 and len(servers) > 1:
                for other in range(1, len(servers)):
                    list(servers.values())[(number + other) % len(servers)].add_marker(EXHAUSTIVE)


def _note(item: pytest.Function, groups: dict[str, dict[str, dict[str, pytest.Item]]]) -> None:
    """Sort a test that has a server as parameter by its behaviour, its case and its server."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    servers = [name for name, value in given.items() if isinstance(value, str) and any(value in each for each in ALIKE)]
    if len(servers) == 1 and item.get_closest_marker("every_server") is None:
        case = "-".join(part for part in item.callspec.id.split("-") if part != given[servers[0]])
        behaviour, _, own = item.nodeid.partition("[")[0].rpartition("::")
        # The behaviours of a class are its cases, and so are those of some files.
        together = item.cls is not None or (not case and item.nodeid.startswith(ONE_SERVER_EACH))
        group, case = (behaviour, f"{own} {case}") if together else (f"{behaviour}::{own}", case)
        groups[group][case][given[servers[0]]] = item


def _mark_in_turn(item: pytest.Function, turns: dict[type, dict[str, int]]) -> None:
    mark = item.get_closest_marker("in_turn")
    if mark is not None and item.cls is not None:
        number, of = mark.args
        own = turns[item.cls]
        if own.setdefault(item.name, len(own)) % of != number:
            item.add_marker(EXHAUSTIVE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests are all of a tier that is left out is not even imported: that takes longer than many tests."""
    left_out = re.findall(r"not (\w+)", config.option.markexpr)
    if not left_out or collection_path.suffix != ".py":
        return None
    found = _OF_A_FILE.search(collection_path.read_text(encoding="utf-8"))
    return True if found and re.search(rf"\bmark\.(?:{'|'.join(left_out)})\b", found[0]) else None

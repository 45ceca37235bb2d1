"""Every example in `pipelines/` has tests beside it, and they pass."""

from __future__ import annotations

from pathlib import Path

from together import together

from cdc.testing.command import run_tests
from cdc.testing.suite import SUFFIX

PIPELINES = sorted(
    path for path in (Path(__file__).parents[1] / "pipelines").glob("*.yaml") if not path.name.endswith(SUFFIX)
)


@together("file", PIPELINES)
def test_the_tests_beside_an_example_pass(file: Path) -> None:
    outcomes = list(run_tests(str(file)))
    assert [(each.where, each.name, *each.differences) for each in outcomes if each.differences] == []
    assert outcomes

"""Random rules, routes, behaviors and schema changes against a model in plain Python, row at a time.

`make chaos` draws other seeds.
"""

from __future__ import annotations

import pytest

from tests.middle_model import differing


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 20, 40])
def test_random_pipelines_do_what_the_model_says(first: int) -> None:
    assert differing(range(first, first + 20)) == []

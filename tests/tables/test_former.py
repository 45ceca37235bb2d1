"""Random lives of tables come to the same in the state machine as in the code that it is to replace."""

from __future__ import annotations

import pytest
from former import Lives


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_lives_come_to_the_same(first: int) -> None:
    assert sum(Lives(seed).run() for seed in range(first, first + 100)) > 500

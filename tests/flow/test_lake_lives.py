"""A few random lives into each lake, judged by foreign readers; `make chaos` lives more of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from lake_lives import live

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("lake", ["iceberg", "paimon", "paimon-rest"])
def test_a_random_life_ends_with_the_rows_of_the_source(lake: str, seed: int, tmp_path: Path) -> None:
    live(lake, seed, tmp_path)

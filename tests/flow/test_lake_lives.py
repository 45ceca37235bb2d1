"""A few random lives into each lake, judged by foreign readers; `make chaos` lives more of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from lake_lives import live
from tiers import crossed

pytestmark = pytest.mark.slow


@crossed("lake, seed", ["iceberg", "iceberg-rest", "paimon", "paimon-rest"], range(2))
def test_a_random_life_ends_with_the_rows_of_the_source(lake: str, seed: int, tmp_path: Path) -> None:
    live(lake, seed, tmp_path)

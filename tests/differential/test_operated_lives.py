"""A few of `make chaos`'s lives of tables under an operator's hands."""

from __future__ import annotations

from pathlib import Path

import pytest
from operated_lives import differing_life
from tiers import EXHAUSTIVE

from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.mysql, pytest.mark.timeout(600), pytest.mark.usefixtures("files_stay_open")]


@pytest.mark.parametrize("seed", [22, pytest.param(23, marks=EXHAUSTIVE)])
def test_tables_that_are_operated_on_end_equal(any_server: MySqlServer, seed: int, tmp_path: Path) -> None:
    """Seed 22 edits the rule of a table without a key."""
    assert differing_life(any_server, seed, tmp_path) == ""

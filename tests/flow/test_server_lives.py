"""A few random lives into documents and databases; `make chaos` lives more of them, and kills the servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from server_lives import live

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "server", "seed"),
    [
        ("opensearch", "opensearch", 1),
        ("mysql", "mysql_sink_server", 0),
        pytest.param("oceanbase", "oceanbase_sink_server", 1, marks=pytest.mark.exhaustive),
    ],
)
def test_a_random_life_ends_with_the_rows_of_the_source(
    kind: str, server: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    live(request.getfixturevalue(server), kind, seed, tmp_path)

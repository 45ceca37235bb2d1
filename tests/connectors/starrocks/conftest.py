"""Stand-ins of the StarRocks tests: one for each module, which may break it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starrocks_harness import Harness
from starrocks_servers import StarRocksServer, own_starrocks


@pytest.fixture(scope="module")
def own_server() -> Iterator[StarRocksServer]:
    with own_starrocks() as server:
        yield server


@pytest.fixture
def harness(own_server: StarRocksServer, tmp_path: Path) -> Harness:
    """A pipeline of its own on an empty server that runs and has no faults armed."""
    standin = own_server.standin
    assert standin is not None
    standin.clear()
    standin.be_up()
    own_server.query("DROP DATABASE IF EXISTS shop FORCE")
    return Harness(own_server, tmp_path / "state")

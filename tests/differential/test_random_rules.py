"""Random rules, routes, behaviors, DDL and rows from live servers into sinks, against a model in plain Python.

Batches die at every point of the protocol. `make chaos` draws other seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_runs import differing_world

from cdc_services.server import MySqlServer


@pytest.mark.mysql
@pytest.mark.parametrize(("kind", "seed"), [("duckdb", 2), ("starrocks", 1)])
def test_the_sink_holds_what_the_model_says(kind: str, seed: int, mysql_server: MySqlServer, tmp_path: Path) -> None:
    assert differing_world(mysql_server, kind, seed, tmp_path) == []


@pytest.mark.mysql
def test_the_same_from_mariadb(mariadb_server: MySqlServer, tmp_path: Path) -> None:
    assert differing_world(mariadb_server, "doris", 3, tmp_path) == []

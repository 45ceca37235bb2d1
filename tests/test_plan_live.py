"""`cdc plan` against real servers, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_services.server import MySqlServer

PIPELINE = """source:
  type: mysql
  hostname: {host}
  port: {port}
  username: {user}
  password: ${{DB_PASSWORD}}
  tables: {database}.\\.*
  tables.exclude: {database}.tmp
  scan.startup.mode: latest-offset
sink:
  type: duckdb
  path: out/plan.duckdb
route:
  - source-table: {database}.\\.*
    sink-table: ods.<>
    replace-symbol: <>
pipeline:
  schema.change.behavior: evolve
"""


def _planned(server: MySqlServer, database: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "p.yaml"
    file.write_text(PIPELINE.format(host=server.host, port=server.port, user=server.user, database=database))
    return subprocess.run(
        [sys.executable, "-m", "cdc", "plan", str(file)],
        capture_output=True, text=True, check=False, env={**os.environ, "DB_PASSWORD": server.password},
    )  # fmt: skip


@pytest.mark.mysql
def test_a_plan_shows_what_would_be_done_and_changes_nothing(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("plan")
    any_server.execute(
        "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, total DECIMAL(12, 2) NOT NULL, note VARCHAR(40))",
        "CREATE TABLE log (line TEXT)",
        "CREATE TABLE tmp (x INT)",
        database=database,
    )
    done = _planned(any_server, database, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "pipeline p: mysql -> duckdb, 2 tables"
    assert f"{database}.log -> ods.log  (to be created)" in lines
    assert f"{database}.orders -> ods.orders  (to be created)" in lines
    assert "    id     BIGINT UNSIGNED NOT NULL" in lines
    assert "    total  DECIMAL(12, 2) NOT NULL" in lines
    assert "    primary key (id)" in lines
    assert any(line.startswith("  would run: CREATE TABLE") for line in lines)
    assert any_server.password not in done.stdout
    assert {path.name for path in tmp_path.rglob("*")} == {"p.yaml"}


@pytest.mark.mysql
def test_a_plan_tells_which_changes_the_log_will_not_hold(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("plan")
    any_server.execute(
        "CREATE TABLE parent (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT belongs FOREIGN KEY (p) REFERENCES parent (id) "
        "ON DELETE CASCADE) ENGINE=InnoDB",
        database=database,
    )
    done = _planned(any_server, database, tmp_path)
    assert done.returncode == 0
    warning = f"{database}.child: what its foreign key belongs does (ON DELETE CASCADE) is not in this server's log"
    assert (warning in done.stderr) == (any_server.flavor == "mariadb")


@pytest.mark.mysql
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_mask_that_would_apply_to_no_table_is_refused(any_server: MySqlServer, tmp_path: Path, command: str) -> None:
    database = any_server.new_database("mask")
    any_server.execute("CREATE TABLE users (id INT PRIMARY KEY, email TEXT)", database=database)
    file = tmp_path / "p.yaml"
    rule = f"transform:\n  - source-table: {database}.user\\_\n    mask: {{email: REDACT}}\n"
    text = PIPELINE.format(host=any_server.host, port=any_server.port, user=any_server.user, database=database)
    file.write_text(rule + text)
    env = {**os.environ, "DB_PASSWORD": any_server.password}
    done = subprocess.run(
        [sys.executable, "-m", "cdc", command, str(file)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 2
    assert f"p.yaml:2:19: transform[0].source-table: no table matches `{database}.user\\_`" in done.stderr
    assert "pipeline.unmatched-patterns: warn" in done.stderr

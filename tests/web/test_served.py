"""`cdc serve` with three pipelines, read back through the page, the REST API, Prometheus and the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cdc_process import mysql_pipeline, wait_for
from prometheus_client.parser import text_string_to_metric_families

from cdc_services.server import MySqlServer

SCHEDULED = """
source: {type: values, rows: [{table: shop.days, op: insert, row: {id: 1}}]}
sink: {type: duckdb, path: nightly.duckdb}
pipeline: {schedule: every 1 s}
"""
FAILING = """
source: {type: mysql, hostname: 127.0.0.1, port: PORT, username: nobody, password: very-secret, tables: 'x.\\.*'}
sink: {type: duckdb, path: failing.duckdb}
"""


class Served:
    """The running server: what it logs, and requests to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, list[str]()
        threading.Thread(target=self._read, daemon=True).start()
        self.url = wait_for("the address of the page", self._address)

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines += [""]
        for line in self.process.stderr:
            self.lines.append(line)

    def _address(self) -> str | None:
        assert self.process.poll() is None, "".join(self.lines)
        found = re.search(r"http://127\.0\.0\.1:\d+/", "".join(self.lines))
        return found[0] if found else None

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def api(self, path: str) -> Any:
        return json.loads(self.get(f"api/v1/{path}"))

    def post(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.url}api/v1/{path}", b"", {"X-CDC-Request": "1"}, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.api("pipelines")["pipelines"]}


@contextmanager
def served(folder: Path, env: dict[str, str]) -> Iterator[Served]:
    command = [sys.executable, "-m", "cdc", "serve", str(folder), "--port", "0", "--master", "local[1]"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)
    try:
        yield Served(process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(120)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.mysql
def test_everything_can_be_read_back_everywhere(mysql_server: MySqlServer, tmp_path: Path) -> None:
    database = mysql_server.new_database("served")
    mysql_server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)", database=database)
    pipeline = mysql_pipeline(tmp_path / "shop", mysql_server, f"{database}.t")
    pipeline.write()
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "shop.yaml").write_text(pipeline.file.read_text().replace("name: proof", "name: shop"))
    (folder / "nightly.yaml").write_text(SCHEDULED)
    (folder / "failing.yaml").write_text(FAILING.replace("PORT", str(mysql_server.port)))
    env = {**os.environ, "MYSQL_PASSWORD": mysql_server.password}
    with served(folder, env) as server:
        wait_for("the pipelines", lambda: {"shop", "nightly", "failing"} <= set(server.states()))
        wait_for("the copy", lambda: server.api("pipelines/shop")["rows"] >= 2)
        mysql_server.execute("INSERT INTO t VALUES (3)", database=database)
        mysql_server.execute("ALTER TABLE t ADD COLUMN note VARCHAR(9)", database=database)
        wait_for("the change", lambda: server.api("pipelines/shop")["status"]["schema"]["applied"] >= 2)
        wait_for("the failure", lambda: server.states()["failing"] == "failed")
        wait_for("a scheduled run", lambda: any(run["outcome"] for run in server.api("pipelines/nightly")["runs"]))

        assert server.states()["shop"] == "running"
        (error,) = server.api("pipelines/failing/errors")["errors"][:1]
        assert error["hint"]
        versions = server.api("pipelines/shop/schemas")["tables"][f"{database}.t"]
        assert [column["name"] for column in versions[-1]["columns"]] == ["id", "note"]
        batches = server.api("pipelines/shop/batches")["batches"]
        assert {"read", "prepare", "decide", "commit"} <= set().union(*(batch["phases"] for batch in batches))

        samples = {
            (sample.name, sample.labels.get("pipeline"), sample.labels.get("state")): sample.value
            for family in text_string_to_metric_families(server.get("metrics"))
            for sample in family.samples
        }
        assert samples["cdc_up", "shop", None] == 1
        assert samples["cdc_rows_read_total", "shop", None] >= 3
        assert samples["cdc_state", "failing", "failed"] == 1

        page = server.get("pipelines/shop")
        assert f"{database}.t" in page
        assert "add.column note" in page
        shown = subprocess.run(
            [sys.executable, "-m", "cdc", "status", str(folder / ".cdc" / "shop"), "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(shown.stdout)["alive"]

        everything = "".join(
            server.get(path) for path in ("", "pipelines/failing", "api/v1/pipelines/failing", "metrics")
        )
        assert "very-secret" not in everything
        assert mysql_server.password not in page + server.get("api/v1/pipelines/shop")

        server.post("pipelines/shop/stop")
        wait_for("the stop", lambda: server.states()["shop"] == "stopped")
    assert server.process.returncode == 0, "".join(server.lines)

"""`cdc serve` as a process with a real server behind it: one pipeline that runs on, one on schedule, one that fails."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from cdc_process import TIMEOUT_S, wait_for
from prometheus_client.parser import text_string_to_metric_families

from cdc.serve.client import Served, find_server
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.slow, pytest.mark.timeout(900)]


ROOT = Path(__file__).resolve().parents[2]


class Serving:
    """A folder with three pipelines, the server of it, and the commands."""

    def __init__(self, folder: Path, server: MySqlServer, database: str) -> None:
        self.folder, self.root = folder, folder / ".cdc"
        self._source = {
            "type": "mysql", "hostname": server.host, "port": server.port, "username": server.user,
            "password": server.password, "tables": f"{database}.orders",
        }  # fmt: skip
        self.write("live")
        self.write("timed", schedule="every 2 s")
        self._source |= {"port": 1, "connect.max-retries": 0}
        self.write("failing", restart="fixed-delay", **{"restart.fixed-delay.delay": "1 ms"})
        (folder / "wrong.yaml").write_text("source: 1\n")
        self._log = (folder / "serve.log").open("w")
        self._environment = {**os.environ, "CDC_STATE_ROOT": str(self.root)}
        command = ["serve", str(folder), "--port", "0", "--master", "local[2]"]
        self.process = subprocess.Popen(self._cdc(*command), stderr=self._log, env=self._environment)

    def write(self, name: str, **pipeline: Any) -> None:
        sink = {"type": "duckdb", "path": f"{name}.duckdb", "lock-timeout": "60 s"}
        document = {"source": self._source, "sink": sink, "pipeline": pipeline}
        spare = self.folder / f".{name}"
        spare.write_text(yaml.safe_dump(document))
        spare.rename(self.folder / f"{name}.yaml")

    def _cdc(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", "from cdc.cli import main; main()", *arguments]

    def cdc(self, *arguments: str) -> str:
        done = subprocess.run(
            self._cdc(*arguments), capture_output=True, text=True, env=self._environment, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def api(self) -> Served:
        found = find_server(self.root)
        assert found is not None
        return found

    def one(self, name: str) -> dict[str, Any]:
        return self.api.get(f"pipelines/{name}")

    def wait(self, what: str, condition: Callable[[], Any]) -> Any:
        assert self.process.poll() is None, self.log
        return wait_for(what, condition)

    def rows(self, name: str) -> int:
        """Rows in the sink, -1 as long as it cannot be read."""
        with suppress(duckdb.Error), duckdb.connect(str(self.folder / f"{name}.duckdb"), read_only=True) as connection:
            found = connection.execute("SELECT table_schema FROM information_schema.tables WHERE table_name = 'orders'")
            (schema,) = found.fetchone() or ("",)
            (count,) = connection.execute(f'SELECT count(*) FROM "{schema}".orders').fetchone() or (-1,)
            return int(count)
        return -1

    def page(self, path: str) -> str:
        with urllib.request.urlopen(self.api.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    @property
    def log(self) -> str:
        return (self.folder / "serve.log").read_text()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


@pytest.fixture
def database(mysql_server: MySqlServer) -> str:
    name = mysql_server.new_database("serve")
    mysql_server.execute("CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1)", database=name)
    return name


@pytest.fixture
def serving(tmp_path: Path, mysql_server: MySqlServer, database: str) -> Iterator[Serving]:
    serving = Serving(tmp_path, mysql_server, database)
    yield serving
    serving.close()


def test_three_pipelines_and_what_is_told_of_them(serving: Serving, mysql_server: MySqlServer, database: str) -> None:
    serving.wait("the server's word", lambda: find_server(serving.root))
    serving.wait("the copy", lambda: serving.rows("live") == serving.rows("timed") == 1)
    failing = serving.wait("the failure", lambda: (found := serving.one("failing"))["state"] == "failed" and found)
    assert failing["last_error"]["type"] == "SourceUnavailable"
    assert "is the server running there" in failing["last_error"]["hint"]
    assert [run["why"] for run in failing["runs"]] == ["restart", "start"]
    ended = serving.wait("two runs on schedule", lambda: len(runs := finished(serving.one("timed"))) > 1 and runs)
    assert {run["why"] for run in ended} == {"schedule"}

    mysql_server.execute("INSERT INTO orders VALUES (2), (3)", database=database)
    serving.cdc("stop", "live", "--drain")
    assert (serving.rows("live"), serving.one("live")["state"]) == (3, "stopped")
    kept = Path(serving.cdc("savepoint", "live").strip().removeprefix("The savepoint is in ").removesuffix("."))
    assert json.loads((kept / "savepoint.json").read_text())["name"] == "live"
    serving.cdc("start", "live")
    mysql_server.execute("INSERT INTO orders VALUES (4)", database=database)
    serving.wait("the row after a start", lambda: serving.rows("live") == 4)
    serving.wait("the word of it", lambda: serving.one("live")["state"] == "running")

    listed = {each["name"]: each for each in json.loads(serving.cdc("list", "--json"))}
    assert {name: each["state"] for name, each in listed.items() if name != "timed"} == {
        "failing": "failed", "live": "running", "wrong": "invalid",
    }  # fmt: skip
    assert "wrong.yaml:1:9: source: must be a mapping" in "".join(listed["wrong"]["file_errors"])
    assert "batch committed" in serving.cdc("logs", "live")
    assert all(f">{name}<" in serving.page("") for name in listed)
    check_pause(serving, mysql_server, database)
    check_told_everywhere(serving)
    assert mysql_server.password not in serving.page("api/v1/pipelines/live") + serving.log

    assert serving.end() == 0
    assert find_server(serving.root) is None


def check_pause(serving: Serving, mysql_server: MySqlServer, database: str) -> None:
    """A table is paused and resumed while its pipeline runs."""
    orders = f"{database}.orders"
    assert "is paused from the next batch on" in serving.api.post("live", "pause", table=orders)
    mysql_server.execute("INSERT INTO orders VALUES (5)", database=database)
    serving.wait("the pause", lambda: orders in (serving.one("live")["status"]["paused"] or []))
    assert "will be re-snapshotted" in serving.api.post("live", "resume", table=orders)
    serving.wait("the copy", lambda: serving.rows("live") == 5)
    serving.wait("the word of it", lambda: serving.one("live")["paused"] == [])


def check_told_everywhere(serving: Serving) -> None:
    """Each of the three by the command line, the API, Prometheus and its page."""
    assert "SourceUnavailable" in serving.cdc("status", "failing")
    batches = serving.api.get("pipelines/live/batches")["batches"]
    assert {"read", "prepare", "commit"} <= {phase for batch in batches for phase in batch["phases"]}
    assert serving.api.get("pipelines/failing/errors")["errors"][0]["kind"] == "SourceUnavailable"
    timed = serving.one("timed")
    assert (timed["schedule"], timed["next_run_s"] is not None or timed["state"] != "scheduled") == ("every 2 s", True)
    serving.wait("the copy's word", lambda: re.search(r'snapshotEndTime{[^}]*"live"', serving.page("metrics")))
    metrics = serving.page("metrics").splitlines()
    check_metrics(serving, metrics)
    assert 'cdc_up{pipeline="live"} 1.0' in metrics
    assert 'cdc_state{pipeline="failing",state="failed"} 1.0' in metrics
    assert any(line.startswith('cdc_runs_total{pipeline="timed"} ') and float(line.split()[-1]) > 1 for line in metrics)
    assert ">running<" in serving.page("pipelines/live")
    assert "every 2 s" in serving.page("pipelines/timed")
    assert "is the server running there" in serving.page("pipelines/failing")


def check_metrics(serving: Serving, lines: list[str]) -> None:
    """A run that goes on exports every metric that the page of the documentation has, with values that can be."""
    samples = {}
    for family in text_string_to_metric_families("\n".join(lines)):
        for sample in family.samples:
            if sample.labels.pop("pipeline") == "live":
                samples[(sample.name, *sample.labels.values())] = sample.value
    found = {name for name, *_ in samples}
    page = (ROOT / "docs" / "monitoring.md").read_text()
    documented = set(re.findall(r"^\| `((?:cdc|flink)_\w+)` \|", page, re.MULTILINE))
    assert found == documented
    now = time.time()
    assert 0 < samples["cdc_start_timestamp_seconds",] < samples["cdc_last_commit_timestamp_seconds",] <= now
    assert 0 <= samples["cdc_lag_seconds",] < 900
    assert 0 <= samples["cdc_lag_bytes",] < 1 << 20
    assert 1 <= samples["cdc_rows_written_total", "insert"] < 100
    assert 1 <= samples["cdc_rows_read_total",] < 100
    assert samples["cdc_state", "running"] == samples["cdc_up",] == 1
    assert 0 < samples["cdc_batch_duration_seconds",] < 900
    assert samples["cdc_batch_phase_seconds_total", "commit"] > 0


def finished(view: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for run in view["runs"] if run["outcome"] == "finished"]

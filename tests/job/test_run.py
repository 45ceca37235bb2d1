"""`cdc run` as users start it: exit codes, what it prints, clean stops, and starting again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cdc_process import TIMEOUT_S, wait_for
from servers import source_of
from tiers import EXHAUSTIVE

from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = [
    {"change": "create.table", "table": "shop.orders", "schema": {
        "columns": [{"name": "id", "type": "INT", "nullable": False}, {"name": "note", "type": "STRING"}],
        "primary_key": ["id"]}},
    {"table": "shop.orders", "op": "+I", "row": {"id": 1, "note": "first"}},
    {"table": "shop.orders", "op": "-U", "row": {"id": 1, "note": "first"}},
    {"table": "shop.orders", "op": "+U", "row": {"id": 1, "note": "changed"}},
    {"change": "truncate.table", "table": "shop.orders"},
    {"table": "shop.orders", "op": "+I", "row": {"id": 2, "note": "second"}},
    {"table": "shop.orders", "op": "-D", "row": {"id": 2, "note": "second"}},
]  # fmt: skip


TRIPLE = "def eval(a: int) -> int:\n    return a * 3\n"
RULE = {"source-table": "shop.orders", "projection": "*, triple(id) AS more", "filter": "id > 2"}


class Folder:
    """A pipeline file and runs of it, each in a process group of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._running: list[subprocess.Popen[str]] = []

    def write(
        self, source: dict[str, Any], sink: dict[str, Any] | None = None, rules: list[dict[str, str]] | None = None
    ) -> None:
        document = {
            "source": source, "sink": sink or {"type": "values", "path": str(self.path / "out.jsonl")},
            "transform": rules or [],
            "pipeline": {"name": "p", "schema.change.behavior": "evolve", "parallelism": 2,
                         "user-defined-function": [{"name": "triple", "python-code": TRIPLE}]},
        }  # fmt: skip
        (self.path / "p.yaml").write_text(yaml.safe_dump(document))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from cdc.cli import main; main()", "run", str(self.path / "p.yaml")]
        with (self.path / "out").open("w") as out, (self.path / "err").open("w") as err:
            process = subprocess.Popen(
            [*command, "--master", "local[1,4]", *arguments], cwd=self.path, text=True, start_new_session=True,
            stdout=out, stderr=err, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._running.append(process)
        return process

    def run(self, *arguments: str, expect: int = 0) -> None:
        self.ends(self.start(*arguments), expect)

    def ends(self, process: subprocess.Popen[str], expect: int = 0) -> None:
        assert process.wait(TIMEOUT_S) == expect, self.out + self.err
        assert "Python Proxy" not in self.err
        assert "Traceback" not in self.err

    @property
    def records(self) -> list[dict[str, Any]]:
        """Log lines as JSON; there must be nothing else."""
        return [json.loads(line) for line in self.err.splitlines()]

    @property
    def out(self) -> str:
        return (self.path / "out").read_text()

    @property
    def err(self) -> str:
        return (self.path / "err").read_text()

    def says(self, text: str, process: subprocess.Popen[str]) -> None:
        wait_for(f"{text!r} on stderr", lambda: text in self.err or process.poll() is not None)
        assert text in self.err, self.out + self.err

    def begun(self, process: subprocess.Popen[str]) -> None:
        """Wait until the pipeline knows where it starts."""
        found = ".cdc/*/initial_offset.json"
        wait_for("the start", lambda: list(self.path.glob(found)) or process.poll() is not None)

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.close()


def test_a_bounded_pipeline_runs_to_its_end_once(folder: Folder) -> None:
    folder.write({"type": "values", "rows": ROWS})
    leftover = folder.path / ".cdc" / "p" / "checkpoint" / "offsets" / ".0.6cdc4639.tmp"  # of a kill at the first write
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    folder.run()
    assert folder.out.splitlines()[:3] == [
        "table        inserts  updates  deletes  schema changes",
        "-----------  -------  -------  -------  --------------",
        "shop.orders        2        1        1               2",
    ]
    assert "4 changes in 2 batches" in folder.out
    assert "batch committed batch=1 tables=1 rows=2" in folder.err
    written = (folder.path / "out.jsonl").read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["op"] for line in lines if "op" in line] == ["+I", "-U", "+U", "+I", "-D"]

    added = [{"table": "shop.orders", "op": "+I", "row": {"id": number}} for number in (2, 3)]
    folder.write({"type": "values", "rows": [*ROWS, *added]}, rules=[RULE])
    folder.run("--log-format", "json", "--until-caught-up")  # what was added, after the rule that is new
    records = folder.records
    assert folder.out == ""
    assert ": values -> values, schema changes: evolve" in records[0]["message"]
    assert (records[-1]["message"], records[-1]["rows"], records[-1]["batches"]) == ("summary", 1, 1)
    assert "existing rows keep their values, without values in more" in folder.err
    text = (folder.path / "out.jsonl").read_text()
    assert text.startswith(written)
    change, row = (json.loads(line) for line in text.removeprefix(written).splitlines() if "commit" not in line)
    assert (change["change"], change["column"]["name"]) == ("add.column", "more")
    assert row["row"] == {"id": 3, "note": None, "more": 9}


@EXHAUSTIVE
def test_what_fails_decides_the_exit_code(folder: Folder) -> None:
    """Without Spark: `test_cli.py` has the codes, `test_error_transport.py` the errors of readers and tasks."""
    folder.write({"type": "values", "rows": ROWS, "unknown": 1})
    folder.run(expect=2)
    path = folder.path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS[:2]) + "\nno json\n")
    folder.write({"type": "values", "path": str(path)})
    folder.run("--log-format", "json", expect=3)
    last = folder.records[-1]
    assert (last["level"], last["where"], last["exit_code"]) == ("error", f"{path}:3", 3)
    assert last["message"].startswith("is not JSON")
    path.write_text("\n".join(json.dumps(row) for row in ROWS[:2]) + "\n")
    folder.write({"type": "values", "path": str(path)}, {"type": "values", "path": str(folder.path)})
    folder.run(expect=4)
    assert folder.err.splitlines()[-1].startswith("cdc: ")  # after all that is printed while Spark ends
    folder.write({"type": "binlog-files", "path": "x.*", "tables": "shop.t"})
    folder.run(expect=5)  # the state directory is the other pipeline's
    assert "belongs to a pipeline that reads values" in folder.err
    folder.write({"type": "values", "path": str(path)})
    folder.run()  # and after all of that nothing was lost
    assert "1 change in" in folder.out


@EXHAUSTIVE
@pytest.mark.mysql
def test_a_live_pipeline_stops_cleanly_and_goes_on(folder: Folder, mysql_server: MySqlServer) -> None:
    """After a stop, after the death of Java, which is an error of the engine, and after Ctrl-C. `make test` stops runs
    in `tests/crash/test_state_dir.py` and goes on after a stop in `tests/serve/test_serve.py`; the death of Java is in
    `test_watch.py`."""
    database = mysql_server.new_database("run")
    mysql_server.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    folder.write(source_of(mysql_server, rf"{database}.\.*", **{"scan.startup.mode": "latest-offset"}))
    process = folder.start("--log-format", "json")
    folder.begun(process)
    mysql_server.execute("INSERT INTO t VALUES (1)", database=database)
    folder.says('"rows": 1', process)
    process.send_signal(signal.SIGTERM)
    folder.ends(process)
    records = folder.records
    assert "stopping after the running batch; a second signal aborts it" in [record["message"] for record in records]
    assert records[-1]["tables"][f"{database}.t"]["inserts"] == 1

    process = folder.start("--log-format", "json")
    mysql_server.execute("INSERT INTO t VALUES (2), (3)", database=database)
    folder.says('"rows": 2', process)
    mysql_server.execute("INSERT INTO t VALUES (4)", database=database)
    (lock,) = folder.path.glob(".cdc/*/lock")
    os.kill(json.loads(lock.read_text())["java"], signal.SIGKILL)
    assert process.wait(TIMEOUT_S) == 5
    assert (folder.records[-1]["message"], folder.out) == ("Spark's Java process has ended", "")

    process = folder.start()  # row 4 may have been committed before Java was killed
    mysql_server.execute("INSERT INTO t VALUES (5)", database=database)
    wait_for("row 5", lambda: '"id": 5' in (folder.path / "out.jsonl").read_text() or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: Java and the Python workers get it too
    folder.ends(process)
    assert f"{database}.t" in folder.out
    written = [json.loads(line) for line in (folder.path / "out.jsonl").read_text().splitlines()]
    assert [line["row"]["id"] for line in written if "op" in line] == [1, 2, 3, 4, 5]

"""The Python API as a program uses it: in a process of its own where Spark runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from servers import source_of

import cdc
from cdc.errors import SourceUnavailable, StateError
from cdc_services.server import MySqlServer

ROOT = Path(__file__).resolve().parents[1]
FIVE = ROOT / "tests" / "golden" / "spec" / "five_mistakes.yaml"
SOUND = "source:\n  type: values\n  rows: []\nsink:\n  type: values\n"
REFUSING = {
    "source": {
        "type": "mysql", "hostname": "127.0.0.1", "port": 1, "username": "app", "password": "hunter2", "tables": "a.b",
        "connect.max-retries": 0,
    },
    "sink": {"type": "values"},
}  # fmt: skip


def program(text: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], cwd=folder, env={**os.environ, **env}, capture_output=True, text=True,
        timeout=500, check=False,
    )  # fmt: skip


def test_the_import_loads_nothing_heavy_and_the_names_are_complete(tmp_path: Path) -> None:
    done = program(
        "import sys, cdc\n"
        "heavy = {'pyspark', 'pydantic', 'pyarrow', 'pandas', 'typer', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert set(cdc.__all__) <= set(dir(cdc))\n"
        "assert all(getattr(cdc, name) for name in cdc.__all__)\n"
        "assert 'pyspark' not in sys.modules\n",
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(AttributeError, match="no attribute 'replicate'"):
        _ = cdc.replicate


def test_a_pipeline_is_loaded_from_a_file_or_from_text(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SOUND + "pipeline:\n  operator.uid.prefix: x\n")
    found = cdc.load(file)
    assert (found.name, found.file) == ("small", str(file))
    assert str(found.warnings[0]).startswith(f"{file}:7:3: warning: pipeline.operator.uid.prefix: Flink-only option")
    assert cdc.load("other.yaml", text=file.read_text()).name == "other"
    assert "small: values -> values" in repr(found)


def test_secrets_come_from_the_environment_that_is_given() -> None:
    text = yaml.safe_dump({**REFUSING, "source": {**REFUSING["source"], "password": "${SHOP}"}})
    loaded = cdc.load("shop.yaml", text=text, env={"SHOP": "hunter2"})
    assert loaded.spec.source.password.get_secret_value() == "hunter2"  # type: ignore[attr-defined]
    assert "hunter2" not in repr(loaded)


def test_every_mistake_is_a_value_or_one_error() -> None:
    found = cdc.validate(FIVE, env={"MYSQL_PASSWORD": "x"})
    expected = FIVE.with_suffix(".txt").read_text().replace(FIVE.name, str(FIVE)).splitlines()
    assert (found.ok, [str(problem) for problem in found.problems]) == (False, expected)
    with pytest.raises(cdc.SpecError) as caught:
        cdc.load(FIVE, env={"MYSQL_PASSWORD": "x"})
    assert caught.value.problems == found.problems
    assert cdc.validate("p.yaml", text=SOUND).ok


def test_a_plan_prints_what_would_be_done() -> None:
    found = cdc.plan(cdc.load(ROOT / "pipelines" / "demo.yaml"))
    assert [str(table.sink) for table in found.tables][:2] == ["shop.customers", "shop.events_log"]
    assert str(found).startswith("pipeline demo: binlog-files -> duckdb, 4 tables")
    with pytest.raises(StateError, match="state_dir is empty"):
        cdc.plan(ROOT / "pipelines" / "demo.yaml", state_dir="")


def test_what_a_run_fails_with_is_raised_to_everybody_who_waits(tmp_path: Path) -> None:
    run = cdc.run(cdc.load("gone.yaml", text=yaml.safe_dump(REFUSING)), state_dir=tmp_path / "state")
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            run.wait()
    assert (run.status().state, run.status().rows) == ("failed", 0)
    assert "gone: failed" in repr(run)


def test_a_run_takes_one_sink_of_several_and_its_part_of_the_state(tmp_path: Path) -> None:
    sinks = "sink:\n- {type: values, name: one}\n- {type: values, name: two}\n"
    several = cdc.load(tmp_path / "two.yaml", text=SOUND.partition("sink:")[0] + sinks)
    with pytest.raises(cdc.SpecError, match=r"with_sink\(name\)`: one, two"):
        cdc.run(several)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "sinks").write_text("no folder")
    with pytest.raises(StateError, match="state/sinks"):
        cdc.run(several.with_sink("two"), state_dir=tmp_path / "state").wait()


def test_a_second_run_in_the_process_is_refused_and_one_after_it_is_not(tmp_path: Path) -> None:
    pipeline = cdc.load("gone.yaml", text=yaml.safe_dump(REFUSING))
    with cdc.api._OnlyRun(), pytest.raises(cdc.CdcError, match="this process already runs a pipeline"):
        cdc.run(pipeline, state_dir=tmp_path / "state")
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            cdc.run(pipeline, state_dir=tmp_path / "state").wait()


DEMO = """
import os, sys
before = dict(os.environ)
exec(open("example.py").read())
again = cdc.run(pipeline, state_dir="state", log=sys.stderr).wait()
assert (again.state, again.rows) == ("ended", 0), again
import subprocess, pyarrow
assert pyarrow.table({"a": [1]}).to_pandas()["a"].tolist() == [1]
changed = {name for name in before if os.environ.get(name) != before[name]}
assert changed == set(), changed
assert not {"JAVA_HOME", "CDC_LOCAL", "PYSPARK_PYTHON"} & set(os.environ) - set(before)
children = subprocess.run(["ps", "-o", "comm=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
assert "java" not in children, children
"""


@pytest.mark.spark
@pytest.mark.slow
def test_the_example_of_the_documentation_runs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "pipelines", tmp_path / "pipelines")
    (tmp_path / ".cdc").mkdir()
    (tmp_path / "example.py").write_text(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0])
    done = program(DEMO, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "ended 6010 1000\n" in done.stdout
    assert "0 changes in 0 batches" in done.stderr


FOREIGN = """
import sys, cdc
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    cdc.run("pipelines/demo.yaml", state_dir="state").wait()
except cdc.CdcError as error:
    print(error)
print(spark.range(3).count())
"""


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.slow
def test_a_spark_session_of_somebody_else_is_neither_used_nor_stopped(tmp_path: Path) -> None:
    from cdc.job.spark.java import choose_java

    shutil.copytree(ROOT / "pipelines", tmp_path / "pipelines")
    done = program(FOREIGN, tmp_path, JAVA_HOME=str(choose_java(os.environ).home))
    assert done.returncode == 0, done.stderr[-4000:]
    assert "this process has a Spark session already (end it with spark.stop(), or" in done.stdout
    assert done.stdout.endswith("\n3\n")


LIVE = """
import sys, threading, cdc
run = cdc.run("live.yaml", state_dir="state")
seen = threading.Event()
def stopper():
    while run.status().rows < 3 and run.status().state == "running":
        seen.wait(0.1)
    run.stop()
threading.Thread(target=stopper).start()
status = run.wait()
print(status.state, status.rows, status.tables)
"""


@pytest.mark.exhaustive
@pytest.mark.mysql
@pytest.mark.spark
@pytest.mark.slow
def test_a_run_of_a_live_server_is_stopped_from_another_thread(tmp_path: Path, mysql_server: MySqlServer) -> None:
    database = mysql_server.new_database("api")
    mysql_server.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)", database=database)
    document = {
        "source": source_of(mysql_server, f"{database}.t", password="${SHOP}"),
        "sink": {"type": "duckdb", "path": "out.duckdb"},
        "pipeline": {"schema.change.behavior": "evolve"},
    }
    (tmp_path / "live.yaml").write_text(yaml.safe_dump(document))
    done = program(LIVE, tmp_path, SHOP=mysql_server.password)
    assert done.returncode == 0, done.stderr[-4000:]
    assert re.search(rf"^ended 3 .*'{database}\.t': TableTotals\(inserts=3", done.stdout, re.MULTILINE)


def test_a_wait_has_a_limit(tmp_path: Path) -> None:
    pipeline = cdc.load("gone.yaml", text=yaml.safe_dump(REFUSING))
    run = cdc.run(pipeline, state_dir=tmp_path / "state")
    release = threading.Event()
    endless = threading.Thread(target=release.wait)
    endless.start()
    original, run._thread = run._thread, endless
    try:
        with pytest.raises(TimeoutError, match=r"gone is still running after 0\.01 s"):
            run.wait(0.01)
        run.stop()
        assert run.status().state == "stopping"
    finally:
        release.set()
        run._thread = original
    with pytest.raises(SourceUnavailable):
        run.wait()

"""One run per state directory; signals; a full disk; no password anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from cdc_process import ended, mysql_pipeline, wait_for
from small_workload import SmallWorkload
from tiers import EXHAUSTIVE

from cdc.process.signals import ABORTED
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]

_PASSWORD = "Kr0kodil-in-the-River"


@pytest.fixture
def user(mysql_server: MySqlServer) -> Iterator[MySqlServer]:
    """The server as seen by a user whose password is like no other text."""
    mysql_server.execute(
        "DROP USER IF EXISTS reader", f"CREATE USER reader IDENTIFIED BY '{_PASSWORD}'", "GRANT ALL ON *.* TO reader"
    )
    yield MySqlServer(mysql_server.host, mysql_server.port, "reader", _PASSWORD, "mysql", mysql_server.version)
    mysql_server.execute("DROP USER reader")


def _files_with(text: str, folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_second_run_is_refused_and_signals_end_the_first(user: MySqlServer, tmp_path: Path) -> None:
    work = SmallWorkload.on(user)
    pipeline = mysql_pipeline(tmp_path, user, work.pattern, scan__startup__mode="latest-offset", tls__mode="preferred")
    spark_files = {"CDC_SPARK_CONF": f"spark.local.dir={tmp_path / 'local'}"}
    with ended(pipeline):
        run = pipeline.start(env=spark_files)
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        run.shows(work.seen(work.round()), "the first round")
        assert "another run is using this state directory" in pipeline.start().ends(5)
        assert _files_with(_PASSWORD, tmp_path) == []

        # A reader of the file holds the commit up: the batch is decided and cannot end.
        with duckdb.connect(str(pipeline.database), read_only=True):
            decided = len(list((pipeline.state / "commits").glob("*.json")))
            work.round()
            wait_for("a decision", lambda: len(list((pipeline.state / "commits").glob("*.json"))) > decided)
            run.process.send_signal(signal.SIGTERM)
            run.says("a second signal aborts it")
            run.process.send_signal(signal.SIGINT)
            run.ends(ABORTED)

        again = pipeline.start()
        again.shows(work.seen(work.round()), "the round after the abort")
        again.process.send_signal(signal.SIGINT)
        again.ends(0)
        work.assert_equal(pipeline)
        assert _files_with(_PASSWORD, tmp_path) == []


def test_a_wrong_password_ends_the_run_and_is_not_shown(user: MySqlServer, tmp_path: Path) -> None:
    work = SmallWorkload.on(user)
    pipeline = mysql_pipeline(tmp_path, user, work.pattern, scan__startup__mode="latest-offset")
    pipeline.password = "Wr0ng-" + _PASSWORD
    with ended(pipeline):
        output = pipeline.catch_up(expect=3).output
    assert "reader" in output
    assert _files_with(_PASSWORD, tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs root and the right to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder: Path, leave: int) -> Path:
    """Take all space but `leave` bytes."""
    filler = folder / "filler"
    filler.unlink(missing_ok=True)
    status = os.statvfs(folder)
    filler.write_bytes(b"\0" * (status.f_bavail * status.f_frsize - leave))
    return filler


@EXHAUSTIVE
def test_a_full_disk_stops_the_run_and_loses_nothing(
    mysql_server: MySqlServer, tmp_path: Path, small_disk: Path
) -> None:
    """Nothing of the batch is visible, and with space again the run goes on. Staging is the sink's, the log Spark's.
    Each place that writes meets a full disk without Spark: in `test_duckdb_file.py`, `test_state.py`,
    `test_no_room.py`."""
    work = SmallWorkload.on(mysql_server)
    pipeline = mysql_pipeline(tmp_path, mysql_server, work.pattern, **work.beginning)
    (tmp_path / "state").symlink_to(small_disk)
    with ended(pipeline):
        work.round(5000)
        for leave in (128 << 10, 8 << 10):
            filler = _fill(small_disk, leave)
            last = pipeline.start("--until-caught-up").ends(4, 5).splitlines()[-1]
            assert "No space left on device" in last
            assert not pipeline.holds(f"SELECT count(*) > 0 FROM {work.database}.keyed")
            assert not pipeline.holds(f"SELECT count(*) > 0 FROM {work.database}.keyless")
        filler.unlink()
        pipeline.catch_up()
        work.assert_equal(pipeline)

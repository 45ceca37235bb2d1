"""What somebody sees who runs a pipeline on a terminal, and what others on the machine do not see."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from cdc_process import TIMEOUT_S, mysql_pipeline, wait_for

from cdc_services.server import MySqlServer

ROWS = 100_000


class Terminal:
    """A pseudo-terminal and what was written to it."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self._data = b""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self._ours, 65536):
                self._data += data

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self.theirs)
        self._reading.join(60)
        os.close(self._ours)


@contextmanager
def running(file: Path, state: Path, terminal: Terminal, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "cdc", "run", str(file), "--state-dir", str(state), "--until-caught-up"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal.theirs, env=env)
    try:
        yield run
    finally:
        if run.poll() is None:
            run.terminate()
        run.wait(120)


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
@pytest.mark.mysql
@pytest.mark.timeout(900)
def test_the_bars_of_a_copy_move_and_nobody_inherits_the_password(mysql_server: MySqlServer, tmp_path: Path) -> None:
    database = mysql_server.new_database("bars")
    mysql_server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "SET SESSION cte_max_recursion_depth = 1000000",
        f"INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        "SELECT i, i FROM n",
        database=database,
    )
    made = mysql_pipeline(tmp_path, mysql_server, f"{database}.t", scan__startup__mode="initial")
    made.source["password"] = "${SEEN_PASSWORD}"
    made.source["scan.snapshot.rows-per-second"] = 30_000
    made.source["scan.incremental.snapshot.chunk.size"] = 10_000
    made.source["max-batch-rows"] = 20_000  # a bar moves with each batch
    made.write()
    mark = f"seen-{os.getpid()}"
    env = {**os.environ, "SEEN_PASSWORD": made.password, "SEEN_MARK": mark}
    bar = re.compile(r"\.t +\[[#.]*\] +(\d+)%")
    with closing(Terminal()) as terminal, running(made.file, made.state, terminal, env) as run:
        wait_for("two states of a bar", lambda: len(set(bar.findall(terminal.text))) >= 2 or run.poll() is not None)
        children = [child for child in descendants(run.pid) if environment(child)]
        inherited = {child: environment(child) for child in children}
        assert run.wait(TIMEOUT_S) == 0
        wait_for("the end of the bars", lambda: "copied table=" in terminal.text)
        seen = terminal.text
    shown = [int(number) for number in bar.findall(seen)]
    assert shown[0] < shown[-1]
    assert len(set(shown)) >= 3
    assert "\r\x1b[2K" in seen
    assert len(inherited) >= 2  # Java and Python
    assert any(mark.encode() in found for found in inherited.values())
    assert not any(b"SEEN_PASSWORD" in found for found in inherited.values())
    assert made.query(f'SELECT count(*) FROM "{database}"."t"') == [(ROWS,)]

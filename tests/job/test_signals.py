"""Ctrl-C and SIGTERM at any moment of the start, in a terminal: exit code 0, no trace, and a state that goes on."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from cdc_process import TIMEOUT_S, wait_for
from tiers import EXHAUSTIVE

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

TABLE = {"change": "create.table", "table": "shop.t", "schema": {
    "columns": [{"name": "id", "type": "INT", "nullable": False}], "primary_key": ["id"]}}  # fmt: skip
ROWS = [TABLE, *({"table": "shop.t", "op": "+I", "row": {"id": number}} for number in range(3))]


class Terminal:
    """`cdc run` in a terminal of its own: what it prints, and the keys and signals that reach it."""

    def __init__(self, folder: Path, *, held: str = "", sink: Any = None) -> None:
        """`held` is Python that runs in the process before `cdc` is imported: it stops it at a moment of the start."""
        self.folder, self._said = folder, bytearray()
        (folder / "p.yaml").write_text(yaml.safe_dump({
            "source": {"type": "values", "rows": ROWS}, "sink": sink or _values(folder, "out"),
            "pipeline": {"name": "p", "schema.change.behavior": "evolve"},
        }))  # fmt: skip
        self._master, slave = pty.openpty()
        program = f"{held}\nfrom cdc.__main__ import main; main()"
        command = [sys.executable, "-c", program, "run", str(folder / "p.yaml"), "--until-caught-up"]
        command += ["--master", "local[1,4]"]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=slave, stdout=slave, stderr=slave, preexec_fn=lambda: _leads(slave)
        )
        os.close(slave)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self._master, 4096):
                self._said += data

    @property
    def text(self) -> str:
        return self._said.decode(errors="replace")

    def says(self, text: str) -> None:
        wait_for(f"{text!r} on the terminal", lambda: text in self.text or self.process.poll() is not None)
        assert text in self.text, self.text

    def ctrl_c(self) -> None:
        """As the key does: SIGINT to the whole foreground process group."""
        os.write(self._master, b"\x03")

    def terminate_all(self) -> None:
        """As `kill -TERM -PGID` does: every process of the group gets it, Java too."""
        os.killpg(self.process.pid, signal.SIGTERM)

    def ends(self, *codes: int) -> str:
        found = self.process.wait(TIMEOUT_S)
        self._reading.join(120)
        assert found in codes, self.text
        for trace in ("Traceback", "Exception", "\tat ", "ERROR", "Aborted!", "KeyboardInterrupt"):
            assert trace not in self.text, self.text
        return self.text

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reading.join(120)
        os.close(self._master)


def _values(folder: Path, file: str, **more: str) -> dict[str, str]:
    return {"type": "values", "path": str(folder / f"{file}.jsonl"), **more}


def _leads(slave: int) -> None:
    """In the new process: a session with the terminal as its own, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def _goes_on(folder: Path, terminals: list[Terminal]) -> None:
    """A run after this one gets to the end, with every row once."""
    terminals.append(Terminal(folder))
    terminals[-1].ends(0)
    written = (folder / "out.jsonl").read_text()
    assert [written.count(f'"row": {{"id": {number}}}') for number in range(3)] == [1, 1, 1], written


HELD = """
import sys, time, importlib.abc
class Hold(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            print("held at", name, flush=True)
            time.sleep(600)
sys.meta_path.insert(0, Hold())
"""
"""Stops the process in the middle of an import."""


@pytest.mark.parametrize(
    ("module", "way"),
    [
        ("typer", "ctrl_c"), ("cdc.spec.check", "terminate_all"), ("cdc.job.run", "ctrl_c"),
        ("pyspark", "terminate_all"),
    ],
)  # fmt: skip
def test_while_modules_are_imported(tmp_path: Path, terminals: list[Terminal], module: str, way: str) -> None:
    terminals.append(Terminal(tmp_path, held=HELD.format(module=module)))
    terminals[-1].says(f"held at {module}")
    getattr(terminals[-1], way)()
    assert "stopped before anything was read" in terminals[-1].ends(0)


MOMENTS = {
    "before Java": ("import cdc.job.spark.java as at", "choose_java", ""),
    "while Java starts": ("import subprocess; at = subprocess.Popen", "__init__", "pyspark-shell"),
    "in the session": ("import cdc.job.lock; at = cdc.job.lock.RunLock", "name_java", ""),
    "when the query starts": ("import cdc.job.stream_parts; at = cdc.job.stream_parts.StreamParts", "__init__", ""),
    "in the first batch": ("import cdc.state.decisions; at = cdc.state.decisions.CommitLog", "decide", ""),
}
"""A function that the run calls at that moment, and a word among its arguments: the run says so and goes on, and the
signal comes while that is under way."""

_SAYS = """
{imported}
before = at.{name}
def there(*given, **more):
    if not there.told and {word!r} in str(given[1:]):
        there.told = True
        print("it is there", flush=True)
    return before(*given, **more)
there.told = False
at.{name} = there
"""


def _held(moment: str) -> str:
    imported, name, word = MOMENTS[moment]
    return _SAYS.format(imported=imported, name=name, word=word)


STOPS = (
    ("while Java starts", "terminate_all"), ("before Java", "ctrl_c"), ("while Java starts", "ctrl_c"),
    ("in the session", "ctrl_c"), ("in the session", "terminate_all"), ("when the query starts", "ctrl_c"),
    ("in the first batch", "ctrl_c"),
)  # fmt: skip


@pytest.mark.parametrize(("moment", "way"), [STOPS[0], *(pytest.param(*stop, marks=EXHAUSTIVE) for stop in STOPS[1:])])
def test_while_it_starts(tmp_path: Path, terminals: list[Terminal], moment: str, way: str) -> None:
    """After a run that was aborted; the next run continues from what both have left."""
    terminals.append(Terminal(tmp_path, held=_held("while Java starts")))
    terminals[-1].says("it is there")
    terminals[-1].ctrl_c()
    wait_for("the first signal", lambda: "^C" in terminals[-1].text)
    terminals[-1].process.send_signal(signal.SIGTERM)  # a second one ends it at once
    terminals[-1].ends(130, 0)
    terminals.append(Terminal(tmp_path, held=_held(moment)))
    terminals[-1].says("it is there")
    getattr(terminals[-1], way)()
    terminals[-1].ends(0)
    _goes_on(tmp_path, terminals)


@EXHAUSTIVE
def test_several_sinks_end_with_their_running_batches(tmp_path: Path, terminals: list[Terminal]) -> None:
    sinks = [_values(tmp_path, name, name=name) for name in ("one", "two")]
    for moment in ("while Java starts", "in the first batch"):
        terminals.append(Terminal(tmp_path, held=_held(moment), sink=sinks))
        terminals[-1].says("it is there")
        terminals[-1].ctrl_c()
        said = terminals[-1].ends(0)
        assert "others go on" not in said
        assert ("stopped before anything was read" in said) == (moment == "while Java starts")
    terminals.append(Terminal(tmp_path, sink=sinks))
    terminals[-1].ends(0)
    for name in ("one", "two"):
        written = (tmp_path / f"{name}.jsonl").read_text()
        assert [written.count(f'"row": {{"id": {number}}}') for number in range(3)] == [1, 1, 1], written

"""What is wrong with a sink's server ends a run with the sink's exit code and a message that says what and where.

The runs here meet the sink before Spark starts. What else the servers refuse: tests of each sink.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from cdc_process import TIMEOUT_S
from load_changes import Changes
from load_engine import Crash, LoadEngine
from load_pipeline import sink_of
from load_places import PLACES, Place

from cdc.errors import SinkError

_SECRET = "n0t-the-passw0rd"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=sorted(PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param]() as made:
        yield made


@dataclass
class Decided:
    """A pipeline whose second batch is decided and not committed, and its pipeline file."""

    place: Place
    name: str
    folder: Path

    def __post_init__(self) -> None:
        self.engine = LoadEngine(self.folder / "state", self.place.sink(self.name), lambda: None, source="values")
        self.changes = Changes(Random(1), self.name)
        self.engine.add(self.changes.created())
        self.engine.catch_up()
        batch = self.engine.add(self.changes.rows(2))
        self.engine.crashes.arm("after-decide", batch)
        with self.engine.crashes.installed(), pytest.raises(Crash):
            self.engine.live()

    def run(self) -> tuple[int, str]:
        """`cdc run`: its exit code and its last line."""
        return _run(self.folder, self.engine.state.root, sink_of(self.place.standin))


def _run(folder: Path, state: Path, sink: dict[str, Any]) -> tuple[int, str]:
    document = {
        "source": {"type": "values", "rows": []},
        "sink": {"retry-timeout": "300 ms", **sink},
        "pipeline": {"name": "p", "retry-timeout": "1 s"},
    }
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    command = [sys.executable, "-c", "from cdc.cli import main; main()", "run", str(file)]
    command += ["--state-dir", str(state)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert _SECRET not in done.stdout + done.stderr
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


@pytest.fixture
def decided(place: Place, tmp_path: Path) -> Iterator[Decided]:
    with place.case() as name:
        yield Decided(place, name, tmp_path)


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_new_pipeline_meets_the_sink_before_anything_is_started(place: Place, tmp_path: Path) -> None:
    code, last = _run(tmp_path, tmp_path / "state", sink_of(place.standin, password=_SECRET))
    assert code == 4
    assert "denied" in last.lower() or "password" in last.lower(), last
    port = _closed_port()
    code, last = _run(
        tmp_path, tmp_path / "state", sink_of(place.standin, **{"jdbc-url": f"jdbc:mysql://127.0.0.1:{port}"})
    )
    assert code == 4
    assert f"127.0.0.1:{port}" in last, last
    assert not (tmp_path / "state" / "checkpoint").exists()


def test_a_database_that_is_gone_in_a_run(decided: Decided) -> None:
    decided.place.standin.query(f"DROP DATABASE {decided.name} FORCE")
    code, last = decided.run()
    assert code == 4
    assert decided.name in last, last


@pytest.mark.parametrize("schema_change", [False, True], ids=["rows", "schema change"])
def test_an_account_that_may_not(place: Place, schema_change: bool, tmp_path: Path) -> None:
    """Through the engine: what is refused for good is not tried again, and with rights the next run goes on."""
    with place.case() as name:
        engine, changes = LoadEngine(tmp_path, place.sink(name), lambda: None), Changes(Random(1), name)
        engine.add(changes.created())
        engine.catch_up()
        place.standin.query("CREATE USER IF NOT EXISTS 'nobody' IDENTIFIED BY 'x'")
        engine.make_sink = place.sink(name, username="nobody", password="x")
        engine.add(changes.every_table_changes() if schema_change else changes.rows(2))
        lives = engine.lives
        with pytest.raises(SinkError) as caught:
            engine.catch_up()
        assert engine.lives == lives + 1
        assert caught.value.exit_code == 4
        assert any(word in caught.value.hint for word in ("GRANT", "lacks")), str(caught.value)
        engine.make_sink = place.sink(name)
        engine.catch_up()
        place.check(name, engine, changes.tables)


def test_a_disk_that_is_full_stops_the_run_and_nothing_stays_open(place: Place, tmp_path: Path) -> None:
    """Through the engine, in the middle of a run: once there is space again, the next run goes on."""
    with place.case() as name:
        engine, changes = LoadEngine(tmp_path, place.sink(name), lambda: None), Changes(Random(1), name)
        engine.add(changes.created())
        engine.catch_up()
        point = {"doris": "be.load", "starrocks": "be.txn.load"}[place.kind]
        place.standin.fault(point, action="refuse", message="No space left on device", times=-1)
        engine.add(changes.rows(2))
        with pytest.raises(SinkError) as caught:
            engine.catch_up()
        assert caught.value.exit_code == 4
        assert "No space left" in str(caught.value)
        place.standin.clear()
        engine.catch_up()
        place.check(name, engine, changes.tables)

"""What is looked at on executors before the first batch."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from together import together

from cdc.errors import StateError, StateUnavailable
from cdc.job.executors import _find_unreached, _port, scattered_dead_letters
from cdc.source import Context
from cdc.spec.check import check_file
from cdc.state.directory import StateDir
from cdc.state.served.server import StateServer
from cdc.state.served.store import ServedStore
from cdc.state.store import LocalStore
from cdc.testing import ListSink
from connectors.mysql.options import MySqlSourceOptions

LOCAL = "127.0.0.1"


def test_a_server_that_an_executor_does_not_reach_is_named_with_the_machine(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.open(name="p", source="mysql")
    server = StateServer(state, LOCAL, LOCAL)
    store = ServedStore(server.start())
    with socket.create_server((LOCAL, 0)) as closed:
        port = closed.getsockname()[1]
    options = MySqlSourceOptions.model_validate(
        {"type": "mysql", "hostname": LOCAL, "port": port, "username": "u", "password": "p", "tables": "a.b"}
    )
    source = options.build(Context("p", LocalStore(tmp_path)))
    told = _find_unreached(store, (source, ListSink()))
    assert len(told) == 1
    assert told[0].startswith(f"the machine {socket.gethostname()} has no connection: ")
    assert str(port) in told[0]
    server.close()
    with pytest.raises(StateUnavailable, match="does not reach the driver"):
        _find_unreached(ServedStore(replace(server.endpoint, timeout_s=0.0)), ())


@together("text", ["x", "-1", "70000"])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(StateError, match="which is not a port"):
        _port({"CDC_STATE_PORT": text})


@pytest.mark.parametrize(
    ("place", "told"), [("/var/lib/letters", ["pipeline.dead-letter.path"]), ("s3://bucket/letters", [])]
)
def test_a_folder_for_dead_letters_is_one_of_each_machine(tmp_path: Path, place: str, told: list[str]) -> None:
    file = tmp_path / "p.yaml"
    options = f"pipeline: {{dead-letter.path: '{place}'}}\n"
    file.write_text("source: {type: values, path: rows.jsonl}\nsink: {type: values, path: x}\n" + options)
    found = scattered_dead_letters(check_file(str(file)).spec)
    assert [text.partition(":")[0] for text in found] == told
    assert all(f"dead letters are written to {place} on the machine" in text for text in found)

"""The commands about pipelines that run elsewhere: by a server's API, by requests in the state directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_runner import CliRunner, Result
from http_server import QuietHandler, serving

from cdc.cli import app
from cdc.errors import CdcError, EngineError, NotNow, PipelineUnknown, StateError
from cdc.process.pids import start_time
from cdc.serve.client import Served, find_server, forget
from cdc.state.directory import StateDir
from cdc.state.store import LocalStore

FILE = "source:\n  type: values\n  rows: []\nsink:\n  type: values\npipeline:\n  name: shop\n"


class Api(QuietHandler):
    """Answers as the server's API does, and keeps what it was asked."""

    asked: list[tuple[str, str, str, Any]]
    token = "a token of sixteen"
    state = "running"

    def do_GET(self) -> None:
        self._note(None)
        one = {
            "name": "shop", "state": self.state, "attention": "failed 4 times in a row", "source": "mysql",
            "sink": "duckdb", "rows": 12_345, "lag_s": 1.25,
            "next_run_s": 0.0, "restarts": 2, "file_errors": [], "paused": ["shop.archive"],
            "last_error": {"type": "SinkError", "message": "no \x1b[31m"},
        }  # fmt: skip
        self._answer(200, {"pipelines": [one]} if self.path == "/api/v1/pipelines" else one)

    def do_POST(self) -> None:
        self._note(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        action = self.path.rpartition("/")[2]
        if action == "savepoint":
            told = {"type": "NotNow", "message": "tables are being copied", "where": "shop", "hint": "ask again"}
            self._answer(409, {"error": told})
            return
        if action in ("stop", "drain"):
            type(self).state = "stopped"
        self._answer(200, {"done": action, "message": f"{action} is done"})

    def _note(self, body: Any) -> None:
        self.asked.append((self.command, self.path, self.headers.get("authorization", ""), body))

    def _answer(self, code: int, told: Any) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())


@pytest.fixture
def api(tmp_path: Path) -> Iterator[type[Api]]:
    """A server whose word is in the state root."""
    handler = type("Own", (Api,), {"asked": []})
    with serving(handler) as address:
        Served(f"{address}/", os.getpid(), Api.token).write(tmp_path)
        yield handler


def cdc(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments], env={"CDC_STATE_ROOT": str(folder)})


def error(result: Result) -> CdcError:
    assert isinstance(result.exception, CdcError), result.output
    return result.exception


def test_the_list_is_a_table_or_json_and_what_is_in_it_does_no_harm(api: type[Api], tmp_path: Path) -> None:
    lines = cdc(tmp_path, "list").output.splitlines()
    assert lines[0].split() == [
        "NAME",
        "STATE",
        "ATTENTION",
        "FROM",
        "TO",
        "ROWS",
        "LAG",
        "NEXT",
        "RUN",
        "RESTARTS",
        "PAUSED",
        "LAST",
        "ERROR",
    ]
    assert lines[1].startswith(
        "shop  running  failed 4 times in a row  mysql  duckdb  12,345  1.2 s  1970-01-01 00:00:00  2         "
        "shop.archive  SinkError: no "
    )
    assert "\x1b" not in lines[1]
    assert json.loads(cdc(tmp_path, "list", "--json").output)[0]["rows"] == 12_345
    assert api.asked[0][2] == "Bearer a token of sixteen"


def test_the_word_of_a_server_is_for_its_user_alone_and_none_is_believed_that_is_gone(
    api: type[Api], tmp_path: Path
) -> None:
    assert (tmp_path / "serve.json").stat().st_mode & 0o077 == 0
    found = find_server(tmp_path)
    assert found is not None
    assert "sixteen" not in repr(found)
    forget(tmp_path)
    assert isinstance(error(cdc(tmp_path, "list")), StateError)


def test_start_stop_and_drain_ask_the_server_and_a_stop_waits_for_the_end(api: type[Api], tmp_path: Path) -> None:
    assert cdc(tmp_path, "start", "shop").output == "start is done\n"
    assert cdc(tmp_path, "stop", "shop", "--drain").output == "shop: stopped\n"
    posted = [(path, body) for command, path, _, body in api.asked if command == "POST"]
    assert posted == [("/api/v1/pipelines/shop/start", {}), ("/api/v1/pipelines/shop/drain", {})]


@pytest.mark.parametrize("what", ["resync", "pause", "resume"])
def test_what_is_about_a_table_is_asked_by_the_name_of_the_pipeline(api: type[Api], tmp_path: Path, what: str) -> None:
    assert cdc(tmp_path, what, "shop", "shop.orders").output == f"{what} is done\n"
    assert api.asked[-1][1:] == (f"/api/v1/pipelines/shop/{what}", f"Bearer {Api.token}", {"table": "shop.orders"})


def test_an_error_of_the_server_is_the_command_s(api: type[Api], tmp_path: Path) -> None:
    found = error(cdc(tmp_path, "savepoint", "shop"))
    assert (type(found), found.message, found.hint) == (NotNow, "tables are being copied", "ask again")


def test_a_name_that_nobody_keeps(api: type[Api], tmp_path: Path) -> None:
    for command in ("start", "savepoint", "logs"):
        assert isinstance(error(cdc(tmp_path, command, "other")), PipelineUnknown)
    assert isinstance(error(cdc(tmp_path, "stop", "other")), NotNow)


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    Served("http://127.0.0.1:1/", os.getpid()).write(tmp_path)
    found = error(cdc(tmp_path, "list"))
    assert isinstance(found, EngineError)
    assert "the server does not answer" in found.message


def test_a_run_of_cdc_run_is_asked_by_a_request_in_its_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, state = tmp_path / "shop.yaml", StateDir(tmp_path / ".cdc" / "shop")
    file.write_text(FILE)
    state.open(name="shop", source="values")
    assert isinstance(error(cdc(tmp_path, "stop", str(file))), NotNow)

    class LiveStatus:
        @property
        def alive(self) -> bool:
            return next(alive)

    for reader in ("cdc.job.run_status.read_status", "cdc.status.file.read_status"):
        monkeypatch.setattr(reader, lambda root: LiveStatus())
    alive, locked = iter([True, True, False, False]), iter([True, False])
    monkeypatch.setattr("cdc.job.run_status.is_locked", lambda root: next(locked))
    assert cdc(tmp_path, "stop", str(file), "--drain").output == "shop: stopped\n"
    assert list(locked) == [], "a suspended run has not ended"
    assert (state.drain_requested(), state.stop_requested()) == (True, False)


def test_the_last_lines_of_a_log_are_there_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    line = {"time": "2026-01-01T00:00:00+00:00", "level": "warning", "message": "said", "table": "a.b"}
    (tmp_path / "shop" / "run.log").write_text(json.dumps(line | {"number": 1}) + "\n" + json.dumps(line) + "\n")
    assert cdc(tmp_path, "logs", "shop", "-n", "1").output == "2026-01-01 00:00:00 warning: said table=a.b\n"
    assert json.loads(cdc(tmp_path, "logs", "shop", "-n", "1", "--json").output)["fields"] == {"table": "a.b"}


def test_a_pipeline_comes_from_standard_input() -> None:
    def run(*arguments: str, text: str = FILE) -> Result:
        return CliRunner().invoke(app, [*arguments], input=text)

    assert run("validate", "-").output == "-: ok\n"
    told = json.loads(run("validate", "-", "--json", text="source: 1\n").output)
    assert (told[0]["ok"], told[0]["problems"][0]["line"]) == (False, 1)
    found = json.loads(run("plan", "-", "--json").output)
    assert (found["name"], found["source"], found["tables"], found["under_way"]) == ("shop", "values", [], [])
    nameless = run("run", "-", text=FILE.partition("pipeline")[0])
    assert nameless.exit_code == 2


def test_a_process_that_has_the_number_of_a_server_that_is_gone_is_no_server(tmp_path: Path) -> None:
    server = Served("http://127.0.0.1:9/", os.getpid(), started=start_time(os.getpid()))
    server.write(tmp_path)
    assert find_server(tmp_path) == server
    replace(server, started="12345").write(tmp_path)
    assert find_server(tmp_path) is None
    LocalStore(tmp_path).write_json("serve.json", {"url": "x"})
    with pytest.raises(StateError, match="cannot be read"):
        find_server(tmp_path)


def test_all_sinks_are_asked_to_stop_before_the_end_of_any_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose sink is away does not end its batch: the others are stopped nevertheless."""
    file = tmp_path / "shop.yaml"
    sinks = "sink:\n- {name: lake, type: values, path: a}\n- {name: mart, type: values, path: b}\n"
    file.write_text("source: {type: values, rows: []}\n" + sinks)
    states = {name: StateDir(tmp_path / ".cdc" / "shop" / "sinks" / name) for name in ("lake", "mart")}
    for state in states.values():
        state.open(name="shop", source="values")

    class LiveStatus:
        @property
        def alive(self) -> bool:
            return not all(state.stop_requested() for state in states.values())

    for reader in ("cdc.job.run_status.read_status", "cdc.status.file.read_status"):
        monkeypatch.setattr(reader, lambda root: LiveStatus())
    monkeypatch.setattr("cdc.cli.life._STOP_S", 5.0)
    assert cdc(tmp_path, "stop", str(file)).output == "shop/lake: stopped\nshop/mart: stopped\n"

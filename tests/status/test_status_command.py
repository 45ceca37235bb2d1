"""`cdc status`: from a state directory, and from a pipeline file."""

from __future__ import annotations

import json
from pathlib import Path

from command_runner import CliRunner

from cdc.cli import app
from cdc.errors import StateError
from cdc.progress import Progress
from cdc.schema import TableId
from cdc.state.store import LocalStore
from cdc.status.model import from_json, to_json
from cdc.status.recording import Recording, first_status
from cdc.tables.requests import Mailbox, RequestKind

PIPELINE = """
source: {type: values, rows: []}
sink: {type: values}
pipeline: {name: shop}
"""


def told(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    first = first_status(root, "shop-1", name="shop", source="values", sink="values", file="x", behavior="evolve")
    with Recording(first, root, Progress(), lambda text: None):
        pass


def test_a_state_directory_is_shown_for_people_and_as_json(tmp_path: Path) -> None:
    told(tmp_path / "state")
    shown = CliRunner().invoke(app, ["status", str(tmp_path / "state")])
    assert (shown.exit_code, shown.stdout.splitlines()[0][:30]) == (0, "shop: values -> values, ended ")
    shown = CliRunner().invoke(app, ["status", str(tmp_path / "state"), "--json"])
    assert json.loads(shown.stdout)["state"] == "ended"
    assert json.loads(shown.stdout)["version"] == 1


def test_a_pipeline_file_stands_for_its_state_directory(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    told(tmp_path / ".cdc" / "shop")
    shown = CliRunner().invoke(app, ["status", str(tmp_path / "shop.yaml")])
    assert shown.stdout.startswith("shop: values -> values"), shown
    told(tmp_path / "elsewhere")
    shown = CliRunner().invoke(app, ["status", str(tmp_path / "shop.yaml"), "--state-dir", str(tmp_path / "elsewhere")])
    assert shown.exit_code == 0


def test_a_pipeline_that_never_ran_has_no_status(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert isinstance(shown.exception, StateError)
    assert "no run has written its status here" in str(shown.exception)


def test_a_pause_that_the_next_run_takes_in_is_shown(tmp_path: Path) -> None:
    told(tmp_path)
    Mailbox(LocalStore(tmp_path)).add(TableId("shop", "orders"), RequestKind.PAUSE)
    shown = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert "  paused      shop.orders" in shown.stdout.splitlines()


def test_a_name_that_is_no_utf_8_is_shown_escaped(tmp_path: Path) -> None:
    first = first_status(tmp_path, "p", name="p\udcff", source="s", sink="s", file="p\udcff.yaml", behavior="evolve")
    assert from_json(to_json(first)).file == "p\\udcff.yaml"

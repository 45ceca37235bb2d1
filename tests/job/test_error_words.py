"""An error of a run is told in the words of who runs it: in the status file, and to whoever waits for the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.errors import SinkError
from cdc.job import run as run_module
from cdc.job.control import RunControl
from cdc.job.run import run
from cdc.serve.hints import for_a_server
from cdc.spec.check import check_file
from cdc.status.file import read_status


def test_the_status_file_names_what_a_server_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("source: {type: values, path: rows.jsonl}\nsink: {type: values, path: x}\npipeline: {name: p}\n")

    def fail(*_: Any) -> None:
        raise SinkError("the table was dropped", hint="restore it, or start with a new --state-dir")

    monkeypatch.setattr(run_module.PipelineRun, "go", fail)
    with pytest.raises(SinkError) as failed:
        run(
            check_file(str(file)).spec,
            state_dir=tmp_path / "state",
            control=RunControl(reword=for_a_server, guest=True),
        )
    seen = read_status(tmp_path / "state")
    assert seen is not None
    assert seen.status.errors[-1].hint == failed.value.hint
    assert "pipeline.name" in failed.value.hint
    assert "--state-dir" not in failed.value.hint

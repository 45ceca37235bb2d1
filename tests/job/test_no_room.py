"""Whatever runs out of room in a run ends it with a StateError: the path, the reason, what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cdc.errors import StateError
from cdc.job import run as run_module
from cdc.job.run import run
from cdc.spec.check import check_file


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE])
def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("source: {type: values, path: rows.jsonl}\nsink: {type: values, path: x}\npipeline: {name: p}\n")
    spec = check_file(str(file)).spec

    def full(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(run_module.PipelineRun, "go", full)
    with pytest.raises(StateError) as failed:
        run(spec, state_dir=tmp_path / "state")
    assert (failed.value.where, failed.value.exit_code) == (str(tmp_path / "state"), 5)
    assert os.strerror(number) in failed.value.message
    assert failed.value.hint

"""scripts/install.py: packages of a file by name, uv with the hashes, brought by pip, and pip where uv cannot."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PINS = "one==1 \\\n    --hash=sha256:11\n    # via two\ntwo==2 ; python_version > '3' \\\n    --hash=sha256:22\n"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a uv and a pip that note what they are called with; `uv.code` is what uv ends with."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "scripts" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("uv", "pip"):
        path = tmp_path / name
        path.write_text(
            f'#!/bin/sh\n[ "$1 $2" = "config list" ] && exec {sys.executable} -m pip config list\n'
            f'printf "%s\\n" "$@" >> {path}.called\n'
            f"for last; do :; done\ncp $last {path}.pins 2>/dev/null\necho index=$UV_DEFAULT_INDEX >> {path}.called\n"
            f"exit $(cat {path}.code 2>/dev/null || echo 0)\n"
        )
        path.chmod(0o755)
    monkeypatch.setattr(module, "UV", tmp_path / "uv")
    monkeypatch.setattr(module, "pip", lambda: (str(tmp_path / "pip"),))
    return module


def pins(tmp_path: Path) -> str:
    path = tmp_path / "pins.txt"
    path.write_text(PINS)
    return str(path)


@pytest.mark.parametrize(
    ("choice", "there"), [([], ["one", "two"]), (["--only", "two"], ["two"]), (["--but", "two"], ["one"])]
)
def test_packages_are_chosen_by_name_and_held_against_their_hashes(
    install: ModuleType, tmp_path: Path, choice: list[str], there: list[str]
) -> None:
    assert install.main([*choice, pins(tmp_path)]) == 0
    assert "--require-hashes" in (tmp_path / "uv.called").read_text().split()
    assert re.findall(r"^(\w+)==", (tmp_path / "uv.pins").read_text(), re.MULTILINE) == there
    assert (tmp_path / "uv.pins").read_text().count("--hash=") == len(there)
    assert not (tmp_path / "pip.called").exists()


def test_pip_does_the_same_where_uv_fails_and_its_exit_code_counts(
    install: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "uv.code").write_text("2")
    (tmp_path / "pip.code").write_text("3")
    assert install.main([pins(tmp_path)]) == 3
    assert "--require-hashes" in (tmp_path / "pip.called").read_text().split()
    assert (tmp_path / "pip.pins").read_text() == (tmp_path / "uv.pins").read_text()
    assert "uv could not install that (see above): trying pip" in capsys.readouterr().out


def test_pip_brings_uv_with_its_hashes_and_does_all_where_it_cannot(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "UV", tmp_path / "none")
    (tmp_path / "pip.code").write_text("1")
    assert install.main([pins(tmp_path)]) == 1
    first, second = (tmp_path / "pip.called").read_text().split("index=\n")[:2]
    assert "--require-hashes" in first.split()
    assert "--require-hashes" in second.split()
    assert "uv cannot be installed here (see above): trying pip" in capsys.readouterr().out
    uv = install.chosen_pins(ROOT / "requirements-build.txt", frozenset({"uv"}), wanted=True)
    assert re.match(r"uv==[\d.]+ ", uv)
    assert "--hash=sha256:" in uv


def test_an_environment_without_pip_runs_the_one_that_python_brings(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(install, "find_spec", lambda _name: None)
    command = install.pip()
    assert command[1] != "-m"
    assert subprocess.check_output([*command, "--version"], text=True).startswith("pip ")


def test_the_package_index_that_pip_is_set_to_is_the_one_of_uv(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:word@index.example/simple")
    install.main([pins(tmp_path)])
    assert "index=https://user:word@index.example/simple" in (tmp_path / "uv.called").read_text()


def test_the_makefile_names_packages_that_the_requirements_have() -> None:
    names = re.findall(r"^SPARK := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split(",")
    assert {*re.findall(r"^([\w-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)} >= {*names}

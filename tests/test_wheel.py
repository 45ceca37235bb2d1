"""The built package in an environment of its own: everything that the commands need is in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built package."""
    pytest.importorskip(
        "hatchling", reason="the builder is not here (requirements-build.txt; `make setup` installs it)"
    )
    folder = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The `bin` folder of an environment with the wheel; what it depends on comes from the one that runs the test."""
    home = wheel.parent / "env"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    run(*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    site = Path(run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for found in Path(sysconfig.get_path("purelib")).iterdir():
        if "cdc" not in found.name and not (site / found.name).exists():
            (site / found.name).symlink_to(found)
    return home / "bin"


def ended(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of the source tree."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=500, check=False, env=env)


def run(*command: str, expect: int = 0) -> str:
    done = ended(*command)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_the_installed_one(installed: Path) -> None:
    places = run(str(installed / "python"), "-c", "import cdc, connectors; print(cdc.__file__, *connectors.__path__)")
    assert all(Path(place).is_relative_to(installed.parent) for place in places.split())
    assert (Path(places.split()[0]).parent / "job" / "spark" / "log4j2.properties").is_file()


def test_it_holds_the_tool_its_connectors_and_their_schemas_and_no_servers_for_trials(wheel: Path) -> None:
    assert wheel.name.startswith("cdc_pipelines-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folders = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert folders == {"cdc", "connectors"}
    assert any(name.startswith("cdc/_schemas/") for name in names)
    for folder in ("static", "templates"):
        here = {f"cdc/web/{folder}/{each.name}" for each in (ROOT / "cdc" / "web" / folder).iterdir()}
        assert here <= set(names)
    assert [name for name in names if "standin" in name or "services" in name] == []


def test_servers_for_trials_are_named_with_what_to_install(installed: Path) -> None:
    for command in (["dev"], ["dev", "doris"], ["dev", "--help"]):
        done = ended(str(installed / "cdc"), *command)
        assert done.returncode == 2
        assert "pip install --no-deps --no-build-isolation tests/devservers" in " ".join(done.stderr.split())


def test_schemas_are_in_it(installed: Path, tmp_path: Path) -> None:
    schema = json.loads(run(str(installed / "cdc"), "schema"))
    assert {"sources-mysql", "sinks-duckdb"} <= set(schema["$defs"])
    one = json.loads(run(str(installed / "cdc"), "schema", "--connector", "source/mysql"))
    assert one == json.loads((ROOT / "schemas" / "sources" / "mysql.json").read_text())


def test_pipelines_are_validated(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("source:\n  type: values\n  rows: []\nsink:\n  type: values\n")
    assert run(str(installed / "cdc"), "validate", str(file)) == f"{file}: ok\n"
    file.write_text("source:\n  type: values\n  rows: 7\nsink:\n  type: duckdb\n")
    run(str(installed / "cdc"), "validate", str(file), expect=2)

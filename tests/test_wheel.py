"""The built package in an environment of its own: everything that the commands need is in it."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with the wheel; what it depends on comes from the one that runs the test."""
    pytest.importorskip(
        "hatchling", reason="the builder is not here (requirements-build.txt; `make setup` installs it)"
    )
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    home = folder / "env"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    run(*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    site = Path(run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def run(*command: str, expect: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=240, check=False)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_the_installed_one(installed: Path) -> None:
    places = run(str(installed / "python"), "-c", "import cdc, connectors; print(cdc.__file__, *connectors.__path__)")
    assert all(Path(place).is_relative_to(installed.parent) for place in places.split())
    assert (Path(places.split()[0]).parent / "job" / "log4j2.properties").is_file()


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

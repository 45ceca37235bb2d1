"""What must not be in the repository: machine paths, download addresses, large binaries, secrets."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml
from together import together

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 2 << 20
REQUIREMENTS = sorted(ROOT.glob("requirements*.txt"))


@cache
def tracked() -> list[Path]:
    """The files git would commit; in an unpacked archive without git the test is skipped."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    return [path for name in listing.decode().split("\0") if name and (path := ROOT / name).is_file()]


@cache
def texts() -> dict[str, str]:
    """Every text file by its path; this test names what it looks for and is left out."""
    found = {}
    for path in tracked():
        data = path.read_bytes()
        if b"\0" not in data and path != Path(__file__).resolve():
            found[path.relative_to(ROOT).as_posix()] = data.decode("utf-8", errors="replace")
    return found


FORBIDDEN = {
    "a home or work folder of some machine": r"/(?<![\w.}]/)(?:(?:home|Users)/[A-Za-z]|root\b|work/)",
    "a package index": r"pypi\.org|pythonhosted\.org|deb\.debian\.org|registry\.npmjs|repo1?\.maven|mirrors?\.[a-z]+\.",
    "a pip setting of some machine": r"--(?:extra-)?index-url|--find-links|--trusted-host",
    "a private key": r"BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY",
    "an unfinished thought": r"\b(?:TODO|FIXME|XXX)\b|NotImplementedError",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in texts().items()
        for match in pattern.finditer(text)
    ]
    assert found == []


def test_no_large_file_is_committed() -> None:
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in tracked()}
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def test_no_two_files_of_tests_have_one_name() -> None:
    """They are modules of one name to pytest, which then collects none of the later one's tests."""
    named = Counter(path.name for path in tracked() if path.name.startswith("test_") and path.suffix == ".py")
    assert [name for name, count in named.items() if count > 1] == []


def test_binaries_are_recorded_binlogs_only() -> None:
    binary = [path for path in tracked() if b"\0" in path.read_bytes()[:8192]]
    strangers = [path.relative_to(ROOT).as_posix() for path in binary if path.read_bytes()[:4] != b"\xfebin"]
    assert strangers == []


@together("path", REQUIREMENTS)
def test_every_requirement_is_pinned_with_hashes(path: Path) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", path.read_text(encoding="utf-8"))
    pins = [entry for entry in entries if re.match(r"[A-Za-z0-9]", entry)]
    assert pins
    for entry in pins:
        assert re.match(r"[A-Za-z0-9._-]+==[^ ;]+", entry), entry[:60]
        assert "--hash=sha256:" in entry, entry[:60]


def test_the_same_package_has_the_same_version_in_all_requirements() -> None:
    pins: dict[str, set[str]] = {}
    for path in REQUIREMENTS:
        for name, version in re.findall(
            r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            pins.setdefault(name.lower(), set()).add(version)
    assert {name: versions for name, versions in pins.items() if len(versions) > 1} == {}


def test_every_port_of_the_compose_file_is_on_the_loopback_interface_and_every_service_has_a_health_check() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    for name, service in compose["services"].items():
        assert service["healthcheck"]["test"], name
        assert [port for port in service["ports"] if not port.startswith("127.0.0.1:")] == [], name
    taken = [port.split(":")[1] for service in compose["services"].values() for port in service["ports"]]
    assert len(taken) == len(set(taken))


def test_make_without_a_target_lists_every_documented_target() -> None:
    shown = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory"], capture_output=True, text=True, check=True
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = ["help", "setup", "demo", "test", "test-fast", "lint", "bench", "schemas", "services"]
    for target in wanted:
        assert f"make {target} " in shown.stdout
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE)


def make_python(folder: Path, name: str, *, version: str, venv: bool) -> None:
    """A stand-in for a Python: answers what scripts/find-python asks."""
    folder.mkdir(exist_ok=True)
    good = "3.11" <= version <= "3.13"
    path = folder / name
    path.write_text(
        f"""#!/bin/sh
case "$2" in
  *sys.exit*) exit {0 if good else 1} ;;
  *ensurepip*) exit {0 if venv else 1} ;;
  *print*) echo {version} ;;
esac
"""
    )
    path.chmod(0o755)


def find_python(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "find-python")],
        env={"PATH": str(folder), **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_environment_is_made_with_a_python_that_can(tmp_path: Path) -> None:
    make_python(tmp_path, "python3.11", version="3.11", venv=False)
    make_python(tmp_path, "python3.12", version="3.12", venv=True)
    make_python(tmp_path, "python3", version="3.9", venv=True)
    assert find_python(tmp_path).stdout.strip() == str(tmp_path / "python3.12")


def test_a_python_without_venv_is_named_with_the_package_to_install(tmp_path: Path) -> None:
    make_python(tmp_path, "python3", version="3.11", venv=False)
    done = find_python(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path}/python3 has no venv module" in done.stderr
    assert "apt-get install python3.11-venv" in done.stderr


def test_a_machine_without_a_python_is_told_what_to_install(tmp_path: Path) -> None:
    make_python(tmp_path, "python3", version="3.9", venv=True)
    done = find_python(tmp_path)
    assert done.returncode == 1
    assert "no Python 3.11 to 3.14" in done.stderr


def test_a_python_that_was_asked_for_and_does_not_fit_is_an_error(tmp_path: Path) -> None:
    make_python(tmp_path, "old", version="3.9", venv=True)
    make_python(tmp_path, "python3.11", version="3.11", venv=True)
    done = find_python(tmp_path, PYTHON=str(tmp_path / "old"))
    assert done.returncode == 1
    assert f"PYTHON={tmp_path}/old is not a Python 3.11 to 3.14" in done.stderr

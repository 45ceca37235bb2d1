"""Measurement k: from a fresh clone to the first row beside the installation alone, and a start of `cdc run` beside one
of a bare PySpark session."""

from __future__ import annotations

import os
import runpy
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline import CDC
from readers import Bench
from spend import Contained, OtherLoad, cpu_of_tree

ROOT = Path(__file__).resolve().parents[2]
INSTALL = runpy.run_path(str(ROOT / "scripts" / "install.py"))
BARE = Path(__file__).with_name("bare_session.py")
COMMITTED = "batch committed"
ROUNDS = 3
"""At most; `--repeat 1` has one, in a third of the time."""
_WAIT_S = 900.0


def first_minutes(bench: Bench) -> dict[str, Any]:
    """Seconds and CPU seconds; the ratios are of seconds. Needs the package index; caches are empty each time."""
    rounds: dict[str, list[tuple[float, float]]] = {}
    load, spent = OtherLoad([bench.server_pid]), 0.0
    count = min(ROUNDS, bench.repeat)
    for number in range(count):
        folder = bench.folder / f"first-{number}"
        for name, measure in (("first_row", _first_row), ("installed", _installed), ("run", _run), ("bare", _bare)):
            bench.say(f"first: {name}, round {number + 1} of {count}")
            rounds.setdefault(name, []).append(measure(folder / name))
            spent += rounds[name][-1][1]
    found: dict[str, Any] = {"other_cores": load.cores(spent)}
    for name, taken in rounds.items():
        found |= {
            f"{name}_s": _median([wall for wall, _ in taken]),
            f"{name}_cpu_s": _median([cpu for _, cpu in taken]),
        }
        found[f"{name}_all_s"] = [round(wall, 1) for wall, _ in taken]
    found["first_row_to_installed"] = round(found["first_row_s"] / found["installed_s"], 2)
    found["run_to_bare"] = round(found["run_s"] / found["bare_s"], 2)
    return found


def _first_row(folder: Path) -> tuple[float, float]:
    """`make demo` in a clone of what is committed, to its first batch."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "clone")], check=True)
    return _until(COMMITTED, ["make", "-C", str(folder / "clone"), "demo"], folder, _empty(folder))


def _installed(folder: Path) -> tuple[float, float]:
    """uv alone with the pinned packages, as anybody would call it, into an environment that has what builds them."""
    environment, pins = folder / "environment", str(ROOT / "requirements.txt")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python, home = str(environment / "bin" / "python"), _empty(folder)
    build = [python, str(ROOT / "scripts" / "install.py"), str(ROOT / "requirements-build.txt")]
    subprocess.run(build, env={**os.environ, **home}, stdout=subprocess.DEVNULL, check=True)
    uv = [str(environment / "bin" / "uv"), "pip", "install", "--quiet", "--python", python, *INSTALL["HASHED"]]
    spent = Contained([*uv, "-r", pins], folder / "uv", environ=home).wait()
    if spent.code:
        raise RuntimeError(f"uv ended with {spent.code}")
    return spent.wall_s, spent.cpu_s


def _run(folder: Path) -> tuple[float, float]:
    """`cdc run` of the demo, with everything compiled, to its first batch."""
    folder.mkdir(parents=True)
    text = (ROOT / "pipelines" / "demo.yaml").read_text(encoding="utf-8")
    text = text.replace("demo/shop", f"{ROOT}/pipelines/demo/shop").replace("../.cdc/", f"{folder}/")
    (folder / "demo.yaml").write_text(text, encoding="utf-8")
    command = [CDC, "run", str(folder / "demo.yaml"), "--state-dir", str(folder / "state")]
    return _until(COMMITTED, command, folder, {})


def _bare(folder: Path) -> tuple[float, float]:
    """A PySpark session without anything of ours, to the end of one micro-batch."""
    folder.mkdir(parents=True)
    return _until("batch done", [sys.executable, str(BARE), str(folder)], folder, {})


def _until(word: str, command: Sequence[str], folder: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Seconds and CPU seconds until a command prints a word. Raises RuntimeError when it does not."""
    started = time.monotonic()
    running = Contained(command, folder / "out", environ=environ)
    try:
        while word not in running.out.read_text(errors="replace") + running.err.read_text(errors="replace"):
            if not running.running or time.monotonic() > started + _WAIT_S:
                raise RuntimeError(f"no {word!r} from {' '.join(command)}: {running.words()}")
            time.sleep(0.05)
        return time.monotonic() - started, cpu_of_tree(running.pid)
    finally:
        running.kill()


def _empty(folder: Path) -> dict[str, str]:
    """A machine that has seen nothing of ours: kernels and packages are in no cache."""
    home = folder / "home"
    home.mkdir(parents=True)
    return {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "NUMBA_CACHE_DIR": "", "PIP_NO_CACHE_DIR": "1"}


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 1)

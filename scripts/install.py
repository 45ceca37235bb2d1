"""Installs pinned packages into its own environment: `python scripts/install.py [--only NAMES | --but NAMES] FILE...`.

`uv` does it, which takes packages in parallel and holds every file against its hash; where it cannot be installed or
fails, pip does the same. `--only` and `--but` choose packages of the files by name. `--own FOLDER...` installs source
trees, to be edited. A line every few seconds says that it goes on.
"""

from __future__ import annotations

import argparse
import ensurepip
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

SAY_EVERY_S = 4.0
UV = Path(sys.executable).parent / "uv"
BUILD_PINS = Path(__file__).resolve().parent.parent / "requirements-build.txt"
HASHED = ("--require-hashes", "--no-deps", "--no-build-isolation")
"""The files list every package that is needed, so nothing is resolved."""
OWN = ("--no-index", "--no-deps", "--no-build-isolation")
STORED = "--config-settings=--build-option=--compression=stored"
"""Spark comes as source, 430 MB of archives: compressing them again for a wheel that is unpacked at once takes 15 s."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--only", default="", metavar="NAMES", help="of the files' packages; separated by commas")
    choice.add_argument("--but", default="", metavar="NAMES", help="all of the files' packages without these")
    choice.add_argument("--own", action="store_true", help="the paths are source trees")
    parser.add_argument("paths", nargs="+", type=Path)
    asked = parser.parse_args(arguments)
    if asked.own:
        return install([*OWN, *(part for path in asked.paths for part in ("-e", str(path)))], os.environ)
    names, wanted = frozenset(filter(None, (asked.only or asked.but).split(","))), bool(asked.only)
    return install_pins([chosen_pins(path, names, wanted=wanted) for path in asked.paths], install)


def chosen_pins(path: Path, names: frozenset[str], *, wanted: bool) -> str:
    """The pins of a requirements file whose name is (`wanted`) or is not one of the names."""
    pins = re.split(r"\n(?=[A-Za-z0-9])", path.read_text(encoding="utf-8"))
    return "\n".join(pin for pin in pins if (re.split(r"[=\[ ]", pin, maxsplit=1)[0] in names) == wanted)


def install_pins(pins: Sequence[str], installer: Callable[[Sequence[str], Mapping[str, str]], int]) -> int:
    """The exit code of the installer, which is given the pins as a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(pins))
        file.flush()
        return installer([*HASHED, STORED, "-r", file.name], os.environ)


def install(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The exit code of uv, or of pip where uv cannot be installed or fails."""
    with still_going("installing"), ThreadPoolExecutor(1) as beside:
        settings = beside.submit(of_pip, env)  # pip takes a second to start
        if UV.exists() or install_pins([chosen_pins(BUILD_PINS, frozenset({"uv"}), wanted=True)], with_pip) == 0:
            command = [str(UV), "pip", "install", "--quiet", "--python", sys.executable, *arguments]
            if subprocess.run(command, env={**settings.result(), **env}, check=False).returncode == 0:
                return 0
            say("uv could not install that (see above): trying pip")
        else:
            say("uv cannot be installed here (see above): trying pip")
        return with_pip(arguments, env)


def with_pip(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The exit code of `pip install`."""
    command = [*pip(), "--disable-pip-version-check", "install", "--quiet", "--no-compile", *arguments]
    return subprocess.run(command, env=dict(env), check=False).returncode


def of_pip(env: Mapping[str, str]) -> dict[str, str]:
    """Pip's settings of this machine, as uv calls them: the package index and the certificates."""
    listed = [*pip(), "config", "list"]
    done = subprocess.run(listed, env=dict(env), capture_output=True, text=True, check=False)
    found = dict(re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", done.stdout, re.MULTILINE))
    names = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "cert": "SSL_CERT_FILE"}
    return {named: found[name] for name, named in names.items() if name in found}


def pip() -> tuple[str, ...]:
    """The command of this environment's pip; until it has one, of the pip in the wheel that Python brings for that.

    A wheel of pip can be run as it is (its `__main__.py`), which takes three seconds less than its installation.
    """
    if find_spec("pip"):
        return (sys.executable, "-m", "pip")
    folders = filter(None, (sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(ensurepip.__file__).parent / "_bundled"))
    for wheel in (wheel for folder in folders for wheel in Path(folder).glob("pip-*.whl")):
        return (sys.executable, str(wheel / "pip"))
    ensurepip.bootstrap()
    return (sys.executable, "-m", "pip")


@contextmanager
def still_going(what: str) -> Iterator[None]:
    """Says every few seconds how long the block has taken."""
    ended, begun = threading.Event(), time.monotonic()

    def repeat() -> None:
        while not ended.wait(SAY_EVERY_S):
            say(f"  ... {what}: {time.monotonic() - begun:.0f} s")

    voice = threading.Thread(target=repeat, daemon=True)
    voice.start()
    try:
        yield
    finally:
        ended.set()
        voice.join()


def say(text: str) -> None:
    """One line, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

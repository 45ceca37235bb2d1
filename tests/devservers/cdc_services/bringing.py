"""The steps of an installation: a folder that appears whole, a jar from Maven, packages from pip."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cdc_services.download import digest

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `target` at the end of the block, and goes when the block raises."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield part
        shutil.rmtree(target, ignore_errors=True)
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def run(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a program to its end. Raises OSError with its last words when it fails."""
    done = subprocess.run(
        command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{command[0]} fails: {_COLOUR.sub('', done.stdout + done.stderr).strip()[-1500:]}")


def bring_jar(artifact: str, sha256: str, folder: Path, java: Path, environ: Mapping[str, str]) -> None:
    """Have Maven bring a jar, `group:name:version`, into a folder.

    Raises LookupError without Maven, OSError with Maven's words, ValueError for a jar of another SHA256.
    """
    maven = shutil.which("mvn", path=environ.get("PATH", ""))
    if maven is None:
        raise LookupError("Maven (mvn) is needed and is not on this machine")
    words = [maven, "--batch-mode", "--quiet", f"-Dartifact={artifact}"]
    home = {**environ, "JAVA_HOME": str(java.parents[1])}
    run([*words, "-Dtransitive=false", "dependency:get"], home)
    run([*words, f"-DoutputDirectory={folder}", "dependency:copy"], home)
    _, name, version = artifact.split(":")
    if digest(folder / f"{name}-{version}.jar") != sha256:
        raise ValueError(f"{name}-{version}.jar is not the pinned one")


def bring_packages(pins: Path, folder: Path, environ: Mapping[str, str], *options: str) -> None:
    """Have pip bring packages, pinned by hash and nothing else, into a folder, and the file of pins. Raises OSError."""
    pip = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps")
    run([*pip, *options, "--require-hashes", "--target", str(folder), "-r", str(pins)], environ)
    shutil.copy(pins, folder)

"""An archive of Spark's parsed and verified classes that Java maps into memory when it starts (AppCDS).

With it Java needs 5 instead of 9 CPU seconds until the first batch. `scripts/warm.py` creates it once per machine: a
short run with `CDC_CLASS_ARCHIVE=make` writes it when its Java ends, on top of the base archive of Java's own classes.
A trimmed runtime has no base archive, so one is created. Java checks whether an archive fits its version and class
path, and continues without it if not (JDK documentation, "Class Data Sharing").
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark

from cdc.job.spark.java import Java, cache_folder

_QUIET = "-Xlog:cds*=off -Xlog:class*=off"


def archive_path(env: Mapping[str, str], java: Java) -> Path:
    """The path of the archive for this Java and pyspark, whether or not it exists.

    It depends on the modification time of Java's modules: after an update in place Java would refuse the old archive.
    """
    modules = java.runtime / "lib" / "modules"
    made_ns = modules.stat().st_mtime_ns if modules.exists() else 0
    parts = (str(java.runtime), str(made_ns), pyspark.__version__, str(Path(pyspark.__file__).parent))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return cache_folder(env) / f"classes-{key}.jsa"


def archive_options(env: Mapping[str, str], java: Java) -> str:
    """Options for Java: use the archive if there is one; write it if the environment says so."""
    path = archive_path(env, java)
    base = None if any((java.runtime / "lib" / "server").glob("classes*.jsa")) else path.with_suffix(".base.jsa")
    if " " in str(path):  # Spark's scripts would split it
        return ""
    if env.get("CDC_CLASS_ARCHIVE") == "make":
        _make_way(java, path, base)
        below = f"-XX:SharedArchiveFile={base} " if base else ""
        return f"{below}-XX:ArchiveClassesAtExit={path} {_quiet(java)}"
    if not os.access(path, os.R_OK):
        return ""
    both = f"{base}{os.pathsep}{path}" if base else str(path)
    return f"-XX:SharedArchiveFile={both} -Xshare:auto {_quiet(java)}"


def _quiet(java: Java) -> str:
    """Options that silence messages about the archive. Java 24 has a new log tag, with which older versions fail."""
    return f"{_QUIET} -Xlog:aot*=off" if java.version > 21 else _QUIET


def _make_way(java: Java, path: Path, base: Path | None) -> None:
    """Remove an old archive, and create the base archive if the runtime has none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if base is not None:
        base.unlink(missing_ok=True)
        program = str(java.runtime / "bin" / "java")
        command = [program, "-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)

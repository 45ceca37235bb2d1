"""An archive of Spark's classes, parsed and verified, that Java maps into memory at its start (AppCDS).

With it Java needs 5 instead of 9 seconds of CPU until the first batch. `scripts/warm.py` makes it once per machine: a
short run under `CDC_CLASS_ARCHIVE=make` writes it when its Java ends. Java checks itself whether an archive fits its
version and class path, and goes on without when it does not (JDK documentation, "Class Data Sharing").
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

from cdc.job.java import Java, cache_folder

_QUIET = "-Xlog:cds*=off -Xlog:class*=off"


def archive_path(env: Mapping[str, str], java: Java) -> Path:
    """Where the archive for this Java and this pyspark is, whether or not it exists."""
    parts = (str(java.runtime), str(java.version), pyspark.__version__, str(Path(pyspark.__file__).parent))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return cache_folder(env) / f"classes-{key}.jsa"


def archive_options(env: Mapping[str, str], java: Java) -> str:
    """Options for Java: use the archive when there is one; write it when the environment says so."""
    path = archive_path(env, java)
    if env.get("CDC_CLASS_ARCHIVE") == "make":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
    # A path with a space would be cut in two on its way through Spark's scripts.
    usable = os.access(path, os.R_OK) and " " not in str(path)
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {_QUIET}" if usable else ""

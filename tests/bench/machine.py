"""What the figures were measured on: nothing that names the machine or its place."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "duckdb", "pymysql")


def described() -> dict[str, Any]:
    """Processor, memory, kernel, versions, the commit."""
    return {
        "cpu": _cpu(), "cores": len(os.sched_getaffinity(0)), "memory_gb": round(_memory_kb() / 1024**2, 1),
        "kernel": platform.release(), "python": sys.version.split()[0],
        **{name: version(name) for name in _PACKAGES}, "java": _java(), "commit": _commit(),
    }  # fmt: skip


def _cpu() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _memory_kb() -> int:
    found = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return int(found[1]) if found else 0


def _java() -> str:
    from cdc.errors import EngineError
    from cdc.job.spark.java import choose_java

    try:
        java = choose_java(os.environ)
    except EngineError:
        return ""
    return f"{java.version} ({java.origin})"


def _commit() -> str:
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()

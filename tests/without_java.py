"""The environment of a machine that has no Java of its own."""

from __future__ import annotations

import os
from pathlib import Path


def without_java(folder: Path) -> dict[str, str]:
    """This process's environment, with all programs of the system but `java`, in a new folder of `folder`."""
    tools = folder / "bin"
    tools.mkdir()
    for place in ("/usr/bin", "/bin"):
        for tool in Path(place).iterdir():
            link = tools / tool.name
            if tool.name != "java" and not link.is_symlink():
                link.symlink_to(tool)
    env = {key: value for key, value in os.environ.items() if key not in {"JAVA_HOME", "SPARK_HOME"}}
    return {**env, "PATH": str(tools)}

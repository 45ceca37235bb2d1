"""Where a pipeline keeps its state: the folder that was asked for, or one beside the pipeline file."""

from __future__ import annotations

import re
from pathlib import Path

from cdc.errors import StateError
from cdc.spec.model import PipelineSpec

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)(.*)", re.DOTALL)


def state_root(given: str | Path | None, spec: PipelineSpec) -> Path:
    """The folder of the state directory. Raises StateError for a place that is not in a file system."""
    return default_state_dir(spec) if given is None else local_path(given)


def local_path(given: str | Path) -> Path:
    """A path, or the path in a URL of the scheme `file`. Raises StateError for other URLs."""
    url = _URL.fullmatch(str(given))  # a Path has folded the slashes of a URL into one
    if url is None:
        return Path(given)
    scheme, slashes, rest = url.groups()
    if scheme.lower() == "file" and len(slashes) != 2:
        return Path("/", rest)
    if scheme.lower() == "file":
        reason = f"file://{rest.partition('/')[0]} names another machine"
        raise StateError(f"cannot keep state there: {reason}", where=str(given), hint=f"write file:///{rest}")
    raise StateError(
        f"cannot keep state in {scheme}: so far it has to be a folder that this machine and all executors see",
        where=f"{scheme}://{rest}",
        hint="name a folder of a mounted file system (NFS on a cluster), such as --state-dir /mnt/shared/cdc/shop",
    )


def default_state_dir(spec: PipelineSpec) -> Path:
    """`.cdc/<pipeline name>` beside the pipeline file."""
    return Path(spec.file).absolute().parent / ".cdc" / folder_name(spec.name)


OF_THE_ROOT = frozenset({"lock", "savepoints", "serve.json"})
"""What a state root has beside the folders of pipelines."""


def folder_name(name: str) -> str:
    """The folder of a pipeline of this name: its letters that every file system takes.

    Raises StateError for a name that has none, or whose folder would be one of the state root's own files.
    """
    found = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).strip(".")
    if not found or found.lower() in OF_THE_ROOT:
        why = "has no letter" if not found else "is a name that the folder of all state directories uses itself"
        raise StateError(f"the pipeline's name {why}", where=name, hint="give it another pipeline.name")
    return found

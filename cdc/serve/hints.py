"""Rewords hints that name options of `cdc run` for a server, which has a folder for each pipeline."""

from __future__ import annotations

import re
import shlex

from cdc.errors import CdcError

_REWORDED = (
    (r"give (?:the pipeline file or )?the --state-dir that (?:it|the pipeline) runs with",
     "it has none until a run has committed its first batch"),
    (r"\b((?:re)?start(?:ed|s)?(?: over)? with )(?:another|an empty|a new) --state-dir\b",
     r"\1another pipeline.name (its state is in a folder of that name)"),
    (r"\b(?:another|a) --state-dir\b", "another --state-root of `cdc serve`"),
    (r"--state-dir\b", "state directory"),
)  # fmt: skip


def for_a_server(error: CdcError, name: str = "") -> CdcError:
    """Reword the error's hint: `--state-dir` becomes its equivalent in `cdc serve`, FILE the pipeline's name."""
    for pattern, replacement in _REWORDED:
        error.hint = re.sub(pattern, replacement, error.hint)
    if name:
        error.hint = error.hint.replace("`cdc resync FILE ", f"`cdc resync {shlex.quote(name)} ")
    return error

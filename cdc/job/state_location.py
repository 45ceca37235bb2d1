"""Where a pipeline keeps its state when nothing else is said."""

from __future__ import annotations

from pathlib import Path

from cdc.spec.model import PipelineSpec


def default_state_dir(spec: PipelineSpec) -> Path:
    """`.cdc/<pipeline name>` beside the pipeline file."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in spec.name)
    return Path(spec.file).absolute().parent / ".cdc" / (name.strip(".") or "pipeline")

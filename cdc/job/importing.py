"""`cdc import`: set the first offset of a new pipeline from another tool's position."""

from __future__ import annotations

from pathlib import Path

from cdc.errors import StateError
from cdc.job.state_location import alone, state_location
from cdc.offsets import numbered
from cdc.source import Context, Source
from cdc.spec.model import PipelineSpec


def import_position(spec: PipelineSpec, position: str, state_dir: Path | None) -> str:
    """Write the state directory of a pipeline that starts at the position; return a description of the position.

    Raises StateError if the pipeline has started already or is running, SourceError if the position cannot be used.
    """
    with alone(state_location(state_dir, spec)) as state:
        if state.initial_offset() is not None:
            raise StateError(
                "this pipeline has started already",
                where=state.store.where(),
                hint="choose another --state-dir, or remove this one to start over",
            )
        pipeline = state.open(name=spec.name, source=spec.source.type)
        source: Source = spec.source.build(Context(pipeline, state.source))
        offset, notices = source.start_at(position)
        state.store_initial_offset(numbered(offset, 0))
    return notices

"""Creates the recording of a run: its status document, event file, callback and traces. Driver."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.flow.middle import Middle
from cdc.job.control import RunControl
from cdc.job.report import Reporter
from cdc.job.run_settings import Mode
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.status.events import EventFile
from cdc.status.model import StatusDocument
from cdc.status.recording import Outlets, Recording, first_status
from cdc.tables.pauses import PauseReader

if TYPE_CHECKING:
    from cdc.status.traces import Traces


def recording_of(
    spec: PipelineSpec,
    middle: Middle,
    pipeline: str,
    state: StateDir,
    reporter: Reporter,
    mode: Mode,
    control: RunControl,
    events: Path | None,
    on_status: Callable[[StatusDocument], None] | None,
) -> Recording:
    """The recording of a run. `middle` is the compiled pipeline file.

    The file `events` gets a line per event; `on_status` is called with each new status document. Raises StateError.
    """
    first = first_status(
        state.root, pipeline, name=spec.label, source=spec.source.type, sink=spec.sink.type, file=spec.file,
        behavior=str(middle.policy), bounded=mode.until_caught_up,
    )  # fmt: skip
    file = None if events is None else EventFile(events, spec.label)
    warn, pauses = partial(reporter.line, level="warning"), PauseReader(state).tables
    outlets = Outlets(file, on_status, _traces(spec, warn, control))
    return Recording(first, state.root, control.progress, warn, outlets, pauses)


def _traces(spec: PipelineSpec, warn: Callable[[str], None], control: RunControl) -> Traces | None:
    if spec.pipeline.traces == "none":
        return None
    from cdc.status.traces import Traces

    options = spec.pipeline
    return Traces(spec.label, spec.source.type, spec.sink.type, options.traces_endpoint, warn, guest=control.guest)

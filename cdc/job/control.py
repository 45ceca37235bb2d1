"""The interface between a run and the thread that controls and watches it. Driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cdc.errors import CdcError
from cdc.progress import Progress
from cdc.source import Siblings

if TYPE_CHECKING:
    from cdc.job.spark.shared import SharedSpark
    from cdc.spec.model import PipelineSpec


@dataclass(frozen=True, slots=True)
class RunControl:
    """Shared between a run and the thread that watches it.

    Attributes:
        stop: set it to end the run after the current batch.
        drain: set it to end the run after everything that the source's log holds at that moment is committed.
        progress: what the run has done so far.
        log: where log lines and the summary go; None: log lines to stderr, the summary to stdout.
        shared: the Spark session of a process with several runs; None: the run starts and stops its own session.
        siblings: the runs into the other sinks of the pipeline; None for a pipeline with one sink.
        again: whether the run restarts a failed one; it then ignores `schedule.copy: refresh`.
        guest: whether the process belongs to another program, such as a notebook. The run then changes nothing in it
            that outlives the run, and does not touch a Spark session that is not its own.
        reads: called once the run is set up and reads, or waits for something to read.
        reword: adapts the text of an error for the user of this interface, before it is reported.
    """

    stop: threading.Event = field(default_factory=threading.Event)
    drain: threading.Event = field(default_factory=threading.Event)
    progress: Progress = field(default_factory=Progress)
    log: IO[str] | None = None
    again: bool = False
    guest: bool = False
    shared: SharedSpark | None = None
    siblings: Siblings | None = None
    reads: Callable[[], None] = lambda: None
    reword: Callable[[CdcError], CdcError] = lambda error: error


def siblings_of(spec: PipelineSpec, specs: Sequence[PipelineSpec], folder: Path) -> Siblings | None:
    """The sibling runs of the run of `spec`, one per sink of the pipeline; None if there is one sink."""
    if len(specs) < 2:
        return None
    metadata = {name for each in specs for name in each.metadata()}
    return Siblings(folder, spec.sink_name, len(specs), tuple(sorted(metadata)))

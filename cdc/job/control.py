"""Requests of another thread to a run, and its view of the run. Driver."""

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
        stop: set it, and the running batch is finished and the run ends.
        drain: set it, and what the source's log holds then is still committed before the run ends.
        progress: what the run did so far.
        log: where log lines and the summary go; None: log lines to stderr, the summary to stdout.
        shared: the Spark session of the process, for a run beside others; None: the run starts and ends one of its own.
        siblings: the runs into the other sinks of the pipeline; None for a run alone.
        again: whether the run carries on with one that failed: then it re-snapshots no table because of its schedule.
        guest: whether the process belongs to somebody else, a notebook for example: then the run changes nothing in it
            that outlives the run, and does not touch a Spark session that is not its own.
        reads: called once the run is set up: from then on it reads, or waits for something to read.
        words: gives an error the words of who runs the pipeline, before anybody is told of it.
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
    words: Callable[[CdcError], CdcError] = lambda error: error


def siblings_of(spec: PipelineSpec, specs: Sequence[PipelineSpec], folder: Path) -> Siblings | None:
    """The runs of a pipeline into all of its sinks, as the run of `spec` sees them; None where there is one sink."""
    if len(specs) < 2:
        return None
    metadata = {name for each in specs for name in each.metadata()}
    return Siblings(folder, spec.sink_name, len(specs), tuple(sorted(metadata)))

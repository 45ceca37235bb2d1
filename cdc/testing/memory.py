"""Runs a pipeline to the source's end in this process, without Spark, with the engine's own batches (`cdc.flow`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cdc.flow.middle import Middle
from cdc.offsets import numbered
from cdc.sink import Sink
from cdc.source import Limits, Offset, Source
from cdc.state.directory import StateDir
from cdc.testing.list_source import ListSource
from cdc.testing.local_pipeline import LocalPipeline, MemoryRun

if TYPE_CHECKING:
    from cdc.transform.rules import Rules


def run_in_memory(
    source: Source,
    sink: Sink,
    *,
    limits: Limits | None = None,
    parallelism: int = 1,
    start: Offset | None = None,
    first_batch: int = 0,
    restarted: Callable[[], Sink] | None = None,
    state: Path | StateDir | None = None,
    rules: Rules | None = None,
    middle: Middle | None = None,
    now: datetime | None = None,
) -> MemoryRun:
    """Read the source to its end, batch after batch: apply, prepare, decide, commit.

    A `FailAt` in a `ListSource` kills the run at that step of its batch, once; then it continues as after a restart,
    with the sink that `restarted` creates (default: the same object). `start` and `first_batch` continue a run; if
    tables of that run change, `state` is needed too: the folder or state directory of both runs. `rules` are the
    transform rules, `middle` is everything between source and sink; `now` is the time of every batch instead of the
    clock.

    Raises CdcError, after committing what was decided.
    """
    at = source.initial_offset() if start is None else start
    with TemporaryDirectory(prefix="cdc-run-") if state is None else nullcontext(state) as folder:
        root = folder if isinstance(folder, StateDir) else Path(folder)
        pipeline = LocalPipeline(
            source, sink, root, numbered(at, first_batch), restarted or (lambda: sink), middle or Middle(rules=rules),
            now,
        )  # fmt: skip
        batch = first_batch
        try:
            while (end := pipeline.latest(at, batch, limits)) != at or pipeline.has_requests:
                failures = source.failures(at, end) if isinstance(source, ListSource) else []
                pipeline.batch(numbered(at, batch), numbered(end, batch + 1), parallelism, failures)
                source.commit(end)
                at, batch = end, batch + 1
        finally:
            pipeline.wait()
        source.stop()
        return pipeline.finish(batch - first_batch, at)

"""A pipeline file run in this process, without Spark: the same source and sink objects, in pieces."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

from cdc_process import Pipeline

from cdc.flow.middle import Middle
from cdc.offsets import source_offset
from cdc.options import SinkOptions, SourceOptions
from cdc.source import Context, Limits, Offset
from cdc.spec.check import check_file
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.store import LocalStore
from cdc.testing import MemoryRun, run_in_memory


class DirectRuns:
    """Runs of one pipeline, each to the end that the log has when it starts, each with objects of its own.

    Attributes:
        notices: what the source of the last run has told.
    """

    def __init__(self, pipeline: Pipeline, name: str = "proof-1") -> None:
        self.pipeline, self._name = pipeline, name
        self.notices: tuple[str, ...] = ()

    def catch_up(self, limits: Limits, *, parallelism: int = 3, middle: Middle | None = None) -> MemoryRun:
        """One run; it continues after the last batch that was decided. Raises CdcError."""
        self.pipeline.write()
        with patch.dict(os.environ, {"MYSQL_PASSWORD": self.pipeline.password}):
            spec = check_file(str(self.pipeline.file)).spec
        source_options, sink_options = spec.source, spec.sink
        assert isinstance(source_options, SourceOptions)
        assert isinstance(sink_options, SinkOptions)
        folders = {name: self.pipeline.state / name for name in ("source", "sink")}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        source = source_options.build(Context(self._name, LocalStore(folders["source"]), metadata=spec.metadata()))
        sink = sink_options.build(Context(self._name, LocalStore(folders["sink"])))
        source.stop_at_current()
        engine = self.pipeline.state / "engine"
        start, batch = self._reached(engine)
        try:
            return run_in_memory(
                source, sink, limits=limits, parallelism=parallelism, start=start, first_batch=batch, state=engine,
                middle=middle,
            )  # fmt: skip
        finally:
            lag = source.lag() if hasattr(source, "lag") else None
            self.notices = () if lag is None else tuple(lag.notices)

    def _reached(self, engine: Path) -> tuple[Offset | None, int]:
        """Where the last decided batch ends, also when its run was stopped after it, and the next batch's number."""
        log = CommitLog(StateDir(engine).commits)
        decision = log.get(log.last())
        return (None, 0) if decision is None else (source_offset(decision.end), decision.batch + 1)

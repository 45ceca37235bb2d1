"""A pipeline file run in this process, without Spark: the same source and sink objects, in pieces."""

from __future__ import annotations

import os
from unittest.mock import patch

from cdc_process import Pipeline

from cdc.options import SinkOptions, SourceOptions
from cdc.source import Context, Limits, Offset
from cdc.spec.check import check_file
from cdc.state.store import LocalStore
from cdc.testing import Run, run_in_memory


class DirectRuns:
    """Runs of one pipeline, each to the end that the log has when it starts, each with objects of its own."""

    def __init__(self, pipeline: Pipeline, name: str = "proof-1") -> None:
        self.pipeline, self._name = pipeline, name
        self._offset: Offset | None = None
        self._batch = 0

    def catch_up(self, limits: Limits, *, parallelism: int = 3) -> Run:
        """One run; it continues behind the last batch that the one before has decided. Raises CdcError."""
        self.pipeline.write()
        with patch.dict(os.environ, {"MYSQL_PASSWORD": self.pipeline.password}):
            spec = check_file(str(self.pipeline.file)).spec
        source_options, sink_options = spec.source, spec.sink
        assert isinstance(source_options, SourceOptions)
        assert isinstance(sink_options, SinkOptions)
        folders = {name: self.pipeline.state / name for name in ("source", "sink")}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        source = source_options.build(Context(self._name, LocalStore(folders["source"])))
        sink = sink_options.build(Context(self._name, LocalStore(folders["sink"])))
        source.stop_at_current()
        latest = source.latest_offset

        def latest_offset(start: Offset, limits: Limits, wait_s: float) -> Offset:
            if self._offset is not None and start != self._offset:
                self._batch += 1  # the batch up to there is done
            self._offset = start
            return latest(start, limits, wait_s)

        with patch.object(source, "latest_offset", latest_offset):
            return run_in_memory(
                source, sink, limits=limits, parallelism=parallelism, start=self._offset, first_batch=self._batch,
                state=self.pipeline.state / "engine",
            )  # fmt: skip

"""The console log of a run, including what libraries and child processes print meanwhile. Driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from cdc.job.control import RunControl
from cdc.job.json_log import JsonLog
from cdc.job.log_records import log_records, log_records_here
from cdc.job.report import Reporter


@dataclass(frozen=True, slots=True)
class ConsoleLog:
    """The console log of a run. `is_guest`: the process has other runs, whose log records must not appear here."""

    reporter: Reporter
    json_log: JsonLog
    is_guest: bool

    @classmethod
    def of(cls, log_format: str, control: RunControl, sink_name: str) -> ConsoleLog:
        """The log of a run; `sink_name` is set for a pipeline with several sinks."""
        reporter = Reporter(log_format, out=control.log, err=control.log, sink=sink_name)
        is_guest = control.shared is not None
        return cls(reporter, JsonLog(reporter.line, enabled=log_format == "json" and not is_guest), is_guest)

    @contextlib.contextmanager
    def of_python(self) -> Iterator[None]:
        """While the block runs, write Python's log records and everything sent to `sys.stderr` to this log."""
        records = log_records_here if self.is_guest else log_records
        with records(self.reporter.line), self.json_log.of_python():
            yield

"""Checks before a run reads anything, and the commit of batches that earlier runs decided. Driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cdc.errors import CdcError, CommitUnknown
from cdc.flow.middle import Middle
from cdc.job.checkpoint import check_decided, repair
from cdc.job.edits import Edits
from cdc.job.report import Reporter
from cdc.job.run_settings import Output
from cdc.planning.table_checks import check_merges, check_patterns, check_rules
from cdc.process.signals import Signals
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.sink import Sink
from cdc.source import Source
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir


class FirstChecks:
    """Checks that a pipeline file, its source, its sink and its state directory belong together."""

    def __init__(
        self, spec: PipelineSpec, middle: Middle, state: StateDir, source: Source, sink: Sink, output: Output
    ) -> None:
        self._spec, self._middle, self._state, self._output = spec, middle, state, output
        self._source, self._sink = source, sink
        self._edits = Edits(spec, middle, state)

    def check_first_tables(self) -> None:
        """Check routes and rules of a new pipeline against the source's tables. Raises SpecError.

        Not for a pipeline that continues: its position may be far behind the current tables.
        """
        if self._state.initial_offset() is not None:
            return
        source, middle = self._source, self._middle
        tables = _first_tables(source)
        middle.routes.check(tables)
        check_merges(middle, check_rules(middle.rules, tables))
        if source.lists_all_tables or not source.bounded:  # otherwise the first tables are not all tables
            for problem in check_patterns(self._spec, middle.routes, tables, complete=source.lists_all_tables):
                self._output.warn(str(problem))

    def check_state(self) -> None:
        """Check that sink, file and state directory belong together. Raises EditRefused, SinkError, StateError."""
        self._edits.check_sink(self._sink)
        self._sink.check()
        commits = CommitLog(self._state.commits)
        for sentence in repair(self._state.checkpoint, lambda batch: commits.get(batch) is not None):
            self._output.warn(sentence)
        check_decided(self._state.checkpoint, commits)

    def finish_earlier(self, recover: Callable[[], None], retry: RetryPolicy, signals: Signals) -> bool:
        """Check edits and the sink's tables, and commit what earlier runs decided; False if a signal interrupted it.

        `recover` commits. Raises EditRefused, SinkError, SourceError, StateError.
        """
        named = partial(retry.call, partial(self._edits.check_patterns, self._source), "check of the source's tables")
        check_tables = partial(self._edits.check_tables, self._source, self._sink)
        check = partial(retry.call, check_tables, "check of the sink's tables")
        return finish_earlier_runs((named, check, recover), signals, self._output.reporter)


def finish_earlier_runs(steps: Iterable[Callable[[], None]], signals: Signals, reporter: Reporter) -> bool:
    """Run the steps that commit what earlier runs decided; False if a signal ended the wait for an unreachable sink.

    Raises what `steps` raise otherwise.
    """
    try:
        for step in steps:
            step()
    except CdcError as error:
        passing = error.retryable or isinstance(error, CommitUnknown)
        if not (signals.stop.is_set() and passing):
            raise
        stopped = "stopped while batches that earlier runs decided were being committed; the next run commits them"
        reporter.line(f"{stopped}: {error}", level="warning")
        return False
    return True


def _first_tables(source: Source) -> Mapping[TableId, TableSchema]:
    """The tables that a pipeline starts with, as far as they are known before anything is read."""
    if not source.bounded or source.lists_all_tables:
        return source.tables()
    return source.first_tables()

"""`cdc verify`: compares the sink tables of a pipeline, which may be running, with its source tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import CdcError, SourceError
from cdc.retry import RetryPolicy
from cdc.source import Context, CurrentTables
from cdc.spec.compiled import compile_spec
from cdc.state.directory import StateDir
from cdc.status.file import read_status
from cdc.tables.log import TableLog
from cdc.tables.pauses import PauseReader
from cdc.verify.hashing import open_engine
from cdc.verify.position import Committed
from cdc.verify.report import TableReport, Verification
from cdc.verify.table_verifier import TableVerifier, VerifySettings
from cdc.verify.tables import Pair

if TYPE_CHECKING:
    from cdc.spec.model import PipelineSpec

WAIT_S = 60.0
"""Default time to wait for a running pipeline."""


def verify(
    spec: PipelineSpec, state_dir: Path | None, settings: VerifySettings, on_report: Callable[[TableReport], None]
) -> Verification:
    """Compare table by table; `on_report` gets each report as soon as it is known. Changes nothing.

    A table whose comparison loses a connection is compared again, for as long as `retry-timeout` of the pipeline.

    Raises NotNow when the pipeline never ran, SourceError and SinkError when a side cannot be read.
    """
    from cdc.job.state_location import reading

    with reading(state_dir, spec) as state:
        return _verify_tables(spec, state, settings, on_report)


def _verify_tables(
    spec: PipelineSpec, state: StateDir, settings: VerifySettings, on_report: Callable[[TableReport], None]
) -> Verification:
    pipeline = state.ran_pipeline(source=spec.source.type)
    source = spec.source.build(Context(pipeline, state.source))
    sink = spec.sink.build(Context(pipeline, state.sink))
    if (now := source.current_tables()) is None:
        raise SourceError("its tables cannot be read, only their changes", where=f"source {spec.source.type}")
    committed = Committed(state, RetryPolicy(_wait_s(settings, state), 0.1, 1.0))
    decision = committed.decision()
    with closing(now), open_engine() as engine:
        verifier = TableVerifier(now, sink, compile_spec(spec), committed, settings, engine)
        verifier.copying = {each.table: each.state for each in source.progress() if each.state != "done"}
        verifier.pauses = PauseReader(state).tables()
        retry, reports = RetryPolicy(spec.pipeline.retry_timeout_s), []
        for pair in verifier.pairs(TableLog(state.store).at(decision.batch).sink):
            reports.append(retry.call(partial(_report, verifier, pair, now), f"verify {pair.table}"))
            on_report(reports[-1])
    return Verification(spec.label, decision.batch, committed.offset(), tuple(reports))


def _report(verifier: TableVerifier, pair: Pair, now: CurrentTables) -> TableReport:
    """Compare one table. Raises CdcError; the next attempt reads over new sessions."""
    try:
        return verifier.report(pair)
    except CdcError:
        now.close()
        raise


def _wait_s(settings: VerifySettings, state: StateDir) -> float:
    if settings.wait_s is not None:
        return settings.wait_s
    seen = read_status(state.root)
    return WAIT_S if seen is not None and seen.alive else 0.0

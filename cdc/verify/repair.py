"""`cdc verify --repair`: requests a re-snapshot of tables that differ, as `cdc resync` does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.evolution.behavior import Behavior
from cdc.schema import TableId, TruncateTable
from cdc.spec.compiled import compile_spec
from cdc.verify.report import TableReport, Verdict, Verification

if TYPE_CHECKING:
    from cdc.evolution.behavior import Policy
    from cdc.spec.model import PipelineSpec


def repair(spec: PipelineSpec, found: Verification, state_dir: Path | None) -> Iterator[str]:
    """Request a re-snapshot of each source table of a differing sink table; yields a line for each.

    Raises the errors of `request_resync`.
    """
    from cdc.job.resync import request_resync

    policy = compile_spec(spec).policy
    for report in found.tables:
        for source in report.sources if report.state is Verdict.DIFFERENT else ():
            request_resync(spec, source, state_dir)
            yield f"{source}: will be re-snapshotted{_rows_that_stay(policy, report)}"


def _rows_that_stay(policy: Policy, report: TableReport) -> str:
    """Describe the differences that a re-snapshot leaves, as `cdc.tables` decides whether it replaces the table."""
    table = TableId.parse(report.table)
    replaced = policy.behavior is not Behavior.IGNORE and policy.allows(TruncateTable(table))
    if not report.extra or (replaced and len(report.sources) == 1):
        return ""
    why = "others share that table" if len(report.sources) > 1 else "schema changes that remove rows are skipped"
    return f", over the rows of {report.table}: {report.extra} that are only in the sink stay, as {why}"

"""Requests for the state and the tables of a pipeline in a server. Any thread; each may raise StateError."""

from __future__ import annotations

from pathlib import Path

from cdc.serve.supervisor import Supervisor

SAVEPOINT_S = 60.0
"""How long a savepoint waits for the end of the running batch."""


def savepoint(pipeline: Supervisor) -> Path:
    """Copy its state between two runs; returns the copy's folder. Raises NotNow."""
    from cdc.job.savepoint import check_savepoint, create_savepoint

    check_savepoint(pipeline.spec, pipeline.root)
    return pipeline.between_runs(lambda: create_savepoint(pipeline.spec, pipeline.root), SAVEPOINT_S)


def resync(pipeline: Supervisor, table: str) -> None:
    """Re-snapshot a table. Raises SourceError."""
    from cdc.job.resync import request_resync

    request_resync(pipeline.spec, table, pipeline.root)


def pause(pipeline: Supervisor, table: str) -> str:
    """Pause a table; returns a message. Raises SourceError."""
    from cdc.job.pausing import request_pause

    return request_pause(pipeline.spec, table, pipeline.root)


def resume(pipeline: Supervisor, table: str) -> str:
    """Resume a table; returns a message. Raises SourceError."""
    from cdc.job.pausing import request_resume

    return request_resume(pipeline.spec, table, pipeline.root)

"""Sends the notifications of `cdc run` that the file's `notify.*` options configure, for a run and its restarts."""

from __future__ import annotations

import time
from types import TracebackType

from cdc.job.report import Reporter
from cdc.spec.model import PipelineSpec
from cdc.status.model import StatusDocument
from cdc.status.notifications import Observation
from cdc.status.notify import NotificationTarget, Notifier
from cdc.status.recorder import shown_error


class RunNotifying:
    """Context manager around a run and its restarts that is called with each status document. One thread.

    Notifies of lag, dead letters and schema changes as they occur, and of `failing` when a run fails for good. Does
    nothing if the file configures no target.
    """

    def __init__(self, spec: PipelineSpec, log_format: str) -> None:
        self._name, self._target = spec.label, NotificationTarget.of(spec.pipeline)
        self._reporter = Reporter(log_format)
        self._notifier: Notifier | None = None

    def __enter__(self) -> RunNotifying:
        if self._target is not None:
            self._notifier = Notifier(lambda text: self._reporter.line(text, level="warning"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._notifier is None or self._target is None:
            return
        if isinstance(error, Exception):
            now_s = time.time()
            failed = Observation(self._name, "failed", error=shown_error(error, now_s))
            self._notifier.observe(failed, self._target, now_s)
        self._notifier.close()

    def __call__(self, status: StatusDocument) -> None:
        """Notify of what is new in a status document."""
        if self._notifier is None or self._target is None:
            return
        look = Observation(
            self._name, lag_s=status.lag.seconds, run_s=status.started_s, dead_letters=status.dead_letters,
            changes=status.schema_changes,
        )  # fmt: skip
        self._notifier.observe(look, self._target, status.updated_s)

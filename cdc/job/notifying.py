"""Notifications of `cdc run`: what the file's `notify.*` options ask for, of this one run and its restarts."""

from __future__ import annotations

import time
from types import TracebackType

from cdc.job.report import Reporter
from cdc.spec.model import PipelineSpec
from cdc.status.model import StatusDocument
from cdc.status.notifications import Look
from cdc.status.notify import NotificationTarget, Notifier
from cdc.status.recorder import shown_error


class RunNotifying:
    """Looks at each status document; a context manager around the run and its restarts. One thread.

    A run that fails and is not started again is told as `failing`; a lag, dead letters and schema changes as they come.
    Does nothing where the file names nowhere to send to.
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
            failed = Look(self._name, "failed", error=shown_error(error, now_s))
            self._notifier.look(failed, self._target, now_s)
        self._notifier.close()

    def __call__(self, status: StatusDocument) -> None:
        """A new status document."""
        if self._notifier is None or self._target is None:
            return
        look = Look(
            self._name, lag_s=status.lag.seconds, run_s=status.started_s, dead_letters=status.dead_letters,
            changes=status.schema_changes,
        )  # fmt: skip
        self._notifier.look(look, self._target, status.updated_s)

"""Runs comparisons of a sink with its source from the page: one at a time, in a thread; the last result is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cdc.errors import CdcError, NotNow
from cdc.serve.control import Control, PipelineView
from cdc.serve.hints import for_a_server
from cdc.status.model import Error
from cdc.status.recorder import shown_error

if TYPE_CHECKING:
    from cdc.verify.report import TableReport, Verification

Compare = Callable[[PipelineView, "Callable[[TableReport], None]"], "Verification"]
"""Compares all tables and reports each. Raises CdcError."""


@dataclass(frozen=True, slots=True)
class VerifyProgress:
    """The progress or the result of a comparison. `lines` are for people, without values of rows.

    It is `open` when no table differs and some could not be decided, as they are being copied or the pipeline lags.
    """

    state: Literal["running", "equal", "different", "open", "failed"]
    started_s: float
    ended_s: float | None = None
    lines: tuple[str, ...] = ()
    summary: str = ""
    error: Error | None = None


def compare_running(control: Control, view: PipelineView, on_report: Callable[[TableReport], None]) -> Verification:
    """Compare as `cdc verify FILE` does, with the running version of the file."""
    from cdc.verify.run import verify
    from cdc.verify.table_verifier import VerifySettings

    return verify(control.spec(view.name), Path(view.state_dir), VerifySettings(), on_report)


class Verifications:
    """The comparisons of all pipelines. Any thread."""

    def __init__(self, control: Control, compare: Compare | None = None) -> None:
        self._control, self._compare = control, compare or partial(compare_running, control)
        self._lock = threading.Lock()
        self._found: dict[str, VerifyProgress] = {}

    def of(self, name: str) -> VerifyProgress | None:
        """Return the last comparison of a pipeline, None without any."""
        return self._found.get(name)

    def start(self, name: str) -> None:
        """Start a comparison. Raises PipelineUnknown, NotNow while one is running."""
        view = self._control.pipeline(name)
        with self._lock:
            busy = next((other for other, found in self._found.items() if found.state == "running"), None)
            if busy is not None:
                raise NotNow(f"{busy} is being verified", where=name, hint="wait for its end")
            self._found[name] = VerifyProgress("running", time.time())
        threading.Thread(target=self._work, args=(view,), name=f"verify-{name}", daemon=True).start()

    def _work(self, view: PipelineView) -> None:
        def on_report(report: TableReport) -> None:
            self._update(view.name, lines=(*self._found[view.name].lines, *report.lines()))

        try:
            result = self._compare(view, on_report)
        except Exception as error:  # noqa: BLE001 - shown on the page
            now = time.time()
            shown = for_a_server(error, view.name) if isinstance(error, CdcError) else error
            self._update(view.name, state="failed", ended_s=now, error=shown_error(shown, now))
            return
        self._update(view.name, state=_verdict(result), ended_s=time.time(), summary=result.summary)

    def _update(self, name: str, **fields: Any) -> None:
        with self._lock:
            self._found[name] = replace(self._found[name], **fields)


def _verdict(result: Verification) -> str:
    if result.equal:
        return "equal"
    return "different" if any(table.state == "different" for table in result.tables) else "open"

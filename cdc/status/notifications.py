"""Derives notifications about a pipeline from successive observations. Pure; `cdc.status.notify` sends them.

| event | when |
|---|---|
| failing | it needs attention (`cdc.serve.attention`); under `cdc run`, its run has failed |
| recovered | it no longer needs attention, and was not stopped by hand; or its lag is below the limit again |
| schema-change | a schema change was held back, refused by the sink, or failed |
| dead-letters | rows were written to dead letters: at once, then summed up over the repeat interval |
| lag | its lag was above the limit in two successive observations |

`failing` and `lag` are repeated after the repeat interval while they last. Anything present in the first observation,
such as schema changes of earlier runs, is not notified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from cdc.errors import first_of
from cdc.status.model import Error, SchemaEvent

NOT_APPLIED = ("held-back", "refused", "failed")
_SUMMED_UP_S = 3600.0
"""Interval for dead letters where the repeat interval is 0."""


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation of a pipeline.

    Attributes:
        attention: why it needs attention, empty when it does not. stopped: it was stopped by hand.
        error: the last error, if it needs attention.
        run_s: when its run began, as `dead_letters` counts those of one run.
        changes: the last schema changes with their outcomes, oldest first.
    """

    name: str
    attention: str = ""
    stopped: bool = False
    error: Error | None = None
    lag_s: float | None = None
    run_s: float = 0.0
    dead_letters: int = 0
    changes: tuple[SchemaEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification. `text` is a sentence or two for people, without secrets."""

    event: str
    pipeline: str
    text: str
    at_s: float
    error: Error | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object for programs: `event`, `pipeline`, `text`, `time`, and `error` with its hint or null."""
        time = datetime.fromtimestamp(self.at_s, UTC).isoformat(timespec="seconds")
        error = None if self.error is None else asdict(self.error)
        return {"event": self.event, "pipeline": self.pipeline, "text": self.text, "time": time, "error": error}


class PipelineNotifications:
    """The state of notifications for one pipeline. One thread.

    Args:
        events: the events to notify about.
        lag_s: the limit of the lag. repeat_s: interval for repeating lasting events; 0 for never.
    """

    def __init__(self, events: frozenset[str], lag_s: float, repeat_s: float) -> None:
        self._events, self._limit_s, self._repeat_s = events, lag_s, repeat_s
        self._before: Observation | None = None
        self._sent_s: dict[str, float] = {}
        self._late = False
        self._dead = 0

    def observe(self, now: Observation, at_s: float) -> list[Notification]:
        """Return the notifications due after this observation."""
        found = [*self._failing(now, at_s), *self._changes(now), *self._dead_letters(now, at_s), *self._lag(now, at_s)]
        self._before = now
        return [
            Notification(event, now.name, f"{now.name}: {text}", at_s, now.error if event == "failing" else None)
            for event, text in found
            if event in self._events
        ]

    def _claim_send(self, event: str, at_s: float, repeat_s: float) -> bool:
        last_s = self._sent_s.get(event)
        if last_s is not None and not (repeat_s and not 0 <= at_s - last_s < repeat_s):  # a clock may be set back
            return False
        self._sent_s[event] = at_s
        return True

    def _failing(self, now: Observation, at_s: float) -> Iterator[tuple[str, str]]:
        if now.attention:
            if self._claim_send("failing", at_s, self._repeat_s):
                yield "failing", f"needs attention: {now.attention}{_described(now.error)}"
        elif self._sent_s.pop("failing", None) is not None and not now.stopped:
            yield "recovered", "runs normally again"

    def _changes(self, now: Observation) -> Iterator[tuple[str, str]]:
        before = self._before
        if before is None:
            return
        known = {(each.at_s, each.table, each.change, each.outcome) for each in before.changes}
        new = [
            each for each in now.changes
            if each.outcome in NOT_APPLIED and (each.at_s, each.table, each.change, each.outcome) not in known
        ]  # fmt: skip
        if new:
            changes = [f"{each.table}: {each.change} ({each.outcome})" for each in new]
            yield "schema-change", f"a schema change was not applied: {first_of(changes, between='; ')}"

    def _dead_letters(self, now: Observation, at_s: float) -> Iterator[tuple[str, str]]:
        before = self._before
        if before is None:
            return
        self._dead += now.dead_letters - (before.dead_letters if before.run_s == now.run_s else 0)
        if self._dead > 0 and self._claim_send("dead-letters", at_s, self._repeat_s or _SUMMED_UP_S):
            yield "dead-letters", f"{self._dead:,} row{'' if self._dead == 1 else 's'} written to dead letters"
            self._dead = 0

    def _lag(self, now: Observation, at_s: float) -> Iterator[tuple[str, str]]:
        lagging = now.lag_s is not None and now.lag_s > self._limit_s
        if lagging and self._late and self._claim_send("lag", at_s, self._repeat_s):
            yield "lag", f"is {now.lag_s:,.0f} s behind, more than {self._limit_s:,.0f} s"
        if now.lag_s is not None and not lagging and self._sent_s.pop("lag", None) is not None:
            yield "recovered", f"is {now.lag_s:,.0f} s behind, no more than {self._limit_s:,.0f} s"
        self._late = lagging


def _described(error: Error | None) -> str:
    if error is None:
        return ""
    where = f"{error.where}: " if error.where else ""
    return f". {error.kind}: {where}{error.message}" + (f" (next step: {error.hint})" if error.hint else "")

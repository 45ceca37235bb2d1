"""The interface of a server for its supervisors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from cdc.serve.control import LogLine

if TYPE_CHECKING:
    from cdc.job.spark.shared import SharedSpark
    from cdc.source import Siblings
    from cdc.spec.model import PipelineSpec


class Host(Protocol):
    """A server as seen by its supervisors. Any thread."""

    def session(self) -> SharedSpark | None:
        """Wait until Spark is up and return it; None when the server ends."""

    def spark_alive(self) -> bool:
        """Whether Spark is up."""

    def siblings(self, spec: PipelineSpec) -> Siblings | None:
        """Return the runs into the other sinks of a pipeline's file; None for a single sink."""

    def turn(self, wanted: Callable[[], bool], *, first: bool) -> Callable[[], None]:
        """Wait for the turn to start, as in `cdc.serve.turns.RunTurns.wait_turn`; return the function that ends it."""

    def expect(self) -> Callable[[], None]:
        """Announce a supervisor that will start first; return the function to call when it has started or will not."""

    def log_line(self, name: str, line: LogLine) -> None:
        """Write an important line of a pipeline's log."""

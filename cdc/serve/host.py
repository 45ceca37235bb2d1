"""The server's side of a supervisor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from cdc.serve.control import LogLine

if TYPE_CHECKING:
    from cdc.job.spark.shared import SharedSpark
    from cdc.source import Siblings
    from cdc.spec.model import PipelineSpec


class Host(Protocol):
    """A server, as its supervisors see it. Any thread."""

    def session(self) -> SharedSpark | None:
        """Spark, once it is up; None when the server ends."""

    def spark_alive(self) -> bool:
        """Whether Spark is up."""

    def siblings(self, spec: PipelineSpec) -> Siblings | None:
        """The runs into the other sinks of a pipeline's file; None where there is one sink."""

    def turn(self, wanted: Callable[[], bool], *, first: bool) -> Callable[[], None]:
        """Wait for the turn to start, as `cdc.serve.turns.RunTurns.wait_turn` does; what ends it."""

    def expect(self) -> Callable[[], None]:
        """One that is to start first will take its turn; what is to be called when it has, or takes none."""

    def log_line(self, name: str, line: LogLine) -> None:
        """A line of a pipeline's log that is worth a look."""

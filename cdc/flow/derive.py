"""From the schema changes of the source to those of the sink: a chain of stages. Driver.

    source's changes --RuleStage--> behind the transform rules --RouteStage--> with the sink's tables --> sink.apply

Each stage takes the changes that the one before gives, knows the tables on both of its sides, and keeps them in the
state directory, batch by batch. What it needs to find them again is a small JSON value in the decision on each batch:
a batch that runs again, and the first one of a run, start from what the decision before says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cdc.schema import SchemaChange

Past = Callable[[], Sequence[SchemaChange]]
"""All changes before a batch, as the stage takes them; asked for only when no decision says what a stage knew."""


class Stage(Protocol):
    """One step on the way of schema changes."""

    @property
    def name(self) -> str:
        """Key of `state()` in decisions."""

    def begin(self, batch: int, state: Any, past: Past) -> None:
        """Go back to what holds before a batch, the first of a run. Repeatable.

        `state` is what `state()` gave behind the batch before, None when the stage was not there then: its tables are
        then made of `past`, unchanged by the stage. Raises StateError, EngineError.
        """

    def derive(self, batch: int, changes: Sequence[SchemaChange]) -> Sequence[SchemaChange]:
        """What the changes of a batch are behind the stage; called for every batch, also without any.

        The first batch of a run may have more: what an edited pipeline file makes different. Raises CdcError; nothing
        of the batch has been applied by then.
        """

    def state(self) -> Any:
        """What `begin` needs behind the batch that was derived last, a small JSON value; None for nothing."""


class Derivation:
    """The whole chain."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)

    def begin(self, batch: int, states: Mapping[str, Any], past: Past) -> None:
        """As `Stage.begin`, for all; `states` is what `states()` gave."""
        for stage in self._stages:
            stage.begin(batch, states.get(stage.name), past)

    def derive(self, batch: int, changes: Sequence[SchemaChange]) -> Sequence[SchemaChange]:
        """As `Stage.derive`, through all."""
        for stage in self._stages:
            changes = stage.derive(batch, changes)
        return changes

    def states(self) -> dict[str, Any]:
        """What each stage needs behind the batch that was derived last, by its name."""
        found = {stage.name: stage.state() for stage in self._stages}
        return {name: state for name, state in found.items() if state is not None}

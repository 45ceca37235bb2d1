"""How rows and schema changes of source tables get into sink tables: routes, behavior, casts. Picklable."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.coerce import Coercion
from cdc.route import RouteTable


@dataclass(frozen=True, slots=True)
class Routing:
    """The routes and policies of a pipeline file. Without one, sink tables mirror those of the source by name."""

    table: RouteTable = field(default_factory=RouteTable)
    policy: Policy = field(default_factory=lambda: Policy(Behavior.EVOLVE))
    coercion: Coercion = field(default_factory=Coercion)

"""How rows and schema changes of source tables get into sink tables: routes, behavior, casts. Picklable."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.coerce import Coercion
from cdc.route import RouteTable


@dataclass(frozen=True, slots=True)
class Routing:
    """What a pipeline file says about it. Without one, sink tables mirror those of the source under their names."""

    table: RouteTable = field(default_factory=RouteTable)
    policy: Policy = field(default_factory=lambda: Policy(Behavior.EVOLVE))
    coercion: Coercion = field(default_factory=Coercion)

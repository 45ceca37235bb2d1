"""A plan as a SQL system gets it: statements, queries that must find no row, remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc.evolution.dialect import Dialect
from cdc.evolution.planner import plan
from cdc.evolution.steps import ChangeRemark, Check, KeyCheck, Statement
from cdc.evolution.table import Layout
from cdc.schema import SchemaChange


@dataclass(frozen=True)
class Query:
    """A check as it is asked."""

    sql: str
    reason: str


def printed(
    dialect: Dialect[Any], layout: Layout[Any], changes: Sequence[SchemaChange]
) -> list[Statement | Query | ChangeRemark]:
    """The steps of all changes in order; the layout is left as it is after them."""
    found: list[Statement | Query | ChangeRemark] = []
    for planned in plan(dialect, layout, changes):
        for step in planned.steps:
            match step:
                case ChangeRemark():
                    found.append(step)
                case Check(table=table, column=column, rows=rows, reason=reason):
                    found.append(Query(dialect.finding(table, column, rows), reason))
                case KeyCheck(table=table, key=key, reason=reason):
                    found.append(Query(dialect.shared_key(table, key), reason))
                case _:
                    found += dialect.statements(step)
    return found

"""The guard against two tables in one sink table: it follows the log, not what the source has today."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import SpecError
from cdc.route import RouteGuard
from cdc.schema import TableId, TableSchema
from cdc.spec.check import check_file
from cdc.spec.compiled import compile_spec

A, B, OTHER = (TableId("shop", name) for name in ("a", "b", "other"))
NONE = TableSchema(())
PIPELINE = r"""
source:
  type: values
  rows: []
sink:
  type: values
route:
  - source-table: shop.a
    sink-table: lake.one
  - source-table: shop.b
    sink-table: lake.One
pipeline:
  schema.change.behavior: evolve
"""


@pytest.fixture
def guard(tmp_path: Path) -> RouteGuard:
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE)
    return RouteGuard(compile_spec(check_file(str(file)).spec).routes)


def test_two_sink_tables_of_nearly_one_name_are_refused_where_the_second_one_comes(guard: RouteGuard) -> None:
    guard.check([A, OTHER])
    with pytest.raises(SpecError, match=r"shop\.a would go to lake\.one; shop\.b would go to lake\.One"):
        guard.check([A, B, OTHER])
    with pytest.raises(SpecError):
        guard.check([A, B])


def test_a_table_may_take_the_place_of_another(guard: RouteGuard) -> None:
    for tables in ([A], [B], [A], [OTHER, B]):
        guard.check(tables)

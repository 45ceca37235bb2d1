"""Columns of routed rows, held against those of the sink's table. Executor."""

from __future__ import annotations

from cdc.block import ChangeBlock
from cdc.errors import EngineError
from cdc.evolution.merge import same_key
from cdc.schema import TableSchema


def check_columns(block: ChangeBlock, known: TableSchema, *, exact: bool) -> None:
    """Raise EngineError when a routed block has another key than the sink's table, or other columns though `exact`.

    Their order does not count: a column that is moved in the source stays where it is in the sink. Nor do columns of
    the sink's table that take NULL: a behavior of before may have kept them (`lenient`).
    """
    if known is block.schema or (same_key(known, block.schema) and not (exact and _others(block.schema, known))):
        return
    raise EngineError(
        f"rows with the columns {', '.join(block.schema.names)} and the key {block.schema.primary_key} do not fit "
        f"the sink's table, which has {', '.join(known.names)} and the key {known.primary_key}",
        where=str(block.table),
        hint="the source's log and the state directory are of different pipelines, or this is a defect: report it",
    )


def _others(rows: TableSchema, known: TableSchema) -> bool:
    required = {column.name for column in known.columns if not column.nullable}
    return not required <= {*rows.names} <= {*known.names}

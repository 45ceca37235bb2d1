"""The column of a merged sink table that says which source table a row is from. Executor."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.route import Target
from cdc.tables.sinks import with_shard


def with_source(block: ChangeBlock, target: Target) -> ChangeBlock:
    """The block with the source table's id in the shard column of its target; itself where there is none."""
    if target.shard_column is None:
        return block
    name, schema = str(block.table), with_shard(block.schema, target)
    values = pa.repeat(pa.scalar(name), len(block))
    columns, place = list(block.rows.columns), schema.names.index(target.shard_column)
    rows = pa.RecordBatch.from_arrays([*columns[:place], values, *columns[place:]], names=list(schema.names))
    return replace(block, schema=schema, rows=rows)

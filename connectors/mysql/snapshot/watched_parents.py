"""Watches rows that foreign keys refer to, in the task that reads their part of the log: see `cascades`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, RowKind
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.snapshot.cascade_targets import REQUEST, Parent, parents_of, read_links
from connectors.mysql.snapshot.plan.requests import Requests, short_name

REASON = "rows of a table that it refers to were deleted or changed, and this server does not log what follows"


def part_id(part: LogRange) -> str:
    """Return a unique name for the start of a part of the log. Pure.

    It stays unique if files of another server or of a reset log have the same names.
    """
    return str(sequence_of(part.start.file, part.start.position, part.files_ahead))


def watch_parents(
    blocks: Iterator[ChangeBlock], store: Store, captures: Callable[[TableId], bool], part: str
) -> Iterator[ChangeBlock]:
    """Pass on the blocks of a part of the log; request tables whose rows they change unlogged, once per part. Executor.

    `part` is the id of the part (`part_id`). Requests are on disk before the part's rows are prepared; a retry
    makes the same requests.
    """
    parents, requested, requests = parents_of(read_links(store), captures), set[TableId](), Requests(store)
    for block in blocks:
        parent = parents.get(block.table)
        for child in sorted((set() if parent is None else changed_by(block, parent)) - requested):
            requested.add(child)
            requests.add(child, f"{REQUEST}{short_name(child)}-{part}", REASON, limited=True)
        yield block


def changed_by(block: ChangeBlock, parent: Parent) -> set[TableId]:
    """Return the tables whose rows change with those of a parent's block. Pure."""
    kinds, found = block.kinds.to_numpy(), set[TableId]()
    if parent.deletes and bool(np.any(kinds == RowKind.DELETE)):
        found |= parent.deletes
    before = np.flatnonzero(kinds == RowKind.UPDATE_BEFORE)
    if not parent.updates or not len(before):
        return found
    folded = {name.casefold() for name in parent.columns}
    if not folded <= {name.casefold() for name in block.schema.names}:
        return found | parent.updates  # a column was renamed since
    for index, name in enumerate(block.schema.names):
        if name.casefold() in folded:
            column = block.rows.column(index)
            old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
            same = pc.fill_null(pc.equal(old, new), False)
            if not pc.all(pc.or_(same, pc.and_(pc.is_null(old), pc.is_null(new)))).as_py():
                return found | parent.updates
    return found

"""Both phases of a batch, shared by lake sinks: a task's tables to handles, a batch's handles to commits by table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cdc.block import ChangeBlock
from cdc.errors import LoadsLost, SinkError
from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt
from connectors.shared.lake.columns import LakeColumn, check_columns
from connectors.shared.last_image.last_image import KeylessChanges, LastImages, concat_blocks, every_insert, images
from connectors.shared.sending.sender import BlockLoader, SendLimits, send


def prepare(
    task: TaskAttempt, blocks: Iterator[ChangeBlock], loader: BlockLoader, *, flush_bytes: int, threads: int
) -> list[Prepared]:
    """Write all blocks; returns one handle per table. Executor. Raises SinkError.

    The loader's loads end with `(handle, payload)`: the names of thousands of files do not fit into a line of JSON.
    """
    limits = SendLimits(
        flush_bytes=flush_bytes, waiting_bytes=2 * flush_bytes, open_loads=1 << 20, idle_s=1e9, threads=threads
    )
    made = []
    for prepared in send(task, blocks, loader, limits):
        handle, payload = prepared.handle
        made.append(replace(prepared, handle=handle, payload=payload))
    return made


def check_source(first: ChangeBlock, columns: Sequence[LakeColumn], key: Sequence[str]) -> None:
    """Raise SinkError when rows of this block cannot go into a table with these columns and this key."""
    check_columns(first.table, first.schema, columns)
    if key and not first.schema.primary_key:
        hint = "`cdc resync` recreates the table"
        raise SinkError("the table has a key, its source has none", where=str(first.table), hint=hint)


def last_images(blocks: Sequence[ChangeBlock], key: Sequence[str], keyless: KeylessChanges) -> LastImages:
    """Return the last image of each key of a flush; for a table without a key all rows. Raises SinkError."""
    block = concat_blocks(blocks)
    if not key:
        return every_insert(block, keyless)
    names = {name.casefold(): name for name in block.schema.names}
    return images(block, [names[part.casefold()] for part in key])


def by_table(prepared: Sequence[Prepared], threads: int, commit: Callable[[TableId, Sequence[Prepared]], None]) -> None:
    """Commit the handles of each table, `threads` tables at a time. Driver. Raises what a commit raises.

    LoadsLost of some tables is raised as one, after the others are committed.
    """
    work: dict[TableId, list[Prepared]] = {}
    for handle in prepared:
        work.setdefault(handle.table, []).append(handle)
    with ThreadPoolExecutor(min(threads, max(1, len(work))), thread_name_prefix="cdc-commit") as pool:
        lost = list(filter(None, pool.map(lambda item: _lost_by(commit, *item), work.items())))
    if lost:
        tables = {name: first for error in lost for name, first in error.tables.items()}
        uncertain = [name for error in lost for name in error.uncertain]
        raise LoadsLost(lost[0].message, where=lost[0].where, hint=lost[0].hint, tables=tables, uncertain=uncertain)


def _lost_by(
    commit: Callable[[TableId, Sequence[Prepared]], None], table: TableId, handles: Sequence[Prepared]
) -> LoadsLost | None:
    try:
        commit(table, handles)
    except LoadsLost as error:
        return error
    return None


def check_identity(table: TableId, identity: str | None, handles: Sequence[Prepared]) -> None:
    """Raise LoadsLost unless the table, None for no table, is the one that the rows were prepared for."""
    if identity is None or any(handle.handle["id"] != identity for handle in handles):
        reason = "the table that the rows were prepared for no longer exists: it was dropped or recreated"
        raise LoadsLost(reason, where=str(table), uncertain=[str(table)])


def check_newest(table: TableId, found: int, newest: int) -> None:
    """Raise LoadsLost if a table has only the batches up to `found`, -1 for none, and has had the `newest` one.

    The next batch is not written there, as the rows of those between would be missing.
    """
    if found < newest:
        has = f"only the batches of this pipeline up to {found}" if found >= 0 else "no batch of this pipeline"
        why = "it was recreated, rolled back, or replaced by an older copy"
        raise LoadsLost(
            f"the table has {has}, while {newest} was committed: {why}", where=str(table), uncertain=[str(table)]
        )


def another_past(table: TableId, found: int, batch: int) -> SinkError:
    """Return the error for a table with a batch that the state directory has not reached, or has with other rows.

    A state directory restored from an older copy numbers its batches again, over other rows. If they were taken for
    committed ones, their rows would be silently lost.
    """
    reason = f"batch {found} of this pipeline is in the table, and the state directory is at batch {batch}"
    why = "it is an older copy, or another run is active next to this one"
    hint = "stop the other run and put the newest state directory back; or start over with another --state-dir"
    return SinkError(f"{reason}: {why}", where=str(table), hint=hint)

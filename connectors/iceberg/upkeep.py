"""Maintain tables: merge small files and delete files, expire old snapshots, and later remove their files.

Each commit rewrites the metadata with all snapshots that are kept, so their number determines the cost of a commit.
Runs in the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.iceberg.expired import ExpiredFiles, unshared_files
from connectors.iceberg.index import KeyIndex, only_an_index
from connectors.iceberg.library import Catalog, CommitConflict
from connectors.iceberg.rewrite import rewrite_files
from connectors.iceberg.row_positions import SnapshotFiles
from connectors.iceberg.snapshots import SnapshotChange, commit, publish
from connectors.iceberg.tables import LakeTable, find_table, get_table

_SMALL_BYTES = 32 << 20
"""The size below which a data file is small; a merged file has at most four times as much."""
_MOST_GONE = 0.3
"""The deleted share of a data file's rows above which it is rewritten, whatever its size."""

_TRIES = 5
"""How often a merge is published, and `cdc compact` merges, while a run keeps committing at the same time."""


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """The work of upkeep on a table: files merged, snapshots expired."""

    files: int = 0
    snapshots: int = 0

    def __str__(self) -> str:
        return f"{self.files} files merged, {self.snapshots} snapshots expired"


@dataclass
class Upkeep:
    """Maintains the tables of a pipeline.

    Args:
        files: the number of small files or delete files from which on they are merged.
        folder: the folder of the key indexes.
        snapshots: how many of the newest snapshots are kept.
        expired: the files of expired snapshots.
    """

    catalog: Catalog
    pipeline: str
    files: int
    snapshots: int
    folder: Path
    expired: ExpiredFiles

    def compact(self, name: TableId) -> str:
        """Merge all that can be merged, and tell what was done; start over when a run commits meanwhile.

        Raises SinkError.
        """
        for _ in range(_TRIES - 1):
            with suppress(CommitConflict):
                return str(self._maintain_once(get_table(self.catalog, name), 2))
        return str(self._maintain(get_table(self.catalog, name), 2))

    def maintain(self, name: TableId) -> str:
        """Merge files where there are too many, and tell what was done. Raises SinkError."""
        table = find_table(self.catalog, name)
        done = UpkeepResult() if table is None else self._maintain(table, self.files)
        return "" if done == UpkeepResult() else str(done)

    def _maintain(self, table: LakeTable, least: int) -> UpkeepResult:
        try:
            return self._maintain_once(table, least)
        except CommitConflict as error:
            hint = "try it again when less is written"
            raise SinkError(f"another commit came first: {error.message}", where=str(table.id), hint=hint) from error

    def _maintain_once(self, table: LakeTable, least: int) -> UpkeepResult:
        """Try once. Raises CommitConflict when another commit comes first; then nothing has changed."""
        with self.catalog.guard(str(table.id)):
            merged = self._merge_files(table, least)
            snapshots = self._expire_snapshots(get_table(self.catalog, table.id) if merged else table)
            self.expired.remove(get_table(self.catalog, table.id) if merged or snapshots else table)
            return UpkeepResult(merged, snapshots)

    def _merge_files(self, table: LakeTable, least: int) -> int:
        """Commit a `replace` snapshot with the same rows in fewer files; return the number of removed files."""
        snapshot = SnapshotFiles.of(table)
        chosen = worth(snapshot, least)
        if not chosen:
            return 0
        removed = [file.file_path for file in chosen]
        removed += [delete.file_path for file in chosen for delete in snapshot.deletes.get(file.file_path, ())]
        # A command and a run may merge files of the same head at once: neither overwrites files that the other names.
        merged = rewrite_files(table, snapshot, chosen, f"{table.file_prefix(self.pipeline)}-compact-{uuid4().hex}")
        change = SnapshotChange("replace" if merged else "delete", merged, removed=frozenset(removed))
        table, head = self._publish(table, snapshot, chosen, change)
        index = KeyIndex(self.folder, table)
        if table.key:
            with only_an_index(index):
                index.note_rewritten(head, merged)
        return len(removed)

    def _publish(
        self, table: LakeTable, snapshot: SnapshotFiles, chosen: Sequence[Any], change: SnapshotChange
    ) -> tuple[LakeTable, int]:
        """Publish the change; return the table on which that succeeded, and its new head.

        Commits that come first, such as those of a run, are a conflict only when they concern the merged files. Then
        CommitConflict is raised, and the written files stay, since only an answer may have been lost; they only cost
        space.
        """
        for _ in range(_TRIES):
            try:
                return table, publish(self.catalog, table, change)
            except CommitConflict:
                now = get_table(self.catalog, table.id)
                if not _is_as_before(table, snapshot, chosen, now):
                    raise
                table = now
        return table, publish(self.catalog, table, change)

    def _expire_snapshots(self, table: LakeTable) -> int:
        """Expire the snapshots beyond those to keep; note the files that only they name, for removal later."""
        from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

        metadata = table.metadata
        named = {ref.snapshot_id for ref in metadata.refs.values()}
        ordered = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
        old = [each for each in ordered[: -self.snapshots] if each.snapshot_id not in named]
        if not old or table.head is None:
            return 0
        expired = {each.snapshot_id for each in old}
        retained = [each for each in ordered if each.snapshot_id not in expired]
        needed = (
            AssertTableUUID(uuid=metadata.table_uuid), AssertRefSnapshotId(ref="main", snapshot_id=table.head),
        )  # fmt: skip
        with self.expired.expiring(table, unshared_files(table, old, retained)):
            commit(self.catalog, table, (RemoveSnapshotsUpdate(snapshot_ids=sorted(expired)),), needed)
        return len(old)


def worth(snapshot: SnapshotFiles, least: int) -> list[Any]:
    """The data files worth rewriting: small ones, and those with many delete files or deleted rows."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    chosen: dict[str, Any] = {}
    for path, file in snapshot.data.items():
        deletes = snapshot.deletes.get(path, ())
        if len(deletes) >= least or sum(each.record_count for each in deletes) > _MOST_GONE * file.record_count:
            chosen[path] = file
        if file.file_size_in_bytes < _SMALL_BYTES:
            groups[file.spec_id, tuple(file.partition[index] for index in range(len(file.partition)))].append(file)
    for group in groups.values():
        if len(group) >= least:
            chosen |= {file.file_path: file for file in _tier(group, least)}
    return list(chosen.values())


def _tier(group: Sequence[Any], least: int) -> list[Any]:
    """Choose files of similar size, so that each row is rewritten only once per size."""
    tiers: dict[int, list[Any]] = defaultdict(list)
    for file in group:
        tiers[max(0, int(file.file_size_in_bytes).bit_length() - 14) // 4].append(file)
    return [file for tier in tiers.values() if len(tier) >= least for file in tier]


def _is_as_before(table: LakeTable, snapshot: SnapshotFiles, chosen: Sequence[Any], now: LakeTable) -> bool:
    """Whether the chosen data files have the same rows at another head, and would be rewritten in the same way."""
    shapes = [(one.identity, one.metadata.current_schema_id, one.metadata.default_spec_id) for one in (table, now)]
    if shapes[0] != shapes[1]:
        return False
    files = SnapshotFiles.of(now)
    if _paths(files.loose) != _paths(snapshot.loose):
        return False
    return all(
        file.file_path in files.data
        and _paths(files.deletes.get(file.file_path, ())) == _paths(snapshot.deletes.get(file.file_path, ()))
        for file in chosen
    )


def _paths(files: Sequence[Any]) -> set[str]:
    return {str(file.file_path) for file in files}

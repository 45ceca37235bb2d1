"""Maintain a table, after commits of the pipeline or all at once. Runs in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc.schema import TableId
from connectors.paimon.library import Catalog
from connectors.paimon.tables import LakeTable, find_table, get_table, live_files
from connectors.paimon.upkeep.manifests import MOST_MANIFESTS, expire_snapshots, merge_manifests
from connectors.paimon.upkeep.merging import merge_files
from connectors.paimon.upkeep.publishing import COMPACT, NO_IDENTIFIER, committer
from connectors.paimon.upkeep.tiers import LEVELS, FileMerge, choose_files, small_files


@dataclass
class Upkeep:
    """Maintains the tables of a pipeline.

    Args:
        user: the commit user of the pipeline's batches.
        files: how many files of similar size a bucket may have.
    """

    catalog: Catalog
    pipeline: str
    user: str
    files: int

    def compact(self, table: TableId) -> str:
        """Merge all that can be merged, and tell what was done. Raises SinkError."""
        return (
            self._maintain(get_table(self.catalog, table), least=1, whole=True, manifests=2)
            or "0 files merged, 0 snapshots expired"
        )

    def maintain(self, name: TableId) -> str:
        """Merge files where there are too many, and tell what was done. Raises SinkError."""
        table = find_table(self.catalog, name)
        return "" if table is None else self._maintain(table, least=self.files, whole=False, manifests=MOST_MANIFESTS)

    def _maintain(self, table: LakeTable, *, least: int, whole: bool, manifests: int) -> str:
        catalog = self.catalog
        with catalog.guard(str(table.id)):
            number = compact_buckets(catalog, table, self.user, self.pipeline, least=least, whole=whole)
            written = number > 0 or table.library.snapshot_manager().get_latest_snapshot() is not None
            fewer = written and merge_manifests(catalog, table, f"{self.user}-compact", least=manifests)
            expired = expire_snapshots(table, self.user)
        if not (number or fewer or expired):
            return ""
        return f"{number} files merged, {'manifests merged, ' if fewer else ''}{expired} snapshots expired"


def compact_buckets(catalog: Catalog, table: LakeTable, user: str, pipeline: str, *, least: int, whole: bool) -> int:
    """Merge the files of each bucket, all in one snapshot; return how many were merged. Raises the library's errors."""
    buckets: dict[Any, list[Any]] = {}
    for entry in live_files(catalog, table, whole=True):
        buckets.setdefault((tuple(entry.partition.values), entry.bucket), []).append(entry)
    changes: list[Any] = []
    for entries in buckets.values():
        merge = _merge(table, [entry.file for entry in entries], least, whole=whole)
        if merge is not None:
            changes += _changes(table, entries, merge, f"cdc-{pipeline}-compact-")
    if not changes:
        return 0
    committer(catalog, table, f"{user}-compact")._try_commit(
        commit_kind=COMPACT, commit_identifier=NO_IDENTIFIER, commit_entries_plan=lambda _: changes,
        detect_conflicts=True,
    )  # fmt: skip
    return sum(entry.kind for entry in changes)


def _merge(table: LakeTable, files: Sequence[Any], least: int, *, whole: bool) -> FileMerge | None:
    if table.key:
        return choose_files(files, least, whole=whole)
    target = table.library.options.target_file_size(False)
    found = small_files(files, max(2, least), target)
    return FileMerge(found, LEVELS, last=True) if found else None


def _changes(table: LakeTable, entries: Sequence[Any], merge: FileMerge, prefix: str) -> list[Any]:
    """The manifest entries that remove the merged files and add the new ones."""
    old = {file.file_name for file in merge.files}
    replaced = [replace(entry, kind=1) for entry in entries if entry.file.file_name in old]
    merged = merge_files(table, replaced[0], merge.files, prefix, level=merge.level, last=merge.last)
    return [*replaced, *(replace(replaced[0], kind=0, file=file) for file in merged)]

"""Commit snapshots of data files and position deletes: write the manifests and the manifest list, and update the table.

The library itself only commits appended data files, and retries when another commit came first. Here a commit is valid
for one head only, because the positions of deleted rows were found in it; another head raises `CommitConflict`. Runs in
the driver.

Format: https://iceberg.apache.org/spec/, "Manifests", "Manifest Lists", "Commit Conflict Resolution and Retry".
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from connectors.iceberg.library import Catalog, delete_quietly
from connectors.iceberg.manifest_cache import cache_files, cache_manifests, files_of, manifests_of
from connectors.iceberg.manifests import is_deletes, list_writer, manifest_writer, read_entries
from connectors.iceberg.tables import LakeTable

MERGED_FROM = 50
"""The number of manifests of one content and partition spec that the next commit merges into one."""


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """The change of a table that one snapshot makes.

    Attributes:
        operation: `append`, `overwrite`, `replace` (the same rows in other files) or `delete`.
        data, deletes: the library's `DataFile` records to add.
        removed: the paths of the files to remove.
        replaces_all: whether all existing files are removed.
        properties: table properties to set in the same commit.
        summary: entries of the snapshot's summary, for people to read.
        updates: further updates of the table in the same commit, before the snapshot.
    """

    operation: str
    data: Sequence[Any] = ()
    deletes: Sequence[Any] = ()
    removed: frozenset[str] = frozenset()
    replaces_all: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    updates: Sequence[Any] = ()


def publish(catalog: Catalog, table: LakeTable, change: SnapshotChange) -> int:
    """Commit the change on the table's head, and return the new head.

    Raises CommitConflict when the table has another head by now, SinkError, SinkUnavailable.
    """
    from pyiceberg.table.update import (
        AddSnapshotUpdate,
        AssertRefSnapshotId,
        AssertTableUUID,
        SetPropertiesUpdate,
        SetSnapshotRefUpdate,
    )

    with catalog.guard(str(table.id)):
        snapshot = _SnapshotWriter(table, change).snapshot()
        updates = [
            *change.updates,
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot.snapshot_id),
        ]
        if change.properties:
            updates.append(SetPropertiesUpdate(updates=dict(change.properties)))
        needed = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref="main", snapshot_id=table.head),
        )
        commit(catalog, table, tuple(updates), needed)
    return int(snapshot.snapshot_id)


def commit(catalog: Catalog, table: LakeTable, updates: tuple[Any, ...], requirements: tuple[Any, ...]) -> None:
    """Commit updates to the catalog, and remove metadata files that its log no longer has. Call within `guard`."""
    opened = catalog.open()
    take = getattr(opened, "commit_on", opened.commit_table)
    response = take(table.library, requirements, updates)
    properties = response.metadata.properties
    if str(properties.get("write.metadata.delete-after-commit.enabled", "false")).lower() == "true":
        retained = {entry.metadata_file for entry in response.metadata.metadata_log}
        for entry in table.metadata.metadata_log:
            if entry.metadata_file not in retained:
                delete_quietly(table.library.io, entry.metadata_file)


def live_entries(table: LakeTable) -> Iterator[Any]:
    """The complete manifest entries of the data files and delete files of the table's head."""
    io = table.library.io
    for manifest in manifests_of(io, table.library.current_snapshot()):
        yield from read_entries(io, manifest)


def describing_files(table: LakeTable) -> set[str]:
    """The paths of the files that describe a table and its snapshots: metadata, manifest lists and manifests."""
    metadata = table.metadata
    found = {table.library.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    for snapshot in metadata.snapshots:
        found |= {snapshot.manifest_list, *(each.manifest_path for each in manifests_of(table.library.io, snapshot))}
    return found


class _SnapshotWriter:
    """Writes the files of one snapshot."""

    def __init__(self, table: LakeTable, change: SnapshotChange) -> None:
        self._table, self._change = table, change
        self._metadata, self._io = table.metadata, table.library.io
        self._id = self._metadata.new_snapshot_id()
        self._number = 0
        self._uuid = uuid4()
        self._removed: list[Any] = []
        self._specs: dict[int, Any] = dict(table.library.specs())
        self._schema = table.library.schema()
        for update in change.updates:  # those of a shadow table that replaces the table
            self._schema = getattr(update, "schema_", self._schema)
            spec = getattr(update, "spec", None)
            if spec is not None:
                self._specs[spec.spec_id] = spec

    def snapshot(self) -> Any:
        """Write the manifests and the manifest list, and return the library's `Snapshot`."""
        from pyiceberg.table.snapshots import Snapshot

        manifests = self._manifests()
        path = self._path(f"snap-{self._id}-0-{self._uuid}.avro")
        sequence_number = self._metadata.next_sequence_number()
        parent = self._table.head
        with list_writer()(self._io.new_output(path), self._id, parent, sequence_number, "gzip") as writer:
            writer.add_manifests(manifests)
        cache_manifests(path, map(writer.prepare_manifest, manifests))
        return Snapshot(
            snapshot_id=self._id,
            parent_snapshot_id=self._table.head,
            manifest_list=path,
            sequence_number=sequence_number,
            timestamp_ms=max(int(time.time() * 1000), self._metadata.last_updated_ms + 1),  # the clock may be set back
            summary=self._summary(),
            schema_id=self._schema.schema_id,
        )

    def _manifests(self) -> list[Any]:
        change = self._change
        existing = self._kept_manifests()
        manifests = [
            *self._new_manifests(change.data, deletes=False),
            *self._new_manifests(change.deletes, deletes=True),
        ]
        return [*manifests, *self._merge_manifests(existing)]

    def _kept_manifests(self) -> list[Any]:
        current = manifests_of(self._io, self._table.library.current_snapshot())
        if self._change.replaces_all:
            self._removed = [entry.data_file for manifest in current for entry in read_entries(self._io, manifest)]
            return []
        if not self._change.removed:
            return [manifest for manifest in current if manifest.has_added_files() or manifest.has_existing_files()]
        return [manifest_kept for manifest in current for manifest_kept in self._without_removed(manifest)]

    def _without_removed(self, manifest: Any) -> Iterator[Any]:
        known = files_of(self._table, manifest)
        if not any(file.file_path in self._change.removed for file in known):
            if known:
                yield manifest
            return
        dropped: list[Any] = []
        stays: list[Any] = []
        for entry in read_entries(self._io, manifest):
            (dropped if entry.data_file.file_path in self._change.removed else stays).append(entry)
        self._removed += [entry.data_file for entry in dropped]
        yield self._write_manifest(
            manifest.partition_spec_id, deletes=is_deletes(manifest), stays=stays, removed=dropped
        )

    def _merge_manifests(self, manifests: Sequence[Any]) -> Iterator[Any]:
        """Merge many manifests of one content and partition spec into one."""
        groups: dict[tuple[int, bool], list[Any]] = defaultdict(list)
        for manifest in manifests:
            groups[manifest.partition_spec_id, is_deletes(manifest)].append(manifest)
        for (spec_id, deletes), group in groups.items():
            if len(group) < MERGED_FROM or any(manifest.added_snapshot_id == self._id for manifest in group):
                yield from group
                continue
            entries = [entry for manifest in group for entry in read_entries(self._io, manifest)]
            if entries:
                yield self._write_manifest(spec_id, deletes=deletes, stays=entries)

    def _new_manifests(self, files: Iterable[Any], *, deletes: bool) -> Iterator[Any]:
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        groups: dict[int, list[Any]] = defaultdict(list)
        for file in files:
            groups[file.spec_id].append(file)
        for spec_id, group in groups.items():
            entries = [
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self._id, sequence_number=None,
                    file_sequence_number=None, data_file=file,
                )
                for file in group
            ]  # fmt: skip
            yield self._write_manifest(spec_id, deletes=deletes, new=entries)

    def _write_manifest(
        self,
        spec_id: int,
        *,
        deletes: bool,
        new: Sequence[Any] = (),
        stays: Sequence[Any] = (),
        removed: Sequence[Any] = (),
    ) -> Any:
        """Write a manifest with these entries, and return the library's `ManifestFile`."""
        path = self._path(f"{self._uuid}-m{self._number}.avro")
        self._number += 1
        output = self._io.new_output(path)
        with manifest_writer(deletes=deletes)(self._specs[spec_id], self._schema, output, self._id, "gzip") as writer:
            for entry in new:
                writer.add(entry)
            for entry in stays:
                writer.existing(entry)
            for entry in removed:
                writer.delete(entry)
        cache_files(self._table, path, (entry.data_file for entry in (*new, *stays)))
        return writer.to_manifest_file()

    def _path(self, name: str) -> str:
        return str(self._table.library.location_provider().new_metadata_location(name))

    def _summary(self) -> Any:
        from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries

        collector = SnapshotSummaryCollector()
        for file in (*self._change.data, *self._change.deletes):
            collector.add_file(file, self._schema, self._specs[file.spec_id])
        for file in self._removed:
            collector.remove_file(file, self._schema, self._specs[file.spec_id])
        snapshot = self._table.library.current_snapshot()
        before = None if snapshot is None or snapshot.summary is None else snapshot.summary
        counted = Summary(Operation.OVERWRITE, **collector.build(), **dict(self._change.summary))
        totals = update_snapshot_summaries(summary=counted, previous_summary=before)  # it does not accept `replace`
        return Summary(Operation(self._change.operation), **totals.additional_properties)

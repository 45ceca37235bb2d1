"""Merge the manifests of a table and expire its snapshots. Runs in the driver.

Each commit adds a manifest. Small ones are merged into one, in a snapshot that changes no row. Snapshots expire as in
Paimon's Java code: first the files that only they name are removed, then their manifests, then the snapshots. The
newest snapshot with a batch of the pipeline is kept, because it tells which batch is committed. Nothing expires in a
table with tags, branches or consumers, because those need its files.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

from connectors.paimon.library import Catalog, entries
from connectors.paimon.tables import LakeTable
from connectors.paimon.upkeep.publishing import COMPACT, NO_IDENTIFIER, publish

log = logging.getLogger(__name__)

MOST_MANIFESTS = 30
_SMALL_BYTES = 4 << 20
_AT_ONCE = 500
_EARLIEST = "EARLIEST"
_LOOKED_AT = 100_000
_HOUR_S = 3600.0
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": _HOUR_S, "d": 86_400.0}


def merge_manifests(catalog: Catalog, table: LakeTable, user: str, *, least: int = MOST_MANIFESTS) -> bool:
    """Merge small manifests when there are too many; return whether that made a snapshot."""
    from pypaimon.manifest.manifest_file_manager import ManifestFileManager
    from pypaimon.manifest.manifest_list_manager import ManifestListManager
    from pypaimon.manifest.schema.file_entry import FileEntry

    newest = table.library.snapshot_manager().get_latest_snapshot()
    lists, files = ManifestListManager(table.library), ManifestFileManager(table.library)
    manifests = lists.read_all(newest)
    small = [item for item in manifests if item.file_size < _SMALL_BYTES]
    if len(small) < least:
        return False
    entries = FileEntry.merge_entries(
        entry for item in small for entry in files.read(item.file_name, drop_stats=False, file_size=item.file_size)
    )
    name = uuid4()
    merged = files.rolling_write(entries, table.library.options.manifest_target_size(), f"manifest-{name}")
    base, delta = f"manifest-list-{name}-0", f"manifest-list-{name}-1"
    base_size = lists.write(base, [*(item for item in manifests if item not in small), *merged])
    snapshot = replace(
        newest, id=newest.id + 1, schema_id=table.library.table_schema.id, base_manifest_list=base,
        base_manifest_list_size=base_size, delta_manifest_list=delta, delta_manifest_list_size=lists.write(delta, []),
        changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None,
        delta_record_count=0, commit_user=user, commit_identifier=NO_IDENTIFIER, commit_kind=COMPACT,
        time_millis=int(time.time() * 1000), properties=None, uuid=str(uuid4()),
    )  # fmt: skip
    if publish(catalog, table, newest, snapshot):
        return True
    log.info("%s: another commit came first, manifests are merged later", table.id)
    return False


def expire_snapshots(table: LakeTable, batches_of: str, *, now: float | None = None) -> int:
    """Remove the snapshots that the table's options no longer keep, and return their number.

    Args:
        batches_of: the commit user whose newest snapshot is kept.
        now: the time, in seconds since the epoch.
    """
    manager = table.library.snapshot_manager()
    newest = manager.get_latest_snapshot()
    if newest is None or _is_pinned(table):
        return 0
    first = _earliest(manager, newest.id)
    end = _end(table, manager, first, newest.id, batches_of, time.time() if now is None else now)
    if end <= first:
        return 0
    _remove(table, manager, first, end)
    return end - first


def _is_pinned(table: LakeTable) -> bool:
    files, root = table.library.file_io, table.library.table_path
    for folder in ("tag", "branch", "consumer"):
        if entries(files, f"{root}/{folder}"):
            log.debug("%s: nothing expires, it has a %s", table.id, folder)
            return True
    return False


def _earliest(manager: Any, newest: int) -> int:
    """The first of the contiguous snapshots up to the newest; looks at the hint that expiry leaves first."""

    def exists(number: int) -> bool:
        return number > 0 and bool(manager.file_io.exists(manager.get_snapshot_path(number)))

    hint = _hint(manager)
    if hint <= newest and exists(hint) and not exists(hint - 1):
        return hint
    first = newest
    while newest - first < _LOOKED_AT and exists(first - 1):
        first -= 1
    return first


def _hint(manager: Any) -> int:
    """The first snapshot according to the hint of the last expiry; 1 when nothing has expired so far."""
    path = f"{manager.snapshot_dir}/{_EARLIEST}"
    try:
        return int(manager.file_io.read_file_utf8(path)) if manager.file_io.exists(path) else 1
    except (ValueError, OSError):  # another writer is writing it
        return 1


def _end(table: LakeTable, manager: Any, first: int, newest: int, batches_of: str, now: float) -> int:
    """The first snapshot that is kept."""
    least = max(1, int(table.options.get("snapshot.num-retained.min", 10)))
    most = int(table.options.get("snapshot.num-retained.max", 2**31 - 1))
    oldest = now - _seconds(table.options.get("snapshot.time-retained", "1 h"))
    for number in range(first, min(newest - least + 1, first + _AT_ONCE)):
        snapshot = manager.get_snapshot_by_id(number)
        young = snapshot is not None and snapshot.time_millis / 1000 > oldest
        retained = snapshot is not None and (
            snapshot.changelog_manifest_list or _is_last(manager, snapshot, newest, batches_of)
        )
        if retained or (young and newest - number < most):
            return number
    return max(first, min(newest - least + 1, first + _AT_ONCE))


def _is_last(manager: Any, snapshot: Any, newest: int, user: str) -> bool:
    """Whether the snapshot is the newest one of the user."""
    if snapshot.commit_user != user:
        return False
    later = (manager.get_snapshot_by_id(number) for number in range(snapshot.id + 1, newest + 1))
    return not any(other is not None and other.commit_user == user for other in later)


def _remove(table: LakeTable, manager: Any, first: int, end: int) -> None:
    """Remove the snapshots before `end`, with the files and manifests that only they name. May be repeated."""
    from pypaimon.manifest.manifest_file_manager import ManifestFileManager
    from pypaimon.manifest.manifest_list_manager import ManifestListManager

    lists, files, io = ManifestListManager(table.library), ManifestFileManager(table.library), table.library.file_io
    stays = manager.get_snapshot_by_id(end)
    if stays is None:
        return
    retained = set(_names(lists, io, stays))
    live = {entry.file.file_name for entry in files.read_entries_parallel(lists.read_all(stays))}
    for number in range(first + 1, end + 1):
        snapshot = manager.get_snapshot_by_id(number)
        for manifest in lists.read_delta(snapshot) if snapshot is not None else ():
            for entry in files.read(manifest.file_name, file_size=manifest.file_size):
                if entry.kind == 1 and entry.file.file_name not in live:
                    io.delete_quietly(_path(table, entry))
    root = f"{table.library.table_path}/manifest"
    for number in range(first, end):
        snapshot = manager.get_snapshot_by_id(number)
        if snapshot is not None:
            for name in _names(lists, io, snapshot):
                if name not in retained:
                    io.delete_quietly(f"{root}/{name}")
            io.delete_quietly(manager.get_snapshot_path(number))
    io.write_file(f"{manager.snapshot_dir}/{_EARLIEST}", str(end), True)


def _names(lists: Any, io: Any, snapshot: Any) -> list[str]:
    """The names of the snapshot's manifests, then of their lists.

    An interrupted removal, in this order, has removed the manifests of a list that is missing.
    """
    names = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    found = [name for name in names if io.exists(f"{lists.manifest_path}/{name}")]
    return [*(item.file_name for name in found for item in lists.read(name)), *found]


def _path(table: LakeTable, entry: Any) -> str:
    from pypaimon.utils.file_store_path_factory import canonical_data_file_path

    partition = tuple(entry.partition.values)
    return str(
        entry.file.external_path
        or canonical_data_file_path(table.library, partition, entry.bucket, entry.file.file_name)
    )


def _seconds(text: str) -> float:
    number, _, unit = text.strip().replace("min", " min").partition(" ")
    if not unit:
        digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
        number, unit = digits, number[len(digits) :] or "ms"
    return float(number) * _UNITS.get(unit.strip(), _HOUR_S)

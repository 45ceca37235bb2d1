"""Cache of manifest lists and manifests that were read or written; such files never change. Runs in the driver.

Of each data file only what finding keys, merging and expiry need is kept, because a pipeline may have a thousand tables
with a hundred files each. The least recently used entries are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.iceberg.lru_cache import LruCache
from connectors.iceberg.manifests import read_entries, read_list
from connectors.iceberg.tables import LakeTable

PATH_ID = 2147483546
"""The field id of the data file's path in a position delete file ("Reserved Field IDs")."""
_MOST_FILES = 100_000
"""The most cached files of manifests, of about 700 bytes each."""
_MOST_MANIFESTS = 1_000_000
"""The most cached manifests of lists; most are in many lists but only one object."""


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A data file or delete file of a manifest, with the format's names; has bounds of only key columns and paths."""

    content: int
    file_path: str
    file_size_in_bytes: int
    record_count: int
    partition: Any
    spec_id: int
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def manifests_of(io: Any, snapshot: Any) -> tuple[Any, ...]:
    """The manifests of a snapshot; none for None."""
    if snapshot is None:
        return ()
    path = snapshot.manifest_list
    found = _lists.get(path)
    if found is None:
        found = tuple(read_list(io, path))
        _lists.put(path, found)
    return found


def files_of(table: LakeTable, manifest: Any) -> tuple[CachedFile, ...]:
    """The live files of a manifest."""
    path = manifest.manifest_path
    found = _files.get(path)
    if found is None:
        found = cache_files(table, path, (entry.data_file for entry in read_entries(table.library.io, manifest)))
    return found


def live_files(table: LakeTable) -> Iterator[CachedFile]:
    """The data files and delete files of the table's head."""
    for manifest in manifests_of(table.library.io, table.library.current_snapshot()):
        yield from files_of(table, manifest)


def cache_manifests(path: str, manifests: Iterable[Any]) -> None:
    """Cache the manifests of a list that was just written."""
    _lists.put(path, tuple(manifests))


def cache_files(table: LakeTable, path: str, files: Iterable[Any]) -> tuple[CachedFile, ...]:
    """Cache the live files (the library's `DataFile` records) of the manifest at this path."""
    ids = {PATH_ID, *table.key_ids}
    found = tuple(_cached_file(file, ids) for file in files)
    _files.put(path, found)
    return found


def forget(paths: Iterable[str]) -> None:
    """Remove lists and manifests from the cache that no snapshot names any more."""
    for path in paths:
        _lists.forget(path)
        _files.forget(path)


def _cached_file(file: Any, ids: set[int]) -> CachedFile:
    lower, upper = (
        {number: bounds[number] for number in ids if number in bounds}
        for bounds in (file.lower_bounds or {}, file.upper_bounds or {})
    )
    return CachedFile(
        int(file.content), file.file_path, int(file.file_size_in_bytes), int(file.record_count), file.partition,
        int(file.spec_id), lower, upper,
    )  # fmt: skip


_lists: LruCache[tuple[Any, ...]] = LruCache(_MOST_MANIFESTS, len)
_files: LruCache[tuple[CachedFile, ...]] = LruCache(_MOST_FILES, len)

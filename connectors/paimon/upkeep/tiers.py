"""Choose the files of a bucket to merge, by size tiers. Pure.

A bucket with a key is a log-structured merge tree: level 0 has files that are each a sorted run, newest last; every
deeper level has at most one run, and the deepest is the oldest. A merge takes all of level 0, and the runs below as
long as they are not much larger than what is merged already. Its result goes to the deepest free level above the
remaining runs. So a row is rewritten only a few times however large the bucket is, and at most `LEVELS` runs remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LEVELS = 5
"""The deepest level; Paimon's default (`num-levels` 6)."""
RATIO = 2
MOST_BYTES = 256 << 20
"""The most bytes of files in one merge: they are decoded in memory, at about ten times their size."""


@dataclass(frozen=True, slots=True)
class FileMerge:
    """Files to merge, oldest first, and the level of the result; `last`: the bucket has no older files."""

    files: tuple[Any, ...]
    level: int
    last: bool


def choose_files(files: Sequence[Any], least: int, *, whole: bool = False) -> FileMerge | None:
    """The files of a bucket to merge (the library's `DataFileMeta`); None when there is nothing to merge.

    Args:
        least: the number of level 0 files from which on they are merged.
        whole: whether to merge as many runs as fit in memory.
    """
    new = sorted((file for file in files if file.level == 0), key=_age)
    runs = {level: [file for file in files if file.level == level] for level in {file.level for file in files} - {0}}
    if len(new) < least or (len(new) <= 1 and not runs and not whole):
        return None
    chosen, size = list(new), sum(file.file_size for file in new)
    for level in sorted(runs):
        run = sum(file.file_size for file in runs[level])
        forced = level == 1  # otherwise there would be no level for the result
        if not forced and (size + run > MOST_BYTES or (run > RATIO * size and not whole)):
            break
        chosen, size = [*runs.pop(level), *chosen], size + run
    if size > MOST_BYTES or not chosen or max(runs, default=LEVELS) > LEVELS:
        return None
    level = min(runs, default=LEVELS + 1) - 1
    return FileMerge(tuple(chosen), level, last=not runs)


def small_files(files: Sequence[Any], least: int, target_bytes: int) -> tuple[Any, ...]:
    """The files to merge in a table without a key: the oldest small ones, up to one file's size; may be none."""
    found: list[Any] = []
    size = 0
    for file in sorted((file for file in files if file.file_size < target_bytes // 2), key=_age):
        if size + file.file_size > min(target_bytes, MOST_BYTES):
            break
        found, size = [*found, file], size + file.file_size
    return tuple(found) if len(found) >= least else ()


def _age(file: Any) -> tuple[int, str, str]:
    return (file.max_sequence_number, str(file.creation_time), file.file_name)

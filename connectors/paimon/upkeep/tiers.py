"""Which files of a bucket are merged, by size tiers. Pure.

A bucket with a key is a log-structured merge tree: files of level 0, each a sorted run, newest last; below them at most
one run for each level, the oldest deepest. All of level 0 is merged, with the runs below as long as they are not much
larger than what is merged already; the outcome goes to the deepest level that is free above what is left. So a row is
rewritten a few times, however large the bucket, and no more than `LEVELS` runs are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LEVELS = 5
"""The deepest level, as Paimon has it by default (`num-levels` 6)."""
RATIO = 2
MOST_BYTES = 256 << 20
"""Bytes of files that are merged at once: they are decoded in memory, at some ten times their size."""


@dataclass(frozen=True, slots=True)
class FileMerge:
    """Files to merge, oldest first, and the level of what comes out; `last`: nothing older is left in the bucket."""

    files: tuple[Any, ...]
    level: int
    last: bool


def choose_files(files: Sequence[Any], least: int, *, whole: bool = False) -> FileMerge | None:
    """The files of a bucket to merge (`DataFileMeta` of the library); None for nothing.

    Args:
        least: how many files of level 0 there have to be.
        whole: take every run that the memory allows.
    """
    new = sorted((file for file in files if file.level == 0), key=_age)
    runs = {level: [file for file in files if file.level == level] for level in {file.level for file in files} - {0}}
    if len(new) < least or (len(new) <= 1 and not runs and not whole):
        return None
    taken, size = list(new), sum(file.file_size for file in new)
    for level in sorted(runs):
        run = sum(file.file_size for file in runs[level])
        forced = level == 1  # else there would be no level for what comes out
        if not forced and (size + run > MOST_BYTES or (run > RATIO * size and not whole)):
            break
        taken, size = [*runs.pop(level), *taken], size + run
    if size > MOST_BYTES or not taken or max(runs, default=LEVELS) > LEVELS:
        return None
    level = min(runs, default=LEVELS + 1) - 1
    return FileMerge(tuple(taken), level, last=not runs)


def small_files(files: Sequence[Any], least: int, target_bytes: int) -> tuple[Any, ...]:
    """Files of a table without a key to put together: the oldest small ones, up to one file's worth; may be none."""
    found: list[Any] = []
    size = 0
    for file in sorted((file for file in files if file.file_size < target_bytes // 2), key=_age):
        if size + file.file_size > min(target_bytes, MOST_BYTES):
            break
        found, size = [*found, file], size + file.file_size
    return tuple(found) if len(found) >= least else ()


def _age(file: Any) -> tuple[int, str, str]:
    return (file.max_sequence_number, str(file.creation_time), file.file_name)

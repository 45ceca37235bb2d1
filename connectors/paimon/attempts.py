"""Which folders task attempts wrote files into, so that what was never decided can be found and removed.

    <sink's folder>/attempts/<batch>-<partition>-<attempt>.jsonl   a line per folder

    {"folder": path, "table": [database, name]}

The names of files begin with pipeline, batch, partition and attempt. A line that a crash of the machine loses costs
space until Paimon's own cleaning of orphans: no snapshot names such a file.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt
from cdc.state.store import Store
from connectors.paimon.handles import Files
from connectors.paimon.tables import CatalogTables

log = logging.getLogger(__name__)

Place = tuple[TableId, str]
"""A table and a folder of it."""
_FOLDER = "attempts"
_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.jsonl")


@dataclass(frozen=True, slots=True)
class CommitAttempts:
    """All that is noted of one pipeline. `store`: the sink's own. Picklable."""

    store: Store
    tables: CatalogTables
    pipeline: str

    def note(self, task: TaskAttempt) -> Callable[[TableId, str], None]:
        """A function that notes a folder for an attempt of a task before it has a file. Executor; thread safe."""
        path = self._folder / f"{task.batch}-{task.partition}-{task.attempt}.jsonl"
        lock = threading.Lock()

        def note(table: TableId, folder: str) -> None:
            line = {"folder": folder, "table": [table.database, table.table]}
            with lock:
                self.store.note(path, json.dumps(line).encode() + b"\n")

        return note

    def remove_since(self, batch: int) -> None:
        """Remove the files of this batch, which was never decided, and forget it and later ones. Driver."""
        since = {folder for found, _, path in self._files() if found >= batch for folder in _read(path)}
        self._remove(since, batch, frozenset())
        self._forget(batch)

    def remove_repeated(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Remove what other attempts of tasks have left; what is noted of the batch and earlier ones goes. Driver."""
        if repeated := self._repeated(batch):
            self._remove(repeated, batch, frozenset[str]().union(*(Files.of(handle).names for handle in prepared)))
        self._forget(0, batch)

    def _repeated(self, batch: int) -> set[Place]:
        """Folders of tasks of the batch that more than one attempt was made of."""
        files = [(partition, path) for found, partition, path in self._files() if found == batch]
        partitions = [partition for partition, _ in files]
        return {folder for part, path in files if partitions.count(part) > 1 for folder in _read(path)}

    def _remove(self, places: set[Place], batch: int, keep: frozenset[str]) -> None:
        prefix = f"cdc-{self.pipeline}-b{batch}-"
        for name, folder in sorted(places):
            table = self.tables.find(name)
            if table is None:  # its files went with it
                continue
            with self.tables.catalog.guard(str(name)):
                files = table.library.file_io
                for path in leftover_files(files, folder, prefix, keep):
                    log.info("removing %s, which was never decided", path)
                    files.delete_quietly(path)

    def _forget(self, first: int, last: int | None = None) -> None:
        for found, _, path in self._files():
            if found >= first and (last is None or found <= last):
                path.unlink(missing_ok=True)

    @property
    def _folder(self) -> Path:
        return self.store.bulk(_FOLDER)

    def _files(self) -> list[tuple[int, int, Path]]:
        named = ((_NAME.fullmatch(path.name), path) for path in self._folder.glob("*.jsonl"))
        return sorted((int(match[1]), int(match[2]), path) for match, path in named if match)


def _read(path: Path) -> set[Place]:
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            fields = json.loads(line)
            found.add((TableId(*fields["table"]), str(fields["folder"])))
        except (ValueError, KeyError, TypeError):
            continue  # cut off in a crash
    return found


def leftover_files(library: Any, folder: str, prefix: str, keep: frozenset[str]) -> list[str]:
    """Paths of a folder whose names begin so, but for those to keep; a folder that is not there has none."""
    if not library.exists(folder):
        return []
    found = (status.path for status in library.list_status(folder))
    names = ((path, path.rsplit("/", 1)[-1]) for path in map(str, found))
    return [f"{folder.rstrip('/')}/{name}" for _, name in names if name.startswith(prefix) and name not in keep]

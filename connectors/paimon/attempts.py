"""Which folders task attempts wrote files into, so that what was never decided can be found and removed.

    <sink's folder>/attempts/<batch>-<partition>-<attempt>.jsonl   a line per folder

    {"folder": path, "table": [database, name]}

The names of files begin with pipeline, batch, partition and attempt. A line that a crash of the machine loses costs
space until Paimon's own cleaning of orphans: no snapshot names such a file.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.state.store import Store

Place = tuple[TableId, str]
"""A table and a folder of it."""
_FOLDER = "attempts"
_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.jsonl")


@dataclass(frozen=True, slots=True)
class CommitAttempts:
    """All that is noted of one pipeline. `store`: the sink's own. Picklable."""

    store: Store

    def note(self, task: TaskAttempt) -> Callable[[TableId, str], None]:
        """A function that notes a folder for an attempt of a task before it has a file. Executor; thread safe."""
        path = self._folder / f"{task.batch}-{task.partition}-{task.attempt}.jsonl"
        lock = threading.Lock()

        def note(table: TableId, folder: str) -> None:
            line = {"folder": folder, "table": [table.database, table.table]}
            with lock:
                self.store.note(path, json.dumps(line).encode() + b"\n")

        return note

    def since(self, batch: int) -> set[Place]:
        """Folders of this batch and of later ones. Driver."""
        return {folder for found, _, path in self._files() if found >= batch for folder in _read(path)}

    def repeated(self, batch: int) -> set[Place]:
        """Folders of tasks of the batch that more than one attempt was made of. Driver."""
        files = [(partition, path) for found, partition, path in self._files() if found == batch]
        partitions = [partition for partition, _ in files]
        return {folder for part, path in files if partitions.count(part) > 1 for folder in _read(path)}

    def forget(self, first: int, last: int | None = None) -> None:
        """Drop what is noted of these batches. Driver."""
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

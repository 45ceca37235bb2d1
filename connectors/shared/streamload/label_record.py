"""Records the labels given to loads of this pipeline, so that a start finds what an earlier run left in the server.

Not every version lets every account list the transactions of a pipeline, but both servers report the state of a label.
So a task records every label before the server sees it.

    <sink's folder>/labels/<batch>-<partition>-<attempt>.jsonl   {"database", "table", "label"}, a line per load

A line lost in a crash of the machine costs little: the next attempt of the task queries its labels anyway, and other
transactions end with the server's timeout.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.source import Context
from cdc.state.store import Store
from connectors.shared.streamload.labels import LabelSpace

log = logging.getLogger(__name__)

_FOLDER = "labels"
_NAME = re.compile(r"(\d+)-\d+-\d+\.jsonl")
_KEPT_S = 900.0
"""How long labels of committed batches are kept: their rows may become visible only later."""
_LOOK_EVERY = 64
"""Number of batches between removals of old files."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A label and the table of its load."""

    table: TableId
    label: str


class LabelWriter:
    """Records the labels of one task attempt. Executor; thread-safe."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store, self._path = store, path
        self._lock = threading.Lock()

    def note(self, table: TableId, label: str) -> None:
        """Record a label; afterwards it may be given to a load. Raises StateError when the file cannot be written."""
        fields = {"database": table.database, "table": table.table, "label": label}
        with self._lock:
            self._store.note(self._path, json.dumps(fields).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class LabelRecord:
    """All recorded labels of one pipeline. `store`: the sink's own. Picklable."""

    store: Store
    space: LabelSpace

    @classmethod
    def of(cls, context: Context, prefix: str) -> LabelRecord:
        """Return the record of the context's pipeline."""
        return cls(context.store, LabelSpace(context.pipeline, prefix))

    def writer(self, task: TaskAttempt) -> LabelWriter:
        """Return a writer for one attempt of one task. Executor."""
        return LabelWriter(self.store, self._folder / f"{task.batch}-{task.partition}-{task.attempt}.jsonl")

    def from_batch(self, batch: int) -> list[Recorded]:
        """Return labels of this batch and of later ones, each once. Driver."""
        files = (path for number, path in self._files() if number >= batch)
        return list(dict.fromkeys(found for path in files for found in self._read(path)))

    def all(self) -> list[Recorded]:
        """Return every label that is kept, each once. Driver."""
        return self.from_batch(0)

    def forget_since(self, batch: int) -> None:
        """Forget labels of this batch and of later ones, as the server has nothing of them any more. Driver."""
        for number, path in self._files():
            if number >= batch:
                path.unlink(missing_ok=True)

    def prune(self, batch: int) -> None:
        """Remove old files, now and then, after a batch is committed. Driver."""
        if batch % _LOOK_EVERY:
            return
        oldest = time.time() - _KEPT_S
        for number, path in self._files():
            if number < batch and path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    @property
    def _folder(self) -> Path:
        return self.store.bulk(_FOLDER)

    def _files(self) -> list[tuple[int, Path]]:
        """Return batch and file, ordered by batch."""
        named = ((_NAME.fullmatch(path.name), path) for path in self._folder.glob("*.jsonl"))
        return sorted((int(match[1]), path) for match, path in named if match)

    def _read(self, path: Path) -> Iterator[Recorded]:
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                fields = json.loads(line)
                found = Recorded(TableId(fields["database"], fields["table"]), fields["label"])
            except (ValueError, KeyError, TypeError):
                log.warning("%s: a line is incomplete, as after a crash; skipping it", path)
                continue
            if self.space.read(found.label) is not None:
                yield found

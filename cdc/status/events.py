"""`cdc run --events FILE`: the events of a run as JSON lines, for other tools. Appended, never synced.

    {"time": "2026-01-31T12:00:00.000+00:00", "event": "batch", "pipeline": "shop", "batch": 7, "rows": 120, ...}

| event | when | additional fields |
|---|---|---|
| started | a run begins | source, sink, runs |
| batch | a batch is committed | batch, rows, tables, duration_s, lag_s, phases, position |
| schema-change | one was applied, held back, refused or failed | batch, table, change, outcome |
| copy | the snapshot of a table begins (or begins again) or is done | table, state, rows, chunks, why |
| notice | the source reports something | text |
| error | an error stopped the run or a batch | kind, message, where, hint, retryable |
| stopped | the run has ended | state, batches, rows |
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdc.printable import printable_json
from cdc.state.durable import private, state_error

EVENTS = ("started", "batch", "schema-change", "copy", "notice", "error", "stopped")


class EventFile:
    """Appends events to a file; each line is written when `add` returns. Driver.

    Args:
        path: the file, which may be a pipe. A missing one is created, readable by this user only.
        pipeline: the name in each line.
    """

    def __init__(self, path: Path, pipeline: str) -> None:
        self._path, self._pipeline = path, pipeline

    def add(self, event: str, **fields: Any) -> None:
        """Append an event. Raises StateError when it cannot be written."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = {"time": now, "event": event, "pipeline": self._pipeline}
        line = json.dumps({**head, **printable_json(fields)})
        try:
            with open(self._path, "a", encoding="utf-8", opener=private) as file:
                file.write(line + "\n")
        except OSError as error:
            raise state_error(self._path, error, "append events to") from error

"""What a stand-in must not forget, as JSON documents in one SQLite file: durable over `kill -9` when a call returns.

SQLite in WAL mode without a sync per write: a killed process loses nothing, a machine without power may. That is what
the tests need, at some 20 microseconds a document.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Journal:
    """Documents by kind and key; safe to use from many threads."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._db = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS documents (kind TEXT, key TEXT, document TEXT, PRIMARY KEY (kind, key))"
            " WITHOUT ROWID"
        )

    def put(self, kind: str, key: str | int, document: Any) -> None:
        """Keep `document` under this key instead of what was there."""
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (kind, str(key), text))

    def get(self, kind: str, key: str | int) -> Any:
        """The document, or None."""
        with self._lock:
            row = self._db.execute(
                "SELECT document FROM documents WHERE kind = ? AND key = ?", (kind, str(key))
            ).fetchone()
        return None if row is None else json.loads(row[0])

    def remove(self, kind: str, key: str | int) -> None:
        """Forget a document; nothing happens when there is none."""
        with self._lock:
            self._db.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (kind, str(key)))

    def all(self, kind: str) -> dict[str, Any]:
        """Every document of a kind by its key."""
        with self._lock:
            rows = self._db.execute("SELECT key, document FROM documents WHERE kind = ?", (kind,)).fetchall()
        return {key: json.loads(document) for key, document in rows}

    def next_number(self, name: str, first: int = 1) -> int:
        """A number that no earlier call gave for this name, ascending, also over restarts."""
        with self._lock:
            number = int(self.get("number", name) or first)
            self.put("number", name, number + 1)
        return number

    @contextmanager
    def together(self) -> Iterator[None]:
        """Writes inside become durable all or none. Holds the journal's lock; may be nested."""
        with self._lock:
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file; also merges the log into it."""
        with self._lock:
            self._db.close()

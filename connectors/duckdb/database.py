"""One DuckDB file: opened for one piece of work and closed after it, so that other processes can read it in between.

DuckDB allows one process to write, or several to read; nobody else can open the file while a writer has it open
(documentation, "Concurrency"). Opening and closing costs about 15 ms, which is better than locking readers out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from cdc.errors import SinkError, SinkUnavailable
from cdc.finding import Finding, ok
from cdc.process.disk import examine_folder
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.duckdb.options import DuckDbSinkOptions

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_BLOCK_BYTES = 64 << 10
"""Block size of a new file.

A table with an index takes at least two blocks, written whole: with DuckDB's 256 KB a thousand small tables take half a
gigabyte, and a batch for all of them takes twice as long.
"""


def _never() -> bool:
    return False


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class FullNames:
    """Full names of tables.

    They always include the catalog, as DuckDB calls `shop.orders` ambiguous in a file shop.duckdb.
    """

    catalog: str

    @classmethod
    def of_file(cls, path: str) -> FullNames:
        """Return the names for a file that does not exist yet."""
        return cls(Path(path).name.partition(".")[0])

    def schema(self, database: str) -> str:
        """Return the DuckDB schema of a source database."""
        return f"{quoted(self.catalog)}.{quoted(database or 'main')}"

    def table(self, table: TableId) -> str:
        """Return the table as `catalog.schema.table`."""
        return f"{self.schema(table.database)}.{quoted(table.table)}"


class DuckDbSession:
    """An open connection. Results are always fetched completely, as DuckDB keeps unfinished ones open."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.names = FullNames(str(self.rows("SELECT current_database()")[0][0]))

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement with bound values and return all rows of its result."""
        cursor = self.connection.execute(sql, list(values)) if values else self.connection.execute(sql)
        return list(cursor.fetchall())

    def numpy(self, sql: str) -> dict[str, Any]:
        """Run a query and return its columns as numpy arrays."""
        return dict(self.connection.execute(sql).fetchnumpy())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one transaction: commits at the end, rolls back on any error."""
        self.rows("BEGIN")
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        try:
            self.rows("ROLLBACK")
        except duckdb.Error:
            # A failed COMMIT has rolled back already; an invalidated database is closed with its connection.
            return


class Database:
    """Opens the file of a pipeline's sink. Picklable; keeps nothing open."""

    def __init__(
        self,
        options: DuckDbSinkOptions,
        *,
        stopping: Callable[[], bool] = _never,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`stopping`: whether the run is stopping, which ends a wait for the file."""
        self.path = options.path
        self._retry = RetryPolicy(
            options.lock_timeout, _FIRST_PAUSE_S, _LONGEST_PAUSE_S, stopping=stopping, clock=clock, sleep=sleep
        )
        self._config: dict[str, Any] = {"default_block_size": _BLOCK_BYTES}
        if options.memory_limit is not None:
            self._config["memory_limit"] = f"{options.memory_limit}B"
        if options.threads is not None:
            self._config["threads"] = options.threads

    @property
    def exists(self) -> bool:
        """Whether there is a file at the path."""
        return Path(self.path).exists()

    @contextmanager
    def open(self, *, read_only: bool = False) -> Iterator[DuckDbSession]:
        """Open a session on the file; creates the file if missing.

        Raises SinkUnavailable when another process holds it for longer than `lock-timeout`, SinkError when it cannot be
        opened at all. Errors of DuckDB inside the block become SinkError too.
        """
        connection = self._connect(read_only)
        try:
            # On by default in a process without a main file, such as a Spark worker; not a setting of `config`.
            connection.execute("SET enable_progress_bar = false")
            yield DuckDbSession(connection)
        except duckdb.Error as error:
            raise SinkError(first_line(error), where=self.path, hint=_hint(error)) from error
        finally:
            connection.close()

    def examine(self) -> Iterator[Finding]:
        """Check DuckDB itself, the folder, and the file if it exists. Raises as `open`."""
        yield ok("version", f"DuckDB {duckdb.__version__}")
        yield from examine_folder("disk", Path(self.path).parent)
        if self.exists:
            with self.open(read_only=True) as session:
                size = Path(self.path).stat().st_size
                yield ok("file", f"{self.path}: {len(session.rows('SHOW ALL TABLES'))} tables, {size} bytes")

    def _connect(self, read_only: bool) -> Any:
        backoff = Backoff(self._retry, self.path)
        while True:
            try:
                return self._connect_once(read_only)
            except duckdb.Error as error:
                if not _is_locked(error):
                    raise SinkError(first_line(error), where=self.path, hint=_hint(error)) from error
                if not backoff.pause(first_line(error)):
                    raise backoff.given_up(self._locked_error(error)) from error

    def _connect_once(self, read_only: bool) -> Any:
        try:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            if not read_only and not self.exists:
                self._create()
        except OSError as error:
            hint = "choose another path, or make the folder"
            raise SinkError(
                f"cannot create the file or its folder: {error.strerror}", where=self.path, hint=hint
            ) from error
        return duckdb.connect(self.path, read_only=read_only, config=self._config)

    def _create(self) -> None:
        """Create the file under another name first: half a file, left by a crash or a full disk, could not be opened
        any more."""
        spare = Path(f"{self.path}.{os.getpid()}-{threading.get_ident()}.new")
        try:
            duckdb.connect(str(spare), config=self._config).close()
            os.link(spare, self.path)  # unlike a rename, it replaces no file that another process has created
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            os.rename(spare, self.path)
        finally:
            spare.unlink(missing_ok=True)

    def _locked_error(self, error: duckdb.Error) -> SinkUnavailable:
        _, _, holder = str(error).partition("Conflicting lock is held in ")
        holder = holder.split(")")[0] + ")" if holder else "this process, with other settings"
        return SinkUnavailable(
            f"still open in {holder} after {self._retry.timeout_s:g} s",
            where=self.path,
            hint="close it there, or raise lock-timeout",
        )


_LOCKED = (
    "Could not set lock on file", "different configuration than existing connections", "Unique file handle conflict",
)  # fmt: skip
"""Errors when another process has the file, or another thread of this one is opening or closing it."""


def _is_locked(error: duckdb.Error) -> bool:
    text = str(error)
    return any(mark in text for mark in _LOCKED)


def first_line(error: duckdb.Error) -> str:
    """Return DuckDB's message, without the statement that it quotes."""
    return str(error).strip().splitlines()[0]


_HINTS = (
    ("not a valid DuckDB database file", "choose another path; or restore the original file"),
    ("No space left", "free some space and start again; nothing was lost"),
    ("Out of Memory", "raise memory-limit, or lower max-batch-bytes of the source"),
    ("Read-only file system", "make it writable, or choose another path; nothing was lost"),
    ("Permission denied", "give this user write access, or choose another path"),
    ("Is a directory", "name a file in it"),
    ("checksum", "the file is damaged: restore it, or remove it and start with a new --state-dir"),
    ("orrupt", "the file is damaged: restore it, or remove it and start with a new --state-dir"),
)  # fmt: skip


def _hint(error: duckdb.Error) -> str:
    text = str(error)
    return next((hint for mark, hint in _HINTS if mark in text), "")

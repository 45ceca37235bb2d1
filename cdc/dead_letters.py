"""Dead letters: rows rejected by a sink or by a transform rule, written as JSON lines to separate files.

One file per task and table, named after them: `<location>/<name>.jsonl`. A repeated task overwrites its file, so each
row is there once. On a local disk the file appears complete, by a rename; object stores show a file once it is closed.

One line: {"table", "position", "operation", "key": {...}, "rejected": [{"column", "type", "reason"}], "row": {...}}.
A rejected value of a transform rule also has the "expression".
Numbers that JSON would round, dates and times are text; bytes are hexadecimal after `0x`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from cdc.errors import SinkError

_EXACT_INTEGERS = 1 << 53

_HINT = (
    "the bucket or folder has to exist, and the environment of every executor has to have the credentials, the "
    "region or the endpoint for it"
)

_OPEN_PARAMETERS = ("region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion")
"""URL parameters of a location that are not secret."""


class Rejected(NamedTuple):
    """A rejected value: its column, the type expected there, the reason, and the transform rule's expression."""

    column: str
    type: str
    reason: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One rejected row.

    Attributes:
        table: the sink table, or the source table for a rule, as text.
        position: position in the source's log, `file:position`; empty when the row comes from no log.
        operation: `upsert` or `delete`.
        key: key columns by name.
        rejected: the rejected values.
        row: all columns by name, as Python values.
    """

    table: str
    position: str
    operation: str
    key: dict[str, object]
    rejected: tuple[Rejected, ...]
    row: dict[str, object]


def folder_of(table: object) -> str:
    """Return the folder of a table's dead letters: its id, with path separators percent-encoded."""
    return quote(str(table), safe="")


class DeadLetters:
    """Writer of one file. Executor; one per task attempt and table, used by one thread.

    Creates nothing before the first row. Leaving the `with` block by an exception removes what was written.
    """

    def __init__(self, location: str, name: str, attempt: int = 0) -> None:
        """Prepare the writer; touches no file.

        Args:
            location: a local folder, or a URI of an Arrow file system (`s3://bucket/folder`, `gs://`, `hdfs://`).
            name: a relative path without suffix, such as `pipeline/shop.orders/batch-7-part-0`, with `folder_of`.
            attempt: distinguishes the unfinished files of overlapping attempts.
        """
        self._location, self._name, self._attempt = location, name, attempt
        self._files: Any = None
        self._stream: Any = None
        self._unfinished = self._path = ""
        self.written = 0

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def write(self, rows: Iterable[DeadLetter]) -> None:
        """Append rows. Raises SinkError when the location is not writable."""
        for row in rows:
            line = json.dumps(_fields(row), ensure_ascii=False) + "\n"
            try:
                self._open().write(line.encode("utf-8", "backslashreplace"))
            except (OSError, ValueError) as error:
                raise self._failed(error) from error
            self.written += 1

    def close(self) -> None:
        """Make the file visible. Idempotent. Raises SinkError."""
        if self._stream is None:
            return
        try:
            self._stream.close()
            if self._unfinished != self._path:
                self._files.move(self._unfinished, self._path)
        except (OSError, ValueError) as error:
            raise self._failed(error) from error
        finally:
            self._stream = None

    def discard(self) -> None:
        """Remove the unfinished file; one that cannot be removed keeps its unfinished name."""
        if self._stream is None:
            return
        try:
            self._stream.close()
            self._files.delete_file(self._unfinished)
        except OSError:
            self.written = 0
        finally:
            self._stream = None

    def withdraw(self) -> None:
        """Remove the file of an earlier attempt, before anything is written. Raises SinkError."""
        try:
            self._find()
            if self._files.get_file_info(self._path).type is not fs.FileType.NotFound:
                self._files.delete_file(self._path)
        except (OSError, ValueError) as error:
            raise self._failed(error) from error

    def _find(self) -> None:
        self._files, folder = _file_system(self._location)
        self._path = str(PurePosixPath(folder) / f"{self._name}.jsonl")

    def _open(self) -> Any:
        if self._stream is None:
            self._find()
            local = isinstance(self._files, fs.LocalFileSystem)
            self._unfinished = f"{self._path}.{self._attempt}.unfinished" if local else self._path
            self._files.create_dir(str(PurePosixPath(self._path).parent), recursive=True)
            self._stream = self._files.open_output_stream(self._unfinished)
        return self._stream

    def _failed(self, error: Exception) -> SinkError:
        return SinkError(
            f"dead letters cannot be written: {_reason(error, self._location)}",
            where=without_secret(self._location),
            hint=_HINT if "://" in self._location else "the folder has to be writable from every executor",
        )


def cell(rows: pa.RecordBatch, name: str, row: int) -> object:
    """Return a value of a rejected row; invalid UTF-8 as bytes, a date beyond Python's range as its number."""
    array = rows.column(rows.schema.names.index(name)).slice(row, 1)
    try:
        return array[0].as_py()
    except UnicodeDecodeError:
        return array.view(pa.binary())[0].as_py()
    except (ValueError, OverflowError):
        return str(array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())[0].as_py())


def without_secret(location: str) -> str:
    """Return the location without user, password and parameters, for messages."""
    scheme, mark, path = location.partition("://")
    if not mark:
        return location
    return f"{scheme}://{path.partition('?')[0].rpartition('@')[2]}"


def _reason(error: Exception, location: str) -> str:
    """Return Arrow's message without the secrets in the location."""
    text = " ".join(str(error).split()) or type(error).__name__
    parts = urlsplit(location)
    values = [value for name, value in parse_qsl(parts.query) if name not in _OPEN_PARAMETERS]
    for secret in filter(None, [parts.username, parts.password, *values]):
        for secret_form in (secret, unquote(secret), quote(secret, safe="")):
            text = text.replace(secret_form, "...")
    return text[:500]


def _file_system(location: str) -> tuple[Any, str]:
    if "://" in location:
        files, folder = fs.FileSystem.from_uri(location)
        return files, folder
    return fs.LocalFileSystem(), location


def _fields(row: DeadLetter) -> dict[str, object]:
    return {
        "table": row.table,
        "position": row.position,
        "operation": row.operation,
        "key": {name: _plain(value) for name, value in row.key.items()},
        "rejected": [_rejected(each) for each in row.rejected],
        "row": {name: _plain(value) for name, value in row.row.items()},
    }


def _rejected(value: Rejected) -> dict[str, str]:
    fields = value._asdict()
    return fields if value.expression else {name: fields[name] for name in ("column", "type", "reason")}


def _plain(value: object) -> object:
    """Convert to a value that JSON represents exactly."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < _EXACT_INTEGERS else str(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value)

"""The recorded workload: blocks of its binlogs, and our messages of them, to compare with those of the real tools."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cdc.block import ChangeBlock
from cdc.schema import SchemaChange
from cdc.sink import Announced, Prepared, Sink, TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import run_in_memory
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.layout import MessageLayout
from connectors.mysql.options import BinlogFilesSourceOptions

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "kafka"
Record = tuple[Any, Any, list[list[str]]]
"""Key and value as JSON values, and headers."""


class _Blocks(Sink):
    """Keeps what the engine hands to a sink."""

    def __init__(self) -> None:
        self.blocks: list[ChangeBlock] = []
        self.announced: list[Announced] = []

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:
        self.announced += changes

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Nothing."""

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        self.blocks += blocks
        return []

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Nothing."""

    def abort(self, batch: int, noted: Any = ()) -> None:
        """Nothing."""


def blocks(flavor: str) -> Sequence[ChangeBlock]:
    """The row changes of a recorded binlog as a sink gets them, in log order within each table."""
    return _sunk(flavor).blocks


def announced(flavor: str) -> Sequence[Announced]:
    """The schema changes of a recorded binlog as a sink is told of them."""
    return _sunk(flavor).announced


@cache
def _sunk(flavor: str) -> _Blocks:
    """What comes of a binlog is the same for all tests, and none of them changes it."""
    options = BinlogFilesSourceOptions.model_validate(
        {
            "type": "binlog-files",
            "path": str(FOLDER / flavor / "binlog.*"),
            "tables": r"types_db.\.*,shop.\.*",
        }
    )
    sink = _Blocks()
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder))
        context = Context("recorded", store, metadata=("log_file", "binlog_begin", "server_id", "gtid"))
        run_in_memory(options.build(context), sink)
    return sink


def ours(flavor: str, layout: Callable[[ChangeBlock], MessageLayout], **loading: Any) -> dict[str, list[Record]]:
    """Our messages of a recorded binlog, by table; `loading` is for `json.loads`."""
    found: dict[str, list[Record]] = defaultdict(list)
    for block in blocks(flavor):
        encoder = Encoder(layout(block), tombstones=True, now_ms=lambda: 0)
        for messages in encoder.encode(block):
            for index, record in enumerate(messages.records):
                key, value = record.get("key"), record.get("value")
                headers = [[name, text.decode()] for name, text in messages.headers.get(index, [])]
                found[str(block.table)].append((_read(key, loading), _read(value, loading), headers))
    return dict(found)


def _read(text: bytes | None, loading: dict[str, Any]) -> Any:
    return None if text is None else json.loads(text, **loading)


def theirs(name: str) -> list[Any]:
    """The lines of a recorded file."""
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def differences(path: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: the path, and both values there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from differences(f"{path}.{key}", one.get(key, "missing"), other.get(key, "missing"))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(f"{path}[{index}]", a, b)
    elif one != other:
        yield path, one, other

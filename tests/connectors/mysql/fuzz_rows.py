"""Damages recorded events and decodes them between guard pages: `python fuzz_rows.py SEED ROUNDS`.

The log's bytes end (or begin) at a page that cannot be read, arenas end at one: a kernel that leaves its buffer kills
this process. Every log is decoded twice: row by row, and column by column, for which there have to be bytes after its
last event; both have to give the same. Prints how many rounds gave rows and how many gave an error; any error but a
SourceError ends it.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.log.log_file import read_buffers
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows import arena, image_plan
from connectors.mysql.rows.decoder import Decoder
from connectors.mysql.table import MySqlColumn, MySqlTable

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "rows"
_TABLE = TableId("recorded", "t")
_ROWS_TYPES = (23, 24, 25, 30, 31, 32, 39)
_BATCH_BYTES = image_plan._IMAGE_BYTES
_LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory of `size` bytes with a page before it and one after it that nobody may touch."""

    def __init__(self, size: int, *, at_start: bool = False) -> None:
        self.size, page = size, mmap.PAGESIZE
        whole = -(-max(size, 1) // page) * page
        self._pages = mmap.mmap(-1, whole + 2 * page)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        for guard in (first, first + page + whole):
            if _LIBC.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = first + page + (0 if at_start else whole - size)

    def array(self) -> Any:
        pointer = ctypes.cast(self.address, ctypes.POINTER(ctypes.c_uint8))
        return np.ctypeslib.as_array(pointer, (self.size,))


class _Buffers:
    """Stands in for pyarrow where arenas are made."""

    def __init__(self) -> None:
        self.kept: list[Guarded] = []

    def allocate_buffer(self, size: int) -> Any:
        memory = Guarded(-(-size // 64) * 64)
        self.kept.append(memory)
        return pa.foreign_buffer(memory.address, size, memory)

    def __getattr__(self, name: str) -> Any:
        return getattr(pa, name)


def _table(flavor: str) -> MySqlTable:
    columns = json.loads((_FIXTURES / f"{flavor}.json").read_text(encoding="utf-8"))
    made = []
    for column in columns:
        del column["rows"]
        made.append(MySqlColumn(**{**column, "labels": tuple(column["labels"])}))
    return MySqlTable(_TABLE, tuple(made), ("id",))


def _damage(body: bytearray, rnd: random.Random) -> bytearray:
    kind = rnd.randrange(5)
    if kind == 0 and len(body) > 28:
        return body[: rnd.randrange(27, len(body))]
    if kind == 1:
        return body + rnd.randbytes(rnd.randrange(1, 40))
    if kind == 2:
        start = rnd.randrange(27, len(body))
        body[start:] = rnd.randbytes(len(body) - start)
        return body
    for _ in range(rnd.choice([1, 1, 2, 5, 30])):
        place = rnd.randrange(19, len(body))
        body[place] = rnd.choice([0, 0xFF, 0x80, 0x7F, body[place] ^ 1 << rnd.randrange(8), rnd.randrange(256)])
    return body


def _chunk(events: list[tuple[int, bytearray]], behind: bytes, rnd: random.Random) -> tuple[ReceiveBuffer, Guarded]:
    data = b"".join(bytes(body) for _, body in events) + behind
    memory = Guarded(len(data), at_start=rnd.random() < 0.3)
    buffer = memory.array()
    buffer[:] = np.frombuffer(data, np.uint8)
    ends = np.cumsum([len(body) for _, body in events], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    types = np.array([kind for kind, _ in events], np.uint8)
    zeros = np.zeros(len(events), np.int64)
    return ReceiveBuffer("b.000001", 1, buffer, starts, ends, types, ends, zeros, types * np.uint8(0), False), memory


def _events(flavor: str) -> list[tuple[int, bytearray]]:
    found = []
    for chunk in read_buffers(_FIXTURES / f"{flavor}.binlog"):
        for index in range(len(chunk)):
            if chunk.type[index] == 19 or chunk.type[index] in _ROWS_TYPES:
                data = chunk.data[int(chunk.start[index]) : int(chunk.end[index])].tobytes()
                found.append((int(chunk.type[index]), bytearray(data)))
    return found


def _update_of(event: tuple[int, bytearray], kind: int) -> tuple[int, bytearray]:
    """A WRITE event as an update of a row to itself, or as a delete."""
    code, body = event
    if kind == 32 or code not in (23, 30):
        return (kind if code in (23, 30) else code), body
    head = 19 + (10 if code == 30 else 8)
    size = 1 if body[head] < 251 else 3
    columns = body[head] if size == 1 else int.from_bytes(body[head + 1 : head + 3], "little")
    bitmap = body[head + size : head + size + (columns + 7) // 8]
    image = body[head + size + len(bitmap) :]
    return kind, body[: head + size] + bitmap + bitmap + image + (b"\x01\x00" if kind == 39 else b"") + image


def _require(body: bytearray, rnd: random.Random) -> bytearray:
    """A TABLE_MAP that calls some columns NOT NULL, which the rows need not respect."""
    at = 27
    for _ in range(2):
        at += body[at] + 2
    columns = body[at]
    at += 1 + columns
    at += 1 + body[at] if body[at] < 251 else 3 + int.from_bytes(body[at + 1 : at + 3], "little")
    for column in rnd.sample(range(columns), rnd.choice([0, 1, 5, 40, columns])):
        body[at + (column >> 3)] &= ~(1 << (column & 7))
    return body


def _outcome(chunk: ReceiveBuffer, table: MySqlTable) -> tuple[str, str]:
    """`rows` and what they are, or the name of an error and what it says."""
    counts: Counter[str] = Counter()
    decoder = Decoder(
        {_TABLE: table}, captures=lambda found: found == _TABLE, count=lambda name, count: counts.update({name: count})
    )
    text = []
    try:
        for block in decoder.decode(chunk):
            block.rows.validate()
            for column in block.rows.columns:
                if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                    offsets = np.frombuffer(column.buffers()[1], np.int32)
                    if (np.diff(offsets) < 0).any():
                        raise AssertionError(f"offsets go back in {column.type}")
            binary = [_bytes_of(column) for column in block.rows.columns]
            text.append(f"{block.kinds} {block.sequence} {block.row} {binary}")
    except SourceError as error:
        return type(error).__name__, str(error)
    return "rows", f"{text} {sorted(counts.items())}"


def _bytes_of(column: Any) -> list[Any]:
    """Values in a form that any bytes have: damaged text is not UTF-8."""
    if pa.types.is_string(column.type):
        column = column.view(pa.binary())
    elif pa.types.is_floating(column.type):
        column = column.view(pa.int64() if column.type == pa.float64() else pa.int32())
    return column.to_pylist()


def main(seed: int, rounds: int) -> None:
    rnd = random.Random(seed)
    arena.pa = _Buffers()
    results: Counter[str] = Counter()
    sources = {flavor: (_table(flavor), _events(flavor)) for flavor in ("mysql", "mariadb")}
    for number in range(rounds):
        table, events = sources[rnd.choice(["mysql", "mariadb"])]
        maps, rows = [e for e in events if e[0] == 19], [e for e in events if e[0] != 19]
        picked = [maps[0], *rnd.sample(rows, rnd.randrange(1, 4))]
        version2 = picked[1][0] == 30
        changed = [
            _update_of(event, rnd.choice([30, 31, 32, 39] if version2 else [23, 24, 25])) for event in picked[1:]
        ]
        script = [(19, _require(bytearray(picked[0][1]), rnd)), *((code, bytearray(body)) for code, body in changed)]
        for _, body in script[1:]:
            body[25:27] = b"\0\0"
        target = rnd.randrange(len(script) * 3) % len(script) if number % 8 else 0
        script[target] = (script[target][0], _damage(script[target][1], rnd))
        seen = []
        for batch_bytes, behind in ((0, b""), (_BATCH_BYTES, rnd.randbytes(64))):
            image_plan._IMAGE_BYTES = batch_bytes
            chunk, memory = _chunk(script, behind, rnd)
            seen.append(_outcome(chunk, table))
            arena.pa.kept.clear()
            del memory
        if seen[0] != seen[1]:
            raise AssertionError(f"round {number}: {seen[0]} row by row, {seen[1]} by columns")
        results[seen[0][0]] += 1
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

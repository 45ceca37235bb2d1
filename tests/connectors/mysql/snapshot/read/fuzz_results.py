"""Damages rows of results and reads them between guard pages: `python fuzz_results.py SEED ROUNDS`.

A kernel that leaves its buffer kills this process. Prints how many rounds gave rows and how many gave an error.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from fuzz_rows import Guarded, _Buffers
from result_bytes import packets, row, sized

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.rows import arena
from connectors.mysql.rows import table_map as codes
from connectors.mysql.rows.addresses import address
from connectors.mysql.snapshot.read.kernels import packets as splitter
from connectors.mysql.snapshot.read.kernels import protocol
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_stream import ResultColumn, RowPackets
from connectors.mysql.table import MySqlColumn, MySqlTable
from connectors.mysql.value_rules import ValueRules

_COLUMNS = (
    (MySqlColumn("a", "tinyint", 1), codes.TINY, lambda rng: rng.randbytes(1)),
    (MySqlColumn("b", "smallint"), codes.SHORT, lambda rng: rng.randbytes(2)),
    (MySqlColumn("c", "int"), codes.LONG, lambda rng: rng.randbytes(4)),
    (MySqlColumn("d", "double"), codes.DOUBLE, lambda rng: rng.randbytes(8)),
    (MySqlColumn("e", "year"), codes.YEAR, lambda rng: b"\xea\7"),
    (MySqlColumn("f", "date"), codes.DATE, lambda rng: b"\4\xea\7\2" + bytes([rng.randrange(33)])),
    (MySqlColumn("g", "datetime", 6), codes.DATETIME_OLD, lambda rng: b"\x0b\xea\7\1\2\3\4\5" + struct.pack("<I", 6)),
    (MySqlColumn("h", "time"), codes.TIME_OLD, lambda rng: b"\x08\1\2\0\0\0\3\4\5"),
    (MySqlColumn("i", "bit", 1), codes.BIT, lambda rng: b"\1\1"),
    (MySqlColumn("j", "bit", 20), codes.BIT, lambda rng: b"\3" + rng.randbytes(3)),
    (MySqlColumn("k", "decimal", 12, 2), codes.NEWDECIMAL, lambda rng: sized(b"-1234.50")),
    (MySqlColumn("l", "decimal", 38, 9), codes.NEWDECIMAL, lambda rng: sized(b"12345678901234567890.123456789")),
    (MySqlColumn("m", "decimal", 65, 3), codes.NEWDECIMAL, lambda rng: sized(b"9" * 62 + b".123")),
    (MySqlColumn("n", "varchar", 90, charset="utf8mb4"), codes.VAR_STRING, lambda rng: sized(b"x" * rng.randrange(90))),
    (MySqlColumn("o", "longtext", charset="gbk"), codes.BLOB, lambda rng: sized(b"\xc4\xe3" * rng.randrange(200))),
    (MySqlColumn("p", "vector", 3), codes.VECTOR, lambda rng: sized(bytes(12))),
)
_TABLE = MySqlTable(TableId("fuzz", "t"), tuple(column for column, _, _ in _COLUMNS))
_RESULT = tuple(ResultColumn(column.name, code, False) for column, code, _ in _COLUMNS)
_SLACK = 64


def _damage(body: bytes, rng: random.Random) -> bytes:
    data = bytearray(body)
    kind = rng.randrange(6)
    if kind == 0:
        return body[: rng.randrange(1, len(body))]
    if kind == 1:
        data += rng.randbytes(rng.randrange(1, 20))
    elif kind == 2:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(1, len(data))] = rng.choice([0, 1, 11, 250, 251, 252, 253, 254, 255, rng.randrange(256)])
    elif kind == 3:
        at = rng.randrange(1, len(data))
        data[at:at] = rng.choice([b"\xfd\xff\xff\xff", b"\xfe" + b"\xff" * 8, b"\xfc\xff\xff", b"\xfe" + bytes(8)])
    return bytes(data)


def _rows(rng: random.Random) -> list[bytes]:
    made = [
        row([None if rng.random() < 0.1 else value(rng) for _, _, value in _COLUMNS])
        for _ in range(rng.choice([1, 3, 40]))
    ]
    made[rng.randrange(len(made))] = _damage(made[rng.randrange(len(made))], rng)
    return made


def _read(bodies: list[bytes]) -> int:
    """Row bytes just before a guard page, but for the bytes that the stream keeps after them."""
    data = b"".join(bodies)
    memory = Guarded(len(data) + _SLACK)
    buffer = memory.array()
    buffer[: len(data)] = np.frombuffer(data, np.uint8)
    ends = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    starts = ends - np.array([len(body) for body in bodies], np.int64)
    rules = ValueRules(tinyint1_as_boolean=True)
    reader = RowReader(_TABLE, _RESULT, Stamp(1, 0, 0), lambda reason, number: None, rules, where="fuzz")
    given = RowPackets(buffer, starts, ends, len(bodies))
    return sum(len(block) for block in [*reader.read(given), *reader.read(given), *reader.finish()])


def _split(bodies: list[bytes], rng: random.Random) -> None:
    """Packets cut and damaged anywhere, just before a guard page."""
    data = bytearray(packets(bodies, 0))[: rng.randrange(1, 500)]
    data[rng.randrange(len(data))] = rng.randrange(256)
    memory = Guarded(len(data), at_start=rng.random() < 0.5)
    memory.array()[:] = np.frombuffer(data, np.uint8)
    state, starts, ends = np.zeros(protocol.SPLIT_STATE, np.int64), np.zeros(8, np.int64), np.zeros(8, np.int64)
    count = splitter.split_packets(memory.address, len(data), address(state), address(starts), address(ends), 0, 8)
    assert 0 <= count <= 8
    assert (starts[:count] >= 4).all()
    assert (ends[:count] <= len(data)).all()


def main() -> None:
    rng, found = random.Random(int(sys.argv[1])), Counter[str]()
    for _ in range(int(sys.argv[2])):
        arena.pa = _Buffers()
        bodies = _rows(rng)
        _split(bodies, rng)
        try:
            rows = _read(bodies)
            assert rows == 2 * len(bodies)
            found["rows"] += 1
        except SourceError as error:
            found[type(error).__name__] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main()

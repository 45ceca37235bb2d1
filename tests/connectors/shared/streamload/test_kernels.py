"""The kernels' cache folder, and the room that the encoder makes for them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numba import config
from together import together

from cdc.block import arrow_schema
from cdc.schema import Column, DataType, TableId, TableSchema
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable
from connectors.shared.streamload.dialect import DORIS
from connectors.shared.streamload.encode import DelimitedEncoder
from connectors.shared.streamload.kernels import kernel
from connectors.shared.streamload.kernels.rows import write_rows
from connectors.shared.streamload.warm import warm

ROWS = 300
LONGEST: list[tuple[str, TargetKind, Any]] = [
    ("BOOLEAN", TargetKind.BOOLEAN, True),
    ("TINYINT", TargetKind.TINYINT, -128),
    ("SMALLINT", TargetKind.SMALLINT, -(2**15)),
    ("INT", TargetKind.INT, -(2**31)),
    ("BIGINT", TargetKind.BIGINT, -(2**63)),
    ("TINYINT UNSIGNED", TargetKind.SMALLINT, 255),
    ("SMALLINT UNSIGNED", TargetKind.INT, 2**16 - 1),
    ("INT UNSIGNED", TargetKind.BIGINT, 2**32 - 1),
    ("BIGINT UNSIGNED", TargetKind.LARGEINT, 2**64 - 1),
    ("FLOAT", TargetKind.FLOAT, -1.17549435e-38),
    ("DOUBLE", TargetKind.DOUBLE, -2.2250738585072014e-308),
    ("DOUBLE", TargetKind.DOUBLE, -0.000012345678901234567),
    ("DECIMAL(38, 38)", TargetKind.DECIMAL, Decimal("-0." + "9" * 38)),
    ("DECIMAL(38, 1)", TargetKind.DECIMAL, Decimal("-" + "9" * 37 + ".9")),
    ("DATE", TargetKind.DATE, datetime.date(9999, 12, 31)),
    ("TIMESTAMP(6)", TargetKind.DATETIME, datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("TIME(6)", TargetKind.STRING, -datetime.timedelta(days=99_999_999, microseconds=1)),
    ("STRING", TargetKind.STRING, "ü" * 9),
    ("BYTES", TargetKind.STRING, b"\xff" * 9),
    ("VECTOR(9)", TargetKind.STRING, [-1.17549435e-38] * 9),
]


@together("kind, target, value", LONGEST)
def test_the_longest_text_of_every_type_has_room(kind: str, target: TargetKind, value: Any) -> None:
    schema = TableSchema((Column("c", DataType.parse(kind)),))
    for given, nullable, delete in product((value, None), (True, False), (0, 1)):
        column = TargetColumn("c", target, nullable=nullable)
        table = TargetTable(TableId("shop", "t"), (column,), ("c",) * (not delete))
        batch = pa.RecordBatch.from_arrays(
            [pa.array([given] * ROWS, arrow_schema(schema)[0].type)], schema=arrow_schema(schema)
        )
        text = DelimitedEncoder(schema, table, DORIS).encode(batch, np.full(ROWS, delete, np.uint8))
        assert isinstance(text.obj, np.ndarray)
        spare = text.obj.nbytes - len(text)
        assert spare >= 96, f"the last value may work after its text ({given}, {nullable}, {delete})"


def texts(column: pa.Array, kind: str) -> list[str]:
    """The texts of one column of numbers."""
    schema = TableSchema((Column("c", DataType.parse(kind)),))
    target = TargetTable(TableId("shop", "t"), (TargetColumn("c", TargetKind.DOUBLE),))
    encoder = DelimitedEncoder(schema, target, DORIS)
    text = encoder.encode(pa.RecordBatch.from_arrays([column], names=["c"]), np.zeros(len(column), np.uint8))
    return [line.partition("\x01")[2] for line in bytes(text).decode().split("\x02")[:-1]]


def test_many_floats_are_the_shortest_and_nearest_text() -> None:
    bits = np.random.default_rng(20261121).integers(0, 0x7F80_0000, 20_000).astype(np.uint32)
    powers = (np.arange(255, dtype=np.uint32) << 23)[:, None] + np.array([0, 1, 0x7F_FFFF], np.uint32)
    values = np.concatenate([bits, np.arange(1, 200, dtype=np.uint32), powers.ravel()]).view(np.float32)
    expected = [Decimal(np.format_float_scientific(value, unique=True)) for value in values]
    assert [Decimal(text) for text in texts(pa.array(values), "FLOAT")] == expected


def test_many_doubles_are_the_shortest_and_nearest_text() -> None:
    bits = np.random.default_rng(20261121).integers(0, 0x7FF0 << 48, 20_000).astype(np.uint64)
    powers = (np.arange(2047, dtype=np.uint64) << np.uint64(52))[:, None] + np.array([0, 1, (1 << 52) - 1], np.uint64)
    values = np.concatenate([bits, np.arange(1, 200, dtype=np.uint64), powers.ravel()]).view(np.float64)
    expected = [Decimal(repr(value)) for value in values.tolist()]
    assert [Decimal(text) for text in texts(pa.array(values), "DOUBLE")] == expected


def test_compiled_code_has_a_folder_of_its_own_and_the_setting_stays() -> None:
    before = config.CACHE_DIR

    @kernel.entry
    def twice(value: int) -> int:
        return 2 * value

    assert twice(4) == 8
    assert before == config.CACHE_DIR
    assert "load-" in write_rows.stats.cache_path  # type: ignore[attr-defined]


def test_warming_up_writes_a_row() -> None:
    assert warm() == len(b"1\x011\x01\\N\x02")

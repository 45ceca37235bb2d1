"""The kernels' cache folder, and the room that the encoder makes for them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import config

from cdc.block import arrow_schema
from cdc.schema import Column, DataType, TableId, TableSchema
from connectors.streamload.dialect import DORIS
from connectors.streamload.encode import DelimitedEncoder
from connectors.streamload.kernels import kernel
from connectors.streamload.kernels.rows import write_rows
from connectors.streamload.target import TargetColumn, TargetKind, TargetTable
from connectors.streamload.warm import warm

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


@pytest.mark.parametrize("delete", [0, 1])
@pytest.mark.parametrize(("kind", "target", "value"), LONGEST)
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("nullable", [True, False])
def test_the_longest_text_of_every_type_has_room(
    kind: str, target: TargetKind, value: Any, there: bool, nullable: bool, delete: int
) -> None:
    schema = TableSchema((Column("c", DataType.parse(kind)),))
    table = TargetTable(TableId("shop", "t"), (TargetColumn("c", target, nullable=nullable),), ("c",) * (not delete))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([value if there else None] * ROWS, arrow_schema(schema)[0].type)], schema=arrow_schema(schema)
    )
    text = DelimitedEncoder(schema, table, DORIS).encode(batch, np.full(ROWS, delete, np.uint8))
    assert isinstance(text.obj, np.ndarray)
    spare = text.obj.nbytes - len(text)
    assert spare >= 96, "the last value may work behind its text"


def test_compiled_code_has_a_folder_of_its_own_and_the_setting_stays() -> None:
    before = config.CACHE_DIR

    @kernel
    def twice(value: int) -> int:
        return 2 * value

    assert twice(4) == 8
    assert before == config.CACHE_DIR
    assert "load-" in write_rows.stats.cache_path  # type: ignore[attr-defined]


def test_warming_up_writes_a_row() -> None:
    assert warm() == len(b"1\x011\x01\\N\x02")

"""The bucket of a row is the one that Paimon's own library gives it, for every type that a key may have."""

from __future__ import annotations

import random
import string
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from together import together

from connectors.paimon.buckets import bucket_numbers, groups
from connectors.paimon.types import arrow_type

_ROWS = 300


def _text(chance: random.Random) -> str:
    return "".join(chance.choices(string.printable + "äß€\U0001f600", k=chance.randrange(0, 30)))


def _values(kind: str, chance: random.Random) -> list[Any]:
    makers = {
        "BOOLEAN": lambda: chance.random() < 0.5,
        "TINYINT": lambda: chance.randrange(-(2**7), 2**7),
        "SMALLINT": lambda: chance.randrange(-(2**15), 2**15),
        "INT": lambda: chance.randrange(-(2**31), 2**31),
        "BIGINT": lambda: chance.randrange(-(2**63), 2**63),
        "FLOAT": lambda: float(chance.randrange(-1000, 1000)) / 4,
        "DOUBLE": lambda: chance.uniform(-1e9, 1e9),
        "DATE": lambda: date(1000, 1, 1) + timedelta(days=chance.randrange(3_000_000)),
        "STRING": lambda: _text(chance),
        "BYTES": lambda: _text(chance).encode(),
        "DECIMAL(10, 2)": lambda: Decimal(chance.randrange(-(10**10), 10**10)).scaleb(-2),
        "DECIMAL(20, 0)": lambda: Decimal(chance.randrange(0, 2**64) >> chance.randrange(64)),
        "TIMESTAMP(6)": lambda: datetime(1000, 1, 1) + timedelta(microseconds=chance.randrange(10**17)),
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": lambda: datetime.fromtimestamp(chance.randrange(2**31), UTC),
    }
    return [makers[kind]() for _ in range(_ROWS)]


KINDS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "STRING", "BYTES", "DECIMAL(10, 2)",
    "DECIMAL(20, 0)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
)  # fmt: skip


@together("kinds", [*[(kind,) for kind in KINDS], ("STRING", "DECIMAL(20, 0)", "INT", "BYTES"), KINDS])
def test_buckets_are_those_of_the_library(kinds: tuple[str, ...]) -> None:
    from pypaimon.schema.schema import Schema
    from pypaimon.schema.table_schema import TableSchema
    from pypaimon.write.row_key_extractor import FixedBucketRowKeyExtractor

    chance = random.Random(7)
    names = [f"c{place}" for place in range(len(kinds))]
    schema = pa.schema(
        [pa.field(name, arrow_type(kind), nullable=False) for name, kind in zip(names, kinds, strict=True)]
    )
    arrays = [pa.array(_values(kind, chance), arrow_type(kind)) for kind in kinds]
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema).slice(3)
    made = Schema.from_pyarrow_schema(schema, primary_keys=names, options={"bucket": "7"})
    library = FixedBucketRowKeyExtractor(TableSchema.from_schema(0, made))
    assert bucket_numbers(rows, names, 7).tolist() == library._extract_buckets_batch(rows)


def test_rows_are_grouped_by_partition_and_bucket() -> None:
    rows = pa.record_batch([pa.array(["a", "b", "a", None]), pa.array([1, 2, 3, 4])], names=["day", "id"])
    found = {(group.partition, group.bucket): group.rows.to_pylist() for group in groups(rows, ["day"], [], -1)}
    assert found == {(("a",), 0): [0, 2], (("b",), 0): [1], ((None,), 0): [3]}

"""Speed of the way from decoded rows to load text on one core: last images, checks, encoding. No server is needed.

The rows are those of the workload's `orders` table. Run as a script it prints the figures; `encode` is the step for
`run.py`.
"""

from __future__ import annotations

import datetime
import json
import random
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import pyarrow as pa  # noqa: E402

from cdc.block import ChangeBlock, RowKind, arrow_schema  # noqa: E402
from cdc.schema import Column, DataType, TableId, TableSchema  # noqa: E402
from connectors.shared.conversion.fit import Fitter  # noqa: E402
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable  # noqa: E402
from connectors.shared.last_image.last_image import images  # noqa: E402
from connectors.shared.streamload.dialect import DORIS  # noqa: E402
from connectors.shared.streamload.encode import DelimitedEncoder  # noqa: E402

SEED = 20261121
ROWS = 100_000
_DAY = datetime.datetime(2025, 1, 1)
_WORDS = ("parcel", "gift", "fragile", "köln", "größe", "leave", "with", "the", "neighbour", "ring", "twice", "réveil")
_COLUMNS = (
    ("id", "BIGINT", "BIGINT", None, None), ("customer_id", "INT", "INT", None, None),
    ("reference", "VARCHAR(64)", "VARCHAR", 256, None), ("amount", "DECIMAL(12, 2)", "DECIMAL", 12, 2),
    ("created_at", "TIMESTAMP(3)", "DATETIME", 3, None), ("updated_at", "TIMESTAMP_LTZ(0)", "DATETIME", 0, None),
    ("is_paid", "TINYINT", "TINYINT", None, None), ("attrs", "JSON", "STRING", None, None),
    ("country", "CHAR(2)", "VARCHAR", 8, None), ("note", "STRING", "STRING", None, None),
    ("weight", "DOUBLE", "DOUBLE", None, None), ("ship_date", "DATE", "DATE", None, None),
)  # fmt: skip
SCHEMA = TableSchema(tuple(Column(name, DataType.parse(kind)) for name, kind, *_ in _COLUMNS), ("id",))
TARGET = TargetTable(
    TableId("bench", "orders"),
    tuple(
        TargetColumn(
            name, TargetKind(kind), length, scale, nullable=name in ("attrs", "ship_date"), is_key=name == "id"
        )
        for name, _, kind, length, scale in _COLUMNS
    ),
    ("id",),
)


def encode(rows: int = ROWS, repeat: int = 5) -> dict[str, Any]:
    """Rows per second of CPU time of each step and of all three, the best of `repeat`, and bytes of text per row."""
    block = _block(rows)
    fitter, encoder = Fitter(SCHEMA, TARGET, DORIS.limits), DelimitedEncoder(SCHEMA, TARGET, DORIS)
    best = dict.fromkeys(("last_image", "fit", "encode", "all"), float("inf"))
    size = 0
    for _ in range(repeat + 1):
        start = time.process_time()
        found = images(block, SCHEMA.primary_key)
        chosen = time.process_time()
        fitted = fitter.check(found)
        checked = time.process_time()
        size = len(encoder.for_rows(fitted.rows).encode(fitted.rows, fitted.delete))
        end = time.process_time()
        spent = {"last_image": chosen - start, "fit": checked - chosen, "encode": end - checked, "all": end - start}
        best = {name: min(best[name], spent[name]) for name in best}
    return {"rows": rows, "bytes_per_row": round(size / rows, 1)} | {
        f"{name}_rows_per_s": round(rows / seconds) for name, seconds in best.items()
    }


def _block(rows: int) -> ChangeBlock:
    choose = random.Random(SEED)
    return ChangeBlock(
        table=TARGET.table,
        schema=SCHEMA,
        rows=pa.RecordBatch.from_pylist([_order(choose, key) for key in range(1, rows + 1)], arrow_schema(SCHEMA)),
        kinds=pa.array([int(RowKind.INSERT)] * rows, pa.uint8()),
        sequence=pa.array(range(1, rows + 1), pa.int64()),
        row=pa.array([0] * rows, pa.int32()),
        timestamps_ms=pa.array([0] * rows, pa.int64()),
    )


def _order(choose: random.Random, key: int) -> dict[str, Any]:
    made = _DAY + datetime.timedelta(milliseconds=choose.randrange(365 * 86_400_000))
    changed = made.replace(microsecond=0) + datetime.timedelta(seconds=choose.randrange(10 * 86_400))
    attributes = {"sku": f"A-{choose.randrange(100_000)}", "pieces": 3, "tags": ["new", "lot1"], "price": 12.25}
    return {
        "id": key, "customer_id": choose.randrange(1, 500_000), "amount": Decimal(choose.randrange(500_000)).scaleb(-2),
        "reference": f"ORD-{made:%Y%m%d}-{choose.getrandbits(32):08x}", "created_at": made, "country": "DE",
        "updated_at": changed.replace(tzinfo=datetime.UTC), "is_paid": int(choose.random() < 0.7),
        "attrs": json.dumps(attributes) if choose.random() < 0.1 else None, "weight": choose.random() * 50,
        "note": " ".join(choose.choice(_WORDS) for _ in range(10)),
        "ship_date": None if choose.random() < 0.2 else made.date(),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(encode(), indent=1))

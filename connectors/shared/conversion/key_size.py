"""Bytes of an encoded primary key, as StarRocks counts them against its limit of 128.

Numbers take their own width. Text takes its bytes; where more columns follow, a zero byte in it takes two and its end
takes two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.conversion.convert import plain_text
from connectors.shared.conversion.plan import ColumnPlan, text_bytes
from connectors.shared.conversion.target import TargetKind
from connectors.shared.kernels.buffers import string_offsets

_WIDTHS = {
    TargetKind.BOOLEAN: 1, TargetKind.TINYINT: 1, TargetKind.SMALLINT: 2, TargetKind.INT: 4, TargetKind.BIGINT: 8,
    TargetKind.LARGEINT: 16, TargetKind.FLOAT: 4, TargetKind.DOUBLE: 8, TargetKind.DECIMAL: 16, TargetKind.DATE: 4,
    TargetKind.DATETIME: 8,
}  # fmt: skip


def long_keys(plans: Sequence[ColumnPlan], arrays: Sequence[pa.Array], limit: int) -> np.ndarray | None:
    """bool[n] keys of more than `limit` bytes, None when there are none. `arrays`: the key columns in key order."""
    sizes = _sizes(plans, arrays, exact=False)
    if len(sizes) == 0 or sizes.max() <= limit:
        return None
    sizes = _sizes(plans, arrays, exact=True)
    return np.asarray(sizes > limit, bool) if sizes.max() > limit else None


def _sizes(plans: Sequence[ColumnPlan], arrays: Sequence[pa.Array], *, exact: bool) -> np.ndarray:
    """int64[n]; not exact: with the longest text of values that are sent as text but are no strings."""
    total = np.zeros(len(arrays[0]), np.int64)
    for at, (plan, array) in enumerate(zip(plans, arrays, strict=True)):
        width = _WIDTHS.get(plan.target.kind)
        if width is not None:
            total += width
            continue
        if at < len(plans) - 1:
            total += 2
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            total += np.diff(string_offsets(array))
            if at < len(plans) - 1:
                total += _zero_bytes(array)
        elif exact:
            total += [
                len(plain_text(value, plan.source.type)) if value is not None else 0 for value in array.to_pylist()
            ]
        else:
            total += text_bytes(plan.source.type) or 0
    return total


def _zero_bytes(array: pa.Array) -> np.ndarray:
    counts = pc.count_substring(array.view(pa.binary()), b"\0").fill_null(0)
    return np.asarray(counts.to_numpy(zero_copy_only=False), np.int64)

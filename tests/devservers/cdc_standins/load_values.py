"""Fields of a load to values of a column: all at once, and row by row where something is no value.

Values are read as our sinks write them. Another spelling that a server reads too, such as 20240229 for a date, is no
value here, and neither is one that it would round.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_standins.load_text import Field

INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "LARGEINT": 128}
TEXTS = ("CHAR", "VARCHAR", "STRING")
_PATTERNS = {
    **dict.fromkeys(INTEGER_BITS, "^-?[0-9]{1,39}$"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"),
    "DECIMAL": r"^-?[0-9]+(\.[0-9]+)?$",
    "DATE": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "DATETIME": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?$",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's type as far as values are concerned.

    Attributes:
        longest: bytes of a text or of bytes.
        precision, scale: digits of a DECIMAL; `scale` of a DATETIME, too.
        compact_json: documents are stored without white space.
    """

    name: str
    arrow: pa.DataType
    longest: int = 0
    precision: int = 0
    scale: int = 0
    compact_json: bool = False


def convert(fields: Sequence[Field], kind: Kind) -> tuple[pa.Array, list[int]]:
    """The fields (None is NULL) as a column of `kind.arrow`, and the rows of those that are no value (NULL there)."""
    try:
        return _values(fields, kind), []
    except ValueError:  # Arrow's errors are some
        pass
    parts, wrong = [], []
    for row, field in enumerate(fields):
        try:
            parts.append(_values([field], kind))
        except ValueError:
            parts.append(pa.nulls(1, kind.arrow))
            wrong.append(row)
    return pa.concat_arrays(parts), wrong


def _values(fields: Sequence[Field], kind: Kind) -> pa.Array:
    """The column. Raises ValueError when one of the fields is no value."""
    column = pa.array(fields, pa.binary())
    name = kind.name
    if name in TEXTS or name == "VARBINARY":
        _need((pc.max(pc.binary_length(column)).as_py() or 0) <= kind.longest)
        return column.cast(kind.arrow)
    texts = column.cast(pa.string())
    if name in _PATTERNS:
        _need(pc.all(pc.match_substring_regex(texts, _PATTERNS[name]), min_count=0).as_py())
    if name == "LARGEINT":
        _need(all(-(1 << 127) <= int(one) < 1 << 127 for one in texts.to_pylist() if one is not None))
        return texts.cast(kind.arrow)
    if name in INTEGER_BITS:
        return texts.cast(pa.int64()).cast(kind.arrow)
    if name in ("FLOAT", "DOUBLE"):
        numbers = texts.cast(pa.float64()).cast(kind.arrow)
        _need(pc.all(pc.is_finite(numbers), min_count=0).as_py())
        return numbers
    if name == "DECIMAL":
        return pa.array([None if one is None else _decimal(one, kind) for one in texts.to_pylist()], kind.arrow)
    if name == "DATETIME":
        moments = texts.cast(kind.arrow)
        _need(not np.any(moments.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) % 10 ** (6 - kind.scale)))
        return moments
    if name == "JSON":
        return pa.array([None if one is None else _json(one, kind) for one in texts.to_pylist()], kind.arrow)
    return texts.cast(kind.arrow)  # DATE, BOOLEAN


def _need(fits: bool) -> None:
    if not fits:
        raise ValueError


def _decimal(text: str, kind: Kind) -> Decimal:
    value = Decimal(text)
    digits = len(text.partition(".")[2].rstrip("0"))
    _need(digits <= kind.scale and value.copy_abs() < 10 ** (kind.precision - kind.scale))
    return value


def _json(text: str, kind: Kind) -> str:
    document = json.loads(text, parse_constant=_no_constant)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) if kind.compact_json else text


def _no_constant(name: str) -> Any:
    raise ValueError(name)

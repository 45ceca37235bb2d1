"""Fields of a load to values of a column: the whole column at once when all is plain, one by one where it is not."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_standins.doris.types import INTEGERS, LONGEST_STRING, TEXTS, DorisType
from cdc_standins.load_text import Field

_PLAIN_INTEGER = r"^-?[0-9]{1,18}$"
_PLAIN_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_PLAIN_DATETIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_PLAIN_FLOAT = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_MOMENT = re.compile(
    rb"\s*(\d{4})-?(\d{2})-?(\d{2})(?:[ T]?(\d{2}):?(\d{2}):?(\d{2})(?:\.(\d+))?)?\s*(Z|[+-]\d{2}:?\d{2})?\s*"
)
_INTEGER = re.compile(rb"\s*([+-]?\d+)\s*")
_FLOAT = re.compile(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(inf|infinity|nan)\s*", re.IGNORECASE)
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


class Invalid(ValueError):
    """A field is no value of the column's type."""


class TooLong(ValueError):
    """A text is longer than its column; `length` in bytes."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


def convert(fields: Sequence[Field], kind: DorisType) -> tuple[pa.Array, dict[int, Exception]]:
    """The fields as a column of `kind.arrow`; by row number why one is no value (it is NULL in the column)."""
    try:
        quick = _quick(pa.array(fields, pa.binary()), kind)
    except pa.ArrowInvalid:
        quick = None
    if quick is not None:
        return quick, {}
    return _one_by_one(fields, kind)


def _quick(column: pa.Array, kind: DorisType) -> pa.Array | None:
    """The column at once; None or ArrowInvalid when something in it is not plain."""
    name = kind.kind
    if name in TEXTS or name == "VARBINARY":
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        return column.cast(kind.arrow) if longest <= (kind.length or LONGEST_STRING) else None
    if name in INTEGERS:
        plain = _plain(column, _PLAIN_INTEGER)
        return None if plain is None else plain.cast(pa.int64()).cast(kind.arrow)
    if name == "DECIMAL":
        return _decimals(column, kind)
    if name == "DATE":
        plain = _plain(column, _PLAIN_DATE)
        return None if plain is None else plain.cast(pa.date32())
    if name == "DATETIME":
        plain = _plain(column, _PLAIN_DATETIME)
        return None if plain is None else _rounded(plain.cast(pa.timestamp("us")), kind.scale)
    if name in ("FLOAT", "DOUBLE"):
        plain = _plain(column, _PLAIN_FLOAT)
        return None if plain is None else _finite(plain.cast(kind.arrow))
    return None


def _plain(column: pa.Array, pattern: str) -> pa.Array | None:
    matches = pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py()
    return column.cast(pa.string()) if matches else None


def _decimals(column: pa.Array, kind: DorisType) -> pa.Array | None:
    plain = _plain(column, _PLAIN_DECIMAL)
    if plain is None or kind.length + 3 <= (pc.max(pc.binary_length(plain)).as_py() or 0):
        return None
    return plain.cast(kind.arrow)  # raises when digits would be lost


def _rounded(moments: pa.Array, scale: int) -> pa.Array | None:
    unit = 10 ** (6 - scale)
    numbers = moments.cast(pa.int64())
    if unit == 1:
        return moments
    values = numbers.to_numpy(zero_copy_only=False) if numbers.null_count == 0 else None
    return moments if values is not None and not np.any(values % unit) else None


def _finite(numbers: pa.Array) -> pa.Array | None:
    return numbers if pc.all(pc.is_finite(numbers), min_count=0).as_py() else None


def _one_by_one(fields: Sequence[Field], kind: DorisType) -> tuple[pa.Array, dict[int, Exception]]:
    read = _READERS[kind.kind]
    values: list[Any] = []
    wrong: dict[int, Exception] = {}
    for row, field in enumerate(fields):
        value = None
        if field is not None:
            try:
                value = read(field, kind)
            except (Invalid, TooLong) as error:
                wrong[row] = error
        values.append(value)
    return pa.array(values, kind.arrow), wrong


def _integer(field: bytes, kind: DorisType) -> Any:
    match = _INTEGER.fullmatch(field)
    if match is None:
        raise Invalid
    number = int(match.group(1))
    limit = 1 << (INTEGERS[kind.kind] - 1)
    if not -limit <= number < limit:
        raise Invalid
    return str(number) if kind.kind == "LARGEINT" else number


def _boolean(field: bytes, kind: DorisType) -> bool:
    known = {b"1": True, b"true": True, b"0": False, b"false": False}
    value = known.get(field.strip().lower())
    if value is None:
        raise Invalid
    return value


def _float(field: bytes, kind: DorisType) -> float:
    if not _FLOAT.fullmatch(field):
        raise Invalid
    value = float(field)
    with np.errstate(over="ignore"):
        stored = float(np.float32(value)) if kind.kind == "FLOAT" else value
    if np.isinf(stored) and b"inf" not in field.lower():
        raise Invalid
    return stored


def _decimal(field: bytes, kind: DorisType) -> Decimal:
    if not _FLOAT.fullmatch(field):
        raise Invalid
    with localcontext() as context:
        context.prec = 100
        try:
            value = Decimal(field.decode().strip()).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
        except InvalidOperation as error:
            raise Invalid from error
        if not value.is_finite() or abs(value) >= Decimal(10) ** (kind.length - kind.scale):
            raise Invalid
    return value


def _moment(field: bytes, scale: int) -> int:
    """Microseconds since 1970 of a date and time, rounded to `scale` digits."""
    match = _MOMENT.fullmatch(field)
    if match is None:
        raise Invalid
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    shift = 0 if int(year) else 400  # Python has no year 0, and the calendar repeats after 400 years
    try:
        moment = dt.datetime(
            int(year) + shift, int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError as error:
        raise Invalid from error
    micros = (moment - _EPOCH) // _MICROSECOND - shift // 400 * 146097 * 86_400_000_000
    digits = (fraction or b"").decode()
    step = 10 ** (6 - scale)
    exact = Decimal(f"0.{digits or 0}") * 1_000_000 / step
    micros += int(exact.to_integral_value(ROUND_HALF_UP)) * step
    if offset and offset != b"Z":
        minutes = int(offset[1:3]) * 60 + int(offset[-2:])
        micros -= (minutes if offset[:1] == b"+" else -minutes) * 60_000_000
    if micros > 253_402_300_799_999_999:
        raise Invalid
    return int(micros)


def _date(field: bytes, kind: DorisType) -> int:
    return _moment(field, 6) // 86_400_000_000


def _datetime(field: bytes, kind: DorisType) -> int:
    return _moment(field, kind.scale)


def _text(field: bytes, kind: DorisType) -> str:
    text = _utf8(field)
    if len(field) > (kind.length or LONGEST_STRING):
        raise TooLong(len(field))
    return text


def _bytes(field: bytes, kind: DorisType) -> bytes:
    if len(field) > kind.length:
        raise TooLong(len(field))
    return field


def _json(field: bytes, kind: DorisType) -> str:
    try:
        document = _JSON_DECODER.decode(_utf8(field))
    except ValueError as error:
        raise Invalid from error
    return _JSON_ENCODER.encode(document)


def _no_constant(name: str) -> None:
    raise ValueError(name)


_JSON_DECODER = json.JSONDecoder(parse_constant=_no_constant)
_JSON_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _utf8(field: bytes) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError as error:
        raise Invalid from error


_READERS: dict[str, Callable[[bytes, DorisType], Any]] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(TEXTS, _text),
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "DOUBLE": _float,
    "DECIMAL": _decimal,
    "DATE": _date,
    "DATETIME": _datetime,
    "JSON": _json,
    "VARBINARY": _bytes,
}

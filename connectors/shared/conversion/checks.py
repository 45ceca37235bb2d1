"""Checks of a whole column against the sink's column: cheap when every value fits, exact when one does not.

A check takes an Arrow array and returns None, or bool[n] with the values that do not fit. It may also shorten such
values to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.types.kinds import EXACT
from connectors.shared.conversion.plan import TEXT, WHOLE, ColumnPlan
from connectors.shared.conversion.policy import Reason
from connectors.shared.conversion.target import TargetKind
from connectors.shared.kernels.buffers import too_long, well_formed

_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896
"""0000-01-01 and 9999-12-31 in days since 1970."""
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """One check.

    `shorten` returns the column with the rejected values (bool[n]) cut to fit; None when that is impossible.
    """

    reason: Reason
    rejected: Callable[[pa.Array], np.ndarray | None]
    shorten: Callable[[pa.Array, np.ndarray], pa.Array] | None = None


def checks(plan: ColumnPlan, limits: FieldLimits) -> tuple[ValueCheck, ...]:
    """Return the checks that a column needs, in order."""
    kind = plan.arrow
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _string_checks(plan, limits)
    found: list[ValueCheck] = []
    if pa.types.is_floating(kind) or pa.types.is_list(kind):
        found.append(ValueCheck(Reason.NOT_FINITE, _not_finite))
    if plan.target.kind is TargetKind.DECIMAL or plan.target.kind in WHOLE or plan.target.kind is TargetKind.BOOLEAN:
        found.extend(_number_checks(plan))
    if pa.types.is_date32(kind):
        found.append(_range(_FIRST_DAY, _LAST_DAY, pa.int32()))
    if pa.types.is_timestamp(kind):
        found.append(_range(_FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1, pa.int64()))
        found.extend(_fraction_check(plan))
    return tuple(found)


def nulls(array: pa.Array) -> np.ndarray | None:
    """Return bool[n], true for NULL; None when there is none."""
    return _flags(array.is_null()) if array.null_count else None


def _flags(mask: pa.Array) -> np.ndarray:
    return np.asarray(mask.to_numpy(zero_copy_only=False), bool)


def _string_checks(plan: ColumnPlan, field: FieldLimits) -> tuple[ValueCheck, ...]:
    kind, target, field_bytes = plan.arrow, plan.target, field.field_bytes
    is_text = pa.types.is_string(kind)
    if target.kind not in TEXT and target.kind not in (TargetKind.JSON, TargetKind.VARBINARY):
        return ()
    found = []
    if is_text and target.kind is not TargetKind.VARBINARY:
        found.append(ValueCheck(Reason.INVALID_UTF8, _invalid_utf8))
    in_hex = not is_text or target.kind is TargetKind.VARBINARY
    length = target.length
    if length is not None and field.keeps_digits and not is_text and target.kind is not TargetKind.VARBINARY:
        length //= 2
    limits = [limit for limit in (length, field_bytes // 2 if field_bytes and in_hex else field_bytes) if limit]
    if limits:
        limit = min(limits)
        shorten = None if target.kind is TargetKind.JSON else lambda array, bad: _truncate_values(array, bad, limit)
        found.append(ValueCheck(Reason.TOO_LONG, lambda array: too_long(array, limit), shorten))
    if field_bytes and not in_hex:
        half = field_bytes // 2
        shorten = None if target.kind is TargetKind.JSON else lambda array, bad: _truncate_values(array, bad, half)
        found.append(ValueCheck(Reason.TOO_LONG, lambda array: _too_long_in_hex(array, half, field), shorten))
    return tuple(found)


def _invalid_utf8(array: pa.Array) -> np.ndarray | None:
    if well_formed(array):
        return None
    return np.array([value is not None and not _is_text(value) for value in _bytes(array)], bool)


def _bytes(array: pa.Array) -> list[bytes | None]:
    """Return values of a string array, which may be invalid text, as bytes."""
    return list(array.view(pa.binary()).to_pylist())


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _too_long_in_hex(array: pa.Array, limit: int, field: FieldLimits) -> np.ndarray | None:
    """Find text that becomes too long because another value forces the column into hex digits."""
    long = too_long(array, limit)
    return long if long is not None and field.sent_as_hex(array) else None


def _truncate_values(array: pa.Array, bad: np.ndarray, limit: int) -> pa.Array:
    """Cut values to `limit` bytes, text at the last character boundary before that."""
    is_text = pa.types.is_string(array.type)
    values: list[Any] = _bytes(array) if is_text else array.to_pylist()
    for at in np.flatnonzero(bad).tolist():
        end = limit
        while is_text and end > 0 and values[at][end] & 0xC0 == 0x80:
            end -= 1
        values[at] = values[at][:end]
    return pa.array(values, pa.binary()).view(array.type)


def _not_finite(array: pa.Array) -> np.ndarray | None:
    if pa.types.is_list(array.type):
        if pc.all(pc.is_finite(array.flatten())).as_py() is not False:
            return None
        return np.array([value is not None and not np.isfinite(value).all() for value in array.to_pylist()], bool)
    finite = pc.is_finite(array)
    if pc.all(finite).as_py() is not False:
        return None
    return _flags(pc.invert(finite).fill_null(False))


def _range(low: int, high: int, view: pa.DataType | None = None) -> ValueCheck:
    """Check for whole numbers outside low..high. view: integer type for dates and timestamps."""

    def rejected(array: pa.Array) -> np.ndarray | None:
        numbers = array.view(view) if view is not None else array
        ends = pc.min_max(numbers)
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is None or (least >= low and most <= high):
            return None
        return np.array([value is not None and not low <= value <= high for value in numbers.to_pylist()], bool)

    return ValueCheck(Reason.OUT_OF_RANGE, rejected)


def _number_checks(plan: ColumnPlan) -> tuple[ValueCheck, ...]:
    kind, target = plan.arrow, plan.target
    if target.kind is TargetKind.DECIMAL:
        room, scale = (target.length or 10) - (target.scale or 0), target.scale or 0
        if pa.types.is_decimal(kind):
            return _decimal_checks(kind, room, scale)
        low, high = -(10**room) + 1, 10**room - 1
    elif target.kind is TargetKind.BOOLEAN:
        low, high = 0, 1
    else:
        low, high = -(1 << WHOLE[target.kind]), (1 << WHOLE[target.kind]) - 1
    if pa.types.is_boolean(kind):
        return () if high >= 1 else (ValueCheck(Reason.OUT_OF_RANGE, _truths),)
    least, most = _ends(kind)
    return () if least >= low and most <= high else (_range(low, high),)


def _truths(array: pa.Array) -> np.ndarray | None:
    """Find true values: a DECIMAL(n, n) cannot hold 1."""
    found = _flags(array.fill_null(False))
    return found if found.any() else None


def _ends(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(kind):
        return 0, (1 << kind.bit_width) - 1
    return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1


def _decimal_checks(kind: Any, room: int, scale: int) -> tuple[ValueCheck, ...]:
    found = []
    if kind.scale > scale:
        unit = Decimal(1).scaleb(-scale)

        def lossy(array: pa.Array) -> np.ndarray | None:
            values = [value is not None and value != _chopped(value, unit) for value in array.to_pylist()]
            flags = np.array(values, bool)
            return flags if flags.any() else None

        found.append(ValueCheck(Reason.DIGITS_LOST, lossy, lambda array, bad: _chop(array, bad, unit)))
    if kind.precision - kind.scale > room:
        limit = Decimal(10) ** room

        def large(array: pa.Array) -> np.ndarray | None:
            ends = pc.min_max(array)
            least, most = ends["min"].as_py(), ends["max"].as_py()
            if least is None or (least > -limit and most < limit):
                return None
            return np.array([value is not None and value.copy_abs() >= limit for value in array.to_pylist()], bool)

        found.append(ValueCheck(Reason.OUT_OF_RANGE, large))
    return tuple(found)


def _chopped(value: Decimal, unit: Decimal) -> Decimal:
    return value.quantize(unit, ROUND_DOWN, EXACT)


def _chop(array: pa.Array, bad: np.ndarray, unit: Decimal) -> pa.Array:
    values = array.to_pylist()
    for at in np.flatnonzero(bad).tolist():
        values[at] = _chopped(values[at], unit)
    return pa.array(values, array.type)


def _fraction_check(plan: ColumnPlan) -> tuple[ValueCheck, ...]:
    """Check for fractional digits that the sink's DATETIME would round away."""
    source, target = plan.source.type.length, plan.target.length
    if plan.target.kind is not TargetKind.DATETIME or target is None or (source is not None and source <= target):
        return ()
    unit = 10 ** (6 - target)

    def lossy(array: pa.Array) -> np.ndarray | None:
        rest = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) % unit
        return np.asarray(rest != 0, bool) if rest.any() else None

    def chop(array: pa.Array, bad: np.ndarray) -> pa.Array:
        numbers = array.view(pa.int64())
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        mask = _flags(array.is_null())
        return pa.array(values - values % unit, pa.int64(), mask=mask).view(array.type)

    return (ValueCheck(Reason.DIGITS_LOST, lossy, chop),)


def _never(_: pa.Array) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class FieldLimits:
    """One sink's limits besides those of its columns, from changes that it makes to fields. The default has none.

    Attributes:
        field_bytes: the longest field that the server reads, None without limit.
        keeps_digits: whether bytes in a character column are stored as hex digits, twice their length.
        sent_as_hex: whether this text column is sent as hex digits, which are twice as long.
    """

    field_bytes: int | None = None
    keeps_digits: bool = False
    sent_as_hex: Callable[[pa.Array], bool] = _never

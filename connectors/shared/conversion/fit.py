"""Finds every value that the sink's columns would refuse, change or turn into NULL, before anything is sent.

Depending on their settings, the servers respond to such a value with NULL, a shortened text, or a failed load that
names a line of a request no longer available. Here the error names the table, the column, the key and the log position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.dead_letters import DeadLetter, Rejected, cell
from cdc.errors import SinkError
from cdc.schema import Kind, TableSchema
from cdc.types.casts import is_second_of_two
from connectors.shared.conversion.checks import FieldLimits, ValueCheck, checks, nulls
from connectors.shared.conversion.convert import converter, plain_text
from connectors.shared.conversion.plan import ColumnPlan, plan_columns, text_bytes
from connectors.shared.conversion.policy import Reason, RejectedValue, RejectedValuePolicy, counter_name
from connectors.shared.conversion.target import TargetKind, TargetTable
from connectors.shared.kernels.buffers import string_offsets, too_long
from connectors.shared.last_image.last_image import LastImages

_NULLS = ValueCheck(Reason.IS_NULL, nulls)
_WIDTHS = {
    TargetKind.BOOLEAN: 1, TargetKind.TINYINT: 1, TargetKind.SMALLINT: 2, TargetKind.INT: 4, TargetKind.BIGINT: 8,
    TargetKind.LARGEINT: 16, TargetKind.FLOAT: 4, TargetKind.DOUBLE: 8, TargetKind.DECIMAL: 16, TargetKind.DATE: 4,
    TargetKind.DATETIME: 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Rows that the sink's table holds unchanged.

    Attributes:
        rows: record batch of m rows for the encoder: columns of unrelated kinds are converted to text.
        delete: uint8[m].
        dead_letters: skipped rows, under the policy `dead-letter`.
        counts: changed values and skipped rows, by `counter_name`.
    """

    rows: pa.RecordBatch
    delete: np.ndarray
    dead_letters: tuple[DeadLetter, ...]
    counts: Mapping[str, int]


class Fitter:
    """Checks the rows of one table at one schema against the sink's table. Executor; built once per load.

    `policy` and `max_key_bytes` are as given.
    """

    def __init__(
        self,
        schema: TableSchema,
        target: TargetTable,
        limits: FieldLimits,
        policy: RejectedValuePolicy = RejectedValuePolicy.FAIL,
        *,
        time_zone: str = "UTC",
        max_key_bytes: int | None = None,
    ) -> None:
        """Plan the checks.

        Args:
            schema: the source's table.
            target: the sink's table as it is.
            limits: those of the transfer to the sink.
            policy: treatment of a value that does not fit.
            time_zone: the zone, in Arrow's spelling, whose wall clock a TIMESTAMP is written in; its value is an
                instant. In a zone with summer time two instants a year have the same clock, so in a key only UTC
                distinguishes them.
            max_key_bytes: the longest encoded key that the server accepts, None without limit.

        Raises:
            SinkError: the sink's table lacks a column.
        """
        self._table, self._limits, self.policy = target.table, limits, policy
        self._upserts = target.upserts
        self._zone = None if time_zone == "UTC" else time_zone
        self.max_key_bytes = max_key_bytes
        plans = plan_columns(schema, target)
        kept = {*target.keys, *target.kept_in_deletes} if target.upserts else {column.name for column in target.columns}
        self._columns = tuple(
            _Column(plan, plan.target.name in kept, tuple(_planned(plan, limits)), converter(plan)) for plan in plans
        )
        by_name = {column.plan.target.name: column for column in self._columns}
        self._keys = tuple(by_name[name] for name in target.keys if name in by_name)
        self._key_names = tuple(column.plan.source.name for column in self._keys)
        absent = [name for name in target.keys if name not in by_name]
        if absent:
            raise SinkError(
                f"the source has no column for key column {', '.join(absent)} of the sink's table",
                where=str(target.table),
                hint="key columns of the sink's table have to be columns of the source",
            )

    def check(self, images: LastImages) -> Fitted:
        """Check rows. Values of deleted rows matter only in columns that a delete carries.

        Raises:
            SinkError: a value does not fit and the policy is `fail`, or does not apply to it.
        """
        found = _Findings(self, images)
        arrays = [found.column(column, array) for column, array in zip(self._columns, images.rows.columns, strict=True)]
        found.key_sizes(self._keys, [arrays[self._columns.index(column)] for column in self._keys])
        rows = pa.RecordBatch.from_arrays(arrays, names=images.rows.schema.names)
        dead_letters = found.dead_letters(self._key_names)
        if not found.left_out:
            return Fitted(rows, images.delete, (), found.counts)
        keep = np.ones(len(images.delete), bool)
        keep[list(found.left_out)] = False
        return Fitted(rows.filter(pa.array(keep)), images.delete[keep], dead_letters, found.counts)

    def adapted(self, column: _Column, array: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
        """Convert instants to the wall clock of the sink's zone."""
        if self._zone is None or column.plan.source.type.kind is not Kind.TIMESTAMP_LTZ:
            return array, None
        instants = array.cast(pa.timestamp("us", tz=self._zone))
        clocks = pc.local_timestamp(instants)
        is_key = self._upserts and column.plan.target.is_key
        return clocks, is_second_of_two(instants, clocks) if is_key else None

    def without_deleted(self, column: _Column, array: pa.Array, live: np.ndarray | None) -> pa.Array:
        """Drop unsent values of deleted rows if one of them is longer than a field may be."""
        limit = self._limits.field_bytes
        if live is None or column.in_deletes or limit is None or not _is_string(array.type):
            return array
        return array if too_long(array, limit // 2) is None else _without(array, ~live)

    def place(self, column: _Column) -> str:
        """Format table and column."""
        return f"{self._table}.{column.plan.target.name}"

    def refuse(self, column: _Column, reason: Reason, images: LastImages, row: int) -> SinkError:
        """Return the error for one value."""
        keys = {name: cell(images.rows, name, row) for name in self._key_names}
        key = ", ".join(f"{name}={value!r}" for name, value in keys.items()) or "no key"
        position = images.position_text(int(images.sequence[row]))
        at = f" at {position}" if position else ""
        applies = "" if self.policy is RejectedValuePolicy.FAIL else f"; '{self.policy}' does not apply to it"
        return SinkError(
            f"a value does not fit: {_sentence(column, reason, images.rows.slice(row, 1), self.max_key_bytes)}",
            where=f"{self.place(column)}, row {key}{at}",
            hint="widen the sink's column, correct the source, or set sink.invalid-values to null, truncate or "
            f"dead-letter{applies}",
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """A column's plan, whether deletes carry it, its checks, and the converter for unrelated kinds."""

    plan: ColumnPlan
    in_deletes: bool
    checks: tuple[ValueCheck, ...]
    convert: Callable[[Any], str]


def _planned(plan: ColumnPlan, limits: FieldLimits) -> list[ValueCheck]:
    needed = [] if plan.target.nullable else [_NULLS]
    return [*needed, *checks(plan, limits)]


class _Findings:
    """One call of `Fitter.check`: applies the policy to rejected values as they are found."""

    def __init__(self, fitter: Fitter, images: LastImages) -> None:
        self._fitter, self._images = fitter, images
        self._live = images.delete == 0 if images.delete.any() else None
        self.counts: Counter[str] = Counter()
        self.left_out: dict[int, list[tuple[_Column, Reason]]] = {}

    def column(self, column: _Column, array: pa.Array) -> pa.Array:
        """Return the column in the form to send."""
        array, same_clock = self._fitter.adapted(column, array)
        if same_clock is not None:
            array = self._apply(column, ValueCheck(Reason.SAME_CLOCK, nulls), array, same_clock)
        if column.plan.converted:
            array = self._converted(column, array)
        for check in column.checks:
            rejected = check.rejected(array)
            if rejected is not None:
                array = self._apply(column, check, array, self._relevant_rejections(column, rejected))
        return self._fitter.without_deleted(column, array, self._live)

    def key_sizes(self, keys: tuple[_Column, ...], arrays: list[pa.Array]) -> None:
        """Find keys that the server would refuse for their length."""
        limit = self._fitter.max_key_bytes
        if limit is not None and keys:
            long = long_keys([column.plan for column in keys], arrays, limit)
            if long is not None:
                self._apply(keys[0], ValueCheck(Reason.KEY_TOO_LONG, nulls), arrays[0], long)

    def dead_letters(self, key_names: tuple[str, ...]) -> tuple[DeadLetter, ...]:
        """Return one dead letter per rejected row, in order."""
        made = []
        for row, found in sorted(self.left_out.items()):
            values = {name: cell(self._images.rows, name, row) for name in self._images.rows.schema.names}
            made.append(
                DeadLetter(
                    table=str(self._images.table),
                    position=self._images.position_text(int(self._images.sequence[row])),
                    operation="delete" if self._images.delete[row] else "upsert",
                    key={name: values[name] for name in key_names},
                    rejected=tuple(Rejected(c.plan.target.name, str(c.plan.target), reason) for c, reason in found),
                    row=values,
                )
            )
        return tuple(made)

    def _relevant_rejections(self, column: _Column, rejected: np.ndarray) -> np.ndarray:
        """Return the rejections that matter: not in a deleted row's value columns, and one per value."""
        if self._live is not None and not column.in_deletes:
            rejected = rejected & self._live
        known = [row for row, found in self.left_out.items() if any(one is column for one, _ in found)]
        if known:
            rejected = rejected.copy()
            rejected[known] = False
        return rejected

    def _apply(self, column: _Column, check: ValueCheck, array: pa.Array, rejected: np.ndarray) -> pa.Array:
        """Apply the policy to the rejected values of one check; returns the column without them."""
        if not rejected.any():
            return array
        policy, reason = self._fitter.policy, check.reason
        rows = np.flatnonzero(rejected).tolist()
        target = column.plan.target
        if policy is RejectedValuePolicy.DEAD_LETTER:
            self._reject(column, reason, rows)
            return _without(array, rejected)
        if (
            policy is RejectedValuePolicy.NULL
            and target.nullable
            and not target.is_key
            and reason is not Reason.KEY_TOO_LONG
        ):
            self.counts[counter_name(reason, policy, self._fitter.place(column))] += len(rows)
            return _without(array, rejected)
        if policy is RejectedValuePolicy.TRUNCATE and check.shorten is not None and not target.is_key:
            self.counts[counter_name(reason, policy, self._fitter.place(column))] += len(rows)
            return check.shorten(array, rejected)
        raise self._fitter.refuse(column, reason, self._images, rows[0])

    def _reject(self, column: _Column, reason: Reason, rows: list[int]) -> None:
        self.counts[counter_name(reason, RejectedValuePolicy.DEAD_LETTER, self._fitter.place(column))] += len(rows)
        for row in rows:
            self.left_out.setdefault(row, []).append((column, reason))

    def _converted(self, column: _Column, array: pa.Array) -> pa.Array:
        """Convert every value to text; NULL in deleted rows that do not carry the column."""
        texts: list[str | None] = []
        bad: dict[Reason, dict[int, str | None]] = {}
        skip = None if column.in_deletes else self._live
        for row in range(len(array)):
            text = None
            if (skip is None or skip[row]) and array[row].is_valid:
                try:
                    text = column.convert(array[row].as_py())
                except RejectedValue as refused:
                    bad.setdefault(refused.reason, {})[row] = refused.shortened
                except (ValueError, OverflowError):
                    # Python has no such date: before the year 1, or not in the calendar.
                    bad.setdefault(Reason.OUT_OF_RANGE, {})[row] = None
            texts.append(text)
        made = pa.array(texts, pa.string())
        for reason, rows in bad.items():
            mask = np.zeros(len(array), bool)
            mask[list(rows)] = True
            made = self._apply(column, _shortened(reason, rows), made, mask)
        return made


def _shortened(reason: Reason, rows: dict[int, str | None]) -> ValueCheck:
    """Return the check for values that could not be converted for one reason."""

    def shorten(array: pa.Array, bad: np.ndarray) -> pa.Array:
        values = array.to_pylist()
        for row, text in rows.items():
            values[row] = text
        return pa.array(values, array.type)

    can = all(text is not None for text in rows.values())
    return ValueCheck(reason, nulls, shorten if can else None)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _without(array: pa.Array, rejected: np.ndarray) -> pa.Array:
    """Replace rejected values with NULL."""
    return pc.if_else(pa.array(rejected), pa.scalar(None, array.type), array)


def _sentence(column: _Column, reason: Reason, row: pa.RecordBatch, max_key_bytes: int | None) -> str:
    """Describe the problem with a value; text and bytes are described, not shown."""
    value, kind = cell(row, column.plan.source.name, 0), str(column.plan.target)
    if isinstance(value, str | bytes):
        size = len(value.encode()) if isinstance(value, str) else len(value)
        what = f"{'text' if isinstance(value, str) else 'a value'} of {size:,} bytes"
    else:
        what = f"{value}"
    return {
        Reason.TOO_LONG: f"{what} is too long for {kind}",
        Reason.OUT_OF_RANGE: f"{what} is out of the range of {kind}",
        Reason.DIGITS_LOST: f"{kind} would lose digits of {what}",
        Reason.NOT_FINITE: f"{what} is not a finite number",
        Reason.IS_NULL: "NULL in a NOT NULL column",
        Reason.INVALID_UTF8: f"{what} is not valid UTF-8",
        Reason.INVALID_JSON: f"{what} is not a JSON document",
        Reason.NOT_CONVERTIBLE: f"{what} is no {kind}",
        Reason.SAME_CLOCK: f"{what} has the clock of an earlier key in sink.time-zone (UTC has each once)",
        Reason.KEY_TOO_LONG: f"the key is longer than the server's {max_key_bytes} bytes",
    }[reason]


def long_keys(plans: Sequence[ColumnPlan], arrays: Sequence[pa.Array], limit: int) -> np.ndarray | None:
    """Return bool[n] of keys with more than `limit` bytes, None without any. `arrays`: the key columns in key order."""
    sizes = _sizes(plans, arrays, exact=False)
    if len(sizes) == 0 or sizes.max() <= limit:
        return None
    sizes = _sizes(plans, arrays, exact=True)
    return np.asarray(sizes > limit, bool) if sizes.max() > limit else None


def _sizes(plans: Sequence[ColumnPlan], arrays: Sequence[pa.Array], *, exact: bool) -> np.ndarray:
    """Return int64[n]: the bytes of encoded keys, as StarRocks counts them against its limit of 128.

    Numbers count with their own width. Text counts with its bytes; if more columns follow, a zero byte in it takes two
    and its end takes two. If not `exact`, non-string values that are sent as text count with their maximum length.
    """
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

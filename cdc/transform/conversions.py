"""CAST and TRY_CAST: the supported conversions, and the engine's SQL for each. NULL stays NULL.

In the engine a TIME is BIGINT microseconds, and JSON and decimals beyond 38 digits are text; other types have the
obvious counterpart. A value that does not fit fails (CAST) or is NULL (TRY_CAST); casts to integers cut fractions.
"""

from __future__ import annotations

from cdc.schema import DataType, Kind
from cdc.transform.limits import in_range, is_json
from cdc.transform.types import (
    MOMENTS,
    Array,
    IntervalType,
    Map,
    NullType,
    RowType,
    SqlType,
    is_exact,
    is_integer,
    is_number,
    is_text,
    is_wide,
    kind_of,
)
from cdc.types.kinds import BINARIES, INTEGERS, REALS

_NAMES = {
    Kind.BOOLEAN: "BOOLEAN", Kind.TINYINT: "TINYINT", Kind.SMALLINT: "SMALLINT", Kind.INT: "INTEGER",
    Kind.BIGINT: "BIGINT", Kind.TINYINT_UNSIGNED: "UTINYINT", Kind.SMALLINT_UNSIGNED: "USMALLINT",
    Kind.INT_UNSIGNED: "UINTEGER", Kind.BIGINT_UNSIGNED: "UBIGINT", Kind.FLOAT: "FLOAT", Kind.DOUBLE: "DOUBLE",
    Kind.CHAR: "VARCHAR", Kind.VARCHAR: "VARCHAR", Kind.STRING: "VARCHAR", Kind.JSON: "VARCHAR", Kind.BINARY: "BLOB",
    Kind.VARBINARY: "BLOB", Kind.BYTES: "BLOB", Kind.GEOMETRY: "BLOB", Kind.DATE: "DATE", Kind.TIME: "BIGINT",
    Kind.TIMESTAMP: "TIMESTAMP", Kind.TIMESTAMP_LTZ: "TIMESTAMPTZ", Kind.VECTOR: "FLOAT[]",
}  # fmt: skip
_NUMBER = r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"
_WHOLE = r"\s*[+-]?[0-9]+\s*"
_CLOCK = r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
_MOMENT = rf"\s*[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}([ T]{_CLOCK})?\s*"
_ZONED = _MOMENT.removesuffix(r"\s*") + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)?\s*"
_TIME = r"^\s*([+-]?)([0-7]?[0-9]{1,2}|8[0-2][0-9]|83[0-8]):([0-5][0-9])(?::([0-5][0-9])(?:[.]([0-9]{1,6}))?)?\s*$"
DAY_US = 86_400_000_000


def engine_type(kind: SqlType) -> str:
    """Return the engine's name of a type."""
    if isinstance(kind, Array):
        return f"{engine_type(kind.element)}[]"
    if isinstance(kind, Map):
        return f"MAP({engine_type(kind.key)}, {engine_type(kind.value)})"
    if isinstance(kind, RowType):
        fields = ", ".join(f"f{number} {engine_type(each)}" for number, each in enumerate(kind.fields))
        return f"STRUCT({fields})"
    if isinstance(kind, NullType):
        return "INTEGER"
    assert isinstance(kind, DataType), kind
    if kind.kind is Kind.DECIMAL:
        return "VARCHAR" if is_wide(kind) else f"DECIMAL({kind.length or 10}, {kind.scale or 0})"
    return _NAMES[kind.kind]


def text_literal(text: str) -> str:
    """Return the SQL of a text constant."""
    return "'" + text.replace("'", "''") + "'"


def failing(message: str) -> str:
    """Return SQL that fails with the message when it is evaluated; its type fits everywhere. Only for use inside CASE.

    It reads the row number, so that the engine cannot evaluate it in advance.
    """
    return f'CASE WHEN cdc_fail({text_literal(message)}, "__row") THEN NULL END'


def convertible(source: SqlType, to: SqlType) -> bool:
    """Whether CAST(source AS to) is supported."""
    if isinstance(source, IntervalType) or isinstance(to, IntervalType | Map | RowType):
        return False
    if isinstance(source, NullType) or source == to:
        return True
    if isinstance(source, Array | Map | RowType):
        return kind_of(to) in (Kind.JSON, Kind.STRING)
    left, right = kind_of(source), kind_of(to)
    if left in (Kind.GEOMETRY,) or right in (Kind.GEOMETRY, Kind.VECTOR):
        return False
    if left is Kind.VECTOR:
        return right in (Kind.JSON, Kind.STRING)
    if is_text(source) or left is Kind.JSON:
        return left is not Kind.JSON or right not in BINARIES
    if is_text(to):
        return True
    if left in MOMENTS:
        return right in MOMENTS or (right is Kind.TIME and left is not Kind.DATE)
    if is_wide(source):
        return is_number(to)
    numeric = is_number(source) or left is Kind.BOOLEAN
    if numeric and right is Kind.JSON:
        return True
    return (numeric and (is_number(to) or right is Kind.BOOLEAN)) or (left in BINARIES and right in BINARIES) or (
        left is Kind.TIME and right is Kind.TIME
    )  # fmt: skip


def cast_sql(sql: str, source: SqlType, to: SqlType, *, safe: bool) -> str:
    """Return the SQL of a conversion; the types have to be `convertible`."""
    cast = "TRY_CAST" if safe else "CAST"
    if isinstance(source, NullType):
        return f"CAST({sql} AS {engine_type(to)})"
    if isinstance(source, Array | Map | RowType) or kind_of(source) is Kind.VECTOR:
        return f"CAST(to_json({sql}) AS VARCHAR)" if not isinstance(to, Array) else f"CAST({sql} AS {engine_type(to)})"
    assert isinstance(source, DataType)
    if isinstance(to, Array):
        return f"CAST({sql} AS {engine_type(to)})"
    assert isinstance(to, DataType)
    if kind_of(source) is Kind.JSON and to.kind is not Kind.JSON:
        plain = f"CASE WHEN json_type({sql}) = 'VARCHAR' THEN json_extract_string({sql}, '$') ELSE {sql} END"
        return cast_sql(f"({plain})", DataType(Kind.STRING), to, safe=safe)
    if is_text(to):
        return _truncate_sql(_to_text(sql, source, safe=safe), source, to)
    result = _from_text(sql, to, safe=safe) if is_text(source) or is_wide(source) else _between(sql, source, to, cast)
    return _cut_bytes(result, source, to)


def _cut_bytes(sql: str, source: DataType, to: DataType) -> str:
    if to.kind not in (Kind.BINARY, Kind.VARBINARY) or to.length is None:
        return sql
    short = source.kind in (Kind.BINARY, Kind.VARBINARY) and (source.length or 1) <= to.length
    return sql if short else f"array_slice({sql}, 1, {to.length})"


def _truncate_sql(sql: str, source: DataType, to: DataType) -> str:
    short = to.length is None or (source.kind in (Kind.CHAR, Kind.VARCHAR) and (source.length or 1) <= to.length)
    return sql if short else f"left({sql}, {to.length})"


def _to_text(sql: str, source: DataType, *, safe: bool) -> str:
    kind = source.kind
    if is_text(source) or is_wide(source) or kind is Kind.JSON:
        return sql
    if kind in BINARIES:
        return f"TRY(decode({sql}))" if safe else f"decode({sql})"
    if kind is Kind.TIME:
        return _time_text(sql, source.length or 0)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        wall, digits = f"CAST({sql} AS TIMESTAMP)", source.length
        seconds = f"strftime({wall}, '%Y-%m-%d %H:%M:%S')"
        return f"({seconds} || '.' || left(strftime({wall}, '%f'), {digits}))" if digits else seconds
    if kind is Kind.DECIMAL and source.length == source.scale:  # the engine writes .5
        text = f"CAST({sql} AS VARCHAR)"
        return f"(CASE WHEN {sql} < 0 THEN '-0' || substr({text}, 2) ELSE '0' || {text} END)"
    return f"CAST({sql} AS VARCHAR)"


def _time_text(sql: str, digits: int) -> str:
    size = f"abs({sql})"
    clock = f"printf('%02d:%02d:%02d', {size} // 3600000000, ({size} // 60000000) % 60, ({size} // 1000000) % 60)"
    fraction = f" || '.' || left(printf('%06d', {size} % 1000000), {digits})" if digits else ""
    return f"(CASE WHEN {sql} < 0 THEN '-' ELSE '' END || {clock}{fraction})"


def _guarded(sql: str, pattern: str, value: str, kind: DataType, *, safe: bool) -> str:
    """Return the SQL of the value if the text matches the pattern, otherwise of NULL or a failure."""
    otherwise = "NULL" if safe else failing(f"the text is not a value of type {kind}")
    return (
        f"(CASE WHEN {sql} IS NULL THEN NULL WHEN regexp_full_match({sql}, {text_literal(pattern)}) THEN {value}"
        f" ELSE {otherwise} END)"
    )


def _from_text(sql: str, to: DataType, *, safe: bool) -> str:
    cast = "TRY_CAST" if safe else "CAST"
    name, kind = engine_type(to), to.kind
    if kind in INTEGERS:
        return _guarded(sql, _WHOLE, f"{cast}(trim({sql}) AS {name})", to, safe=safe)
    if kind is Kind.DECIMAL:
        return _guarded(sql, _NUMBER, _read_decimal(f"trim({sql})", to, cast), to, safe=safe)
    if kind in REALS:
        value = in_range(f"{cast}(trim({sql}) AS {name})", to)
        return _guarded(sql, _NUMBER, f"TRY({value})" if safe else value, to, safe=safe)
    if kind is Kind.BOOLEAN:
        return _boolean(sql, safe=safe)
    if kind is Kind.DATE:
        return _guarded(sql, _MOMENT, f"CAST({cast}(trim({sql}) AS TIMESTAMP) AS DATE)", to, safe=safe)
    if kind is Kind.TIMESTAMP:
        return floor_fraction(_guarded(sql, _MOMENT, f"{cast}(trim({sql}) AS TIMESTAMP)", to, safe=safe), to)
    if kind is Kind.TIMESTAMP_LTZ:
        return floor_fraction(_guarded(sql, _ZONED, f"{cast}(trim({sql}) AS TIMESTAMPTZ)", to, safe=safe), to)
    if kind is Kind.TIME:
        return _guarded(sql, _TIME.strip("^$"), _time_value(sql, to), to, safe=safe)
    if kind is Kind.JSON:
        otherwise = "NULL" if safe else failing("the text is not JSON")
        return f"(CASE WHEN {sql} IS NULL THEN NULL WHEN {is_json(sql)} THEN {sql} ELSE {otherwise} END)"
    return f"encode({sql})"


def _read_decimal(text: str, to: DataType, cast: str) -> str:
    """Return the SQL that parses a decimal: first with one more digit before the point, without which the engine
    refuses `5e-05`."""
    digits, scale = to.length or 10, to.scale or 0
    if digits > scale or digits == 38:
        return f"{cast}({text} AS {engine_type(to)})"
    return f"{cast}({cast}({text} AS DECIMAL({digits + 1}, {scale})) AS {engine_type(to)})"


def _boolean(sql: str, *, safe: bool) -> str:
    otherwise = "NULL" if safe else failing("the text is neither true nor false")
    text = f"lower(trim({sql}))"
    return (
        f"(CASE WHEN {sql} IS NULL THEN NULL WHEN {text} IN ('true', 't', 'yes', 'y', '1') THEN TRUE"
        f" WHEN {text} IN ('false', 'f', 'no', 'n', '0') THEN FALSE ELSE {otherwise} END)"
    )


def _time_value(sql: str, to: DataType) -> str:
    def group(number: int) -> str:
        return f"regexp_extract({sql}, {text_literal(_TIME)}, {number})"

    def number(index: int) -> str:
        return f"coalesce(CAST(nullif({group(index)}, '') AS BIGINT), 0)"

    fraction = f"CAST(rpad({group(5)}, 6, '0') AS BIGINT)"
    total = f"({number(2)} * 3600000000 + {number(3)} * 60000000 + {number(4)} * 1000000 + {fraction})"
    cut = 10 ** (6 - (to.length or 0))
    return f"(CASE WHEN {group(1)} = '-' THEN -1 ELSE 1 END * (({total} // {cut}) * {cut}))"


def floor_fraction(sql: str, to: DataType) -> str:
    """Return the SQL that cuts fraction digits beyond the type's, also before 1970."""
    if to.length is None or to.length >= 6:
        return sql
    step = 10 ** (6 - to.length)
    micros = f"epoch_us({sql})"
    maker = "make_timestamptz" if to.kind is Kind.TIMESTAMP_LTZ else "make_timestamp"
    return f"{maker}({micros} - ((({micros} % {step}) + {step}) % {step}))"


def _between(sql: str, source: DataType, to: DataType, cast: str) -> str:
    name = engine_type(to)
    if to.kind is Kind.JSON:
        return _to_text(sql, source, safe=cast == "TRY_CAST")
    if to.kind is Kind.TIME:
        cut = 10 ** (6 - (to.length or 0))
        value = sql if source.kind is Kind.TIME else (
            f"(((epoch_us(CAST({sql} AS TIMESTAMP)) % {DAY_US}) + {DAY_US}) % {DAY_US})"
        )  # fmt: skip
        return value if cut == 1 else f"(({value} // {cut}) * {cut})"
    if to.kind in MOMENTS:
        result = sql if engine_type(source) == name else f"{cast}({sql} AS {name})"
        finer = to.kind is not Kind.DATE and (source.length or 0) > (to.length or 0)
        return floor_fraction(result, to) if finer else result
    if to.kind is Kind.BOOLEAN:
        return sql if source.kind is Kind.BOOLEAN else f"({sql} <> 0)"
    if source.kind is Kind.BOOLEAN:
        return f"{cast}(CAST({sql} AS INTEGER) AS {name})"
    if is_integer(to) and not is_integer(source):
        return f"{cast}(trunc({sql}) AS {name})"
    if to.kind is Kind.DECIMAL and source.kind in REALS:  # via text: the engine's own conversion adds digits
        return _read_decimal(f"CAST(CAST({sql} AS DOUBLE) AS VARCHAR)", to, cast)
    if is_exact(to) and engine_type(source) == name:
        return sql
    return sql if engine_type(source) == name else f"{cast}({sql} AS {name})"

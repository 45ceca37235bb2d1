"""Texts of values as `cdc.types.casts` spells them, in DuckDB's SQL. Pure, nothing is executed here."""

from __future__ import annotations

from cdc.schema import DataType, Kind


def spelled(expression: str, data_type: DataType) -> str | None:
    """SQL of the text of a value of this type; None where DuckDB spells it otherwise.

    It fails for doubles that Arrow writes with an exponent.
    """
    text = f"CAST({expression} AS VARCHAR)"
    match data_type.kind:
        case Kind.DECIMAL:  # DuckDB leaves the zero before the point out of a DECIMAL(30, 30)
            return f"regexp_replace({text}, '^(-?)\\.', '\\10.')"
        case Kind.DOUBLE:
            size, whole = f"abs({expression})", f"regexp_replace({text}, '\\.0$', '')"
            reason = "error('DOUBLE values below 0.0001 or from 1e10 on have more than one text')"
            return f"CASE WHEN {size} >= 1e10 OR ({size} < 0.0001 AND {size} <> 0) THEN {reason} ELSE {whole} END"
        case Kind.TIMESTAMP:
            return _without_zeros(f"strftime({expression}, '%Y-%m-%dT%H:%M:%S.%f')")
        case Kind.TIMESTAMP_LTZ:
            moment = f"strftime(timezone('UTC', {expression}), '%Y-%m-%dT%H:%M:%S.%f')"
            return f"{_without_zeros(moment)} || 'Z'"
        case Kind.TIME:
            return _without_zeros(text)
        case Kind.BINARY | Kind.VARBINARY | Kind.BYTES | Kind.GEOMETRY:
            return f"base64({expression})"
        case Kind.FLOAT | Kind.VECTOR:
            return None  # the digits are not the same
        case _:
            return text


def _without_zeros(text: str) -> str:
    """A time without the zeros at the end of its fraction."""
    return f"regexp_replace(regexp_replace({text}, '(\\.\\d*[1-9])0+$', '\\1'), '\\.0+$', '')"

"""The type names of `CAST`, from sqlglot's to ours."""

from __future__ import annotations

from sqlglot import exp

from cdc.schema import DataType, Kind

_D = exp.DType
_PLAIN: dict[exp.DType, Kind] = {
    _D.BOOLEAN: Kind.BOOLEAN, _D.TINYINT: Kind.TINYINT, _D.SMALLINT: Kind.SMALLINT, _D.INT: Kind.INT,
    _D.BIGINT: Kind.BIGINT, _D.UTINYINT: Kind.TINYINT_UNSIGNED, _D.USMALLINT: Kind.SMALLINT_UNSIGNED,
    _D.UINT: Kind.INT_UNSIGNED, _D.UBIGINT: Kind.BIGINT_UNSIGNED, _D.FLOAT: Kind.FLOAT, _D.DOUBLE: Kind.DOUBLE,
    _D.TEXT: Kind.STRING, _D.JSON: Kind.JSON, _D.DATE: Kind.DATE,
}  # fmt: skip
_WITH_LENGTH: dict[exp.DType, tuple[Kind, Kind, int]] = {
    _D.CHAR: (Kind.CHAR, Kind.STRING, 255),
    _D.VARCHAR: (Kind.VARCHAR, Kind.STRING, 65_535),
    _D.BINARY: (Kind.BINARY, Kind.BYTES, 255),
    _D.VARBINARY: (Kind.VARBINARY, Kind.BYTES, 65_535),
}
_WITH_FRACTION: dict[exp.DType, Kind] = {
    _D.TIME: Kind.TIME, _D.TIMESTAMPNTZ: Kind.TIMESTAMP, _D.DATETIME: Kind.TIMESTAMP,
    _D.TIMESTAMPLTZ: Kind.TIMESTAMP_LTZ,
}  # fmt: skip


def cast_type(tree: exp.DataType) -> DataType | str:
    """The type, or why it cannot be cast to. Alone TIMESTAMP has 6 digits, TIME 0, DECIMAL (10, 0); CHAR is STRING."""
    kind = tree.this
    numbers = [param.this.name for param in tree.expressions if isinstance(param, exp.DataTypeParam)]
    if len(numbers) != len(tree.expressions) or not all(number.isdigit() for number in numbers):
        return f"the type {tree.sql()} cannot be cast to"
    lengths = [int(number) for number in numbers]
    if kind in _PLAIN and not lengths:
        return DataType(_PLAIN[kind])
    if kind is _D.DECIMAL and len(lengths) <= 2:
        return _decimal(*(lengths or [10]))
    if kind in _WITH_LENGTH and len(lengths) <= 1:
        return _text(kind, lengths)
    if kind in _WITH_FRACTION and len(lengths) <= 1:
        return _time(kind, lengths)
    return f"the type {tree.sql()} cannot be cast to"


def _decimal(precision: int, scale: int = 0) -> DataType | str:
    if not 1 <= precision <= 38 or scale > precision:
        return f"DECIMAL({precision}, {scale}): 1 to 38 digits, and no more decimals than digits"
    return DataType(Kind.DECIMAL, precision, scale)


def _text(kind: exp.DType, lengths: list[int]) -> DataType | str:
    with_length, without, most = _WITH_LENGTH[kind]
    if not lengths:
        return DataType(without)
    if not 1 <= lengths[0] <= most:
        return f"{with_length}({lengths[0]}): a length from 1 to {most}"
    return DataType(with_length, lengths[0])


def _time(kind: exp.DType, lengths: list[int]) -> DataType | str:
    target = _WITH_FRACTION[kind]
    digits = lengths[0] if lengths else 0 if target is Kind.TIME else 6
    return DataType(target, digits) if digits <= 6 else f"{target}({digits}): at most 6 digits"

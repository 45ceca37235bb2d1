"""Convert column types from this tool's to Paimon's without loss, and back. Pure; does not load the library.

| type | Paimon | why |
|---|---|---|
| integers | TINYINT .. BIGINT; unsigned ones the next larger, BIGINT UNSIGNED DECIMAL(20, 0) | Paimon has no unsigned |
| DECIMAL(p, s) | DECIMAL(p, s), STRING beyond 38 digits | Paimon's DECIMAL ends at 38 |
| CHAR, VARCHAR, STRING, JSON | STRING | the source enforces lengths; a longer one needs no change of the table |
| BINARY, VARBINARY, BYTES, GEOMETRY | BYTES | |
| DATE | DATE | |
| TIME | STRING, `-838:59:59.000000` | MySQL's TIME is a signed span, Paimon's a time of day in milliseconds |
| TIMESTAMP | TIMESTAMP(6) | |
| TIMESTAMP_LTZ | TIMESTAMP(6) WITH LOCAL TIME ZONE | an instant |
| VECTOR | ARRAY<FLOAT> | |
"""

from __future__ import annotations

import re

import pyarrow as pa

from cdc.schema import DataType, Kind

TEXT, BYTES, VECTOR = "STRING", "BYTES", "ARRAY<FLOAT>"
TIMESTAMP, TIMESTAMP_LTZ = "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"
LONGEST_DECIMAL = 38

_PAIMON: dict[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INT: "INT",
    Kind.BIGINT: "BIGINT",
    Kind.TINYINT_UNSIGNED: "SMALLINT",
    Kind.SMALLINT_UNSIGNED: "INT",
    Kind.INT_UNSIGNED: "BIGINT",
    Kind.BIGINT_UNSIGNED: "DECIMAL(20, 0)",
    Kind.FLOAT: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.CHAR: TEXT,
    Kind.VARCHAR: TEXT,
    Kind.STRING: TEXT,
    Kind.JSON: TEXT,
    Kind.BINARY: BYTES,
    Kind.VARBINARY: BYTES,
    Kind.BYTES: BYTES,
    Kind.DATE: "DATE",
    Kind.TIME: TEXT,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.TIMESTAMP_LTZ: TIMESTAMP_LTZ,
    Kind.GEOMETRY: BYTES,
    Kind.VECTOR: VECTOR,
}
_KIND = {
    "BOOLEAN": Kind.BOOLEAN, "TINYINT": Kind.TINYINT, "SMALLINT": Kind.SMALLINT, "INT": Kind.INT,
    "BIGINT": Kind.BIGINT, "FLOAT": Kind.FLOAT, "DOUBLE": Kind.DOUBLE, "DATE": Kind.DATE, TEXT: Kind.STRING,
    BYTES: Kind.BYTES, VECTOR: Kind.VECTOR,
}  # fmt: skip
_ARROW = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(), TEXT: pa.string(), BYTES: pa.binary(),
    VECTOR: pa.list_(pa.float32()),
}  # fmt: skip
_WHOLE = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""The integer types in order, with their decimal digits."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_TEXTS = re.compile(r"(?:VARCHAR|CHAR)\(\d+\)|STRING")
_BINARIES = re.compile(r"(?:VARBINARY|BINARY)\(\d+\)|BYTES")
_MOMENT = re.compile(r"TIMESTAMP(?:\((\d)\))?( WITH LOCAL TIME ZONE)?|TIMESTAMP_LTZ\((\d)\)")


def paimon_type(data_type: DataType) -> str:
    """The Paimon type of a column without NOT NULL, in the spelling of `spelled`."""
    if data_type.kind is Kind.DECIMAL:
        precision = data_type.length or 10
        return f"DECIMAL({precision}, {data_type.scale or 0})" if precision <= LONGEST_DECIMAL else TEXT
    return _PAIMON[data_type.kind]


def spelled(text: str) -> str:
    """The canonical spelling of a schema's type without NOT NULL; that of `VARCHAR(2147483647)` is STRING."""
    text = re.sub(r"\s+", " ", text.strip()).removesuffix(" NOT NULL")
    if decimal := _DECIMAL.fullmatch(text):
        return f"DECIMAL({decimal[1]}, {decimal[2]})"
    if text in ("VARCHAR(2147483647)", "VARCHAR"):
        return TEXT
    if text in ("VARBINARY(2147483647)", "VARBINARY"):
        return BYTES
    if moment := _MOMENT.fullmatch(text):
        digits = moment[1] or moment[3] or "6"
        return f"TIMESTAMP({digits})" + (" WITH LOCAL TIME ZONE" if moment[2] or moment[3] else "")
    return "INT" if text == "INTEGER" else text


def data_type(text: str) -> DataType:
    """The nearest type of this tool for a Paimon type; STRING for types that this sink does not write."""
    if decimal := _DECIMAL.fullmatch(text):
        return DataType(Kind.DECIMAL, int(decimal[1]), int(decimal[2]))
    if moment := _MOMENT.fullmatch(text):
        return DataType(Kind.TIMESTAMP_LTZ if moment[2] else Kind.TIMESTAMP, min(6, int(moment[1] or 6)))
    if _TEXTS.fullmatch(text):
        return DataType(Kind.STRING)
    return DataType(Kind.BYTES if _BINARIES.fullmatch(text) else _KIND.get(text, Kind.STRING))


def arrow_type(text: str) -> pa.DataType | None:
    """The Arrow type of the values written into a Paimon column; None for a type that is not written."""
    if decimal := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if moment := _MOMENT.fullmatch(text):
        return pa.timestamp("us", "UTC" if moment[2] else None) if int(moment[1] or 6) >= 6 else None
    if _TEXTS.fullmatch(text):
        return pa.string()
    return pa.binary() if _BINARIES.fullmatch(text) else _ARROW.get(text)


def is_text(text: str) -> bool:
    """Whether the type is a text of any length."""
    return text == TEXT


def can_be_key(text: str) -> bool:
    """Whether the type can be part of a key, which arrays cannot."""
    return not text.startswith(("ARRAY", "MAP", "ROW", "MULTISET", "VARIANT"))


def can_be_partition(text: str) -> bool:
    """Whether rows can be partitioned by the type: the Rust package reads no others, and it merges and verifies."""
    return can_be_key(text) and text not in ("FLOAT", "DOUBLE") and not _BINARIES.fullmatch(text)


def holds(actual: str, target: str) -> bool:
    """Whether an existing column of type `actual` takes every value of `target` unchanged."""
    if actual == target:
        return True
    if actual in _WHOLE and target in _WHOLE:
        return _WHOLE[actual] >= _WHOLE[target]
    decimal = _DECIMAL.fullmatch(actual)
    if decimal and target in _WHOLE:
        return int(decimal[1]) - int(decimal[2]) >= _WHOLE[target]
    if decimal and (other := _DECIMAL.fullmatch(target)):
        return _digits(decimal) >= _digits(other) and int(decimal[2]) >= int(other[2])
    return (actual, target) == ("DOUBLE", "FLOAT")


def _digits(decimal: re.Match[str]) -> int:
    return int(decimal[1]) - int(decimal[2])

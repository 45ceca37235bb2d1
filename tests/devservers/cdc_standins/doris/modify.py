"""Which changes of a column Doris allows."""

from __future__ import annotations

from cdc_standins.doris.catalog import Column, Table
from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.types import DorisType
from cdc_standins.load_values import INTEGER_BITS

_NUMBERS = (*INTEGER_BITS, "FLOAT", "DOUBLE")
_ALLOWED: dict[str, set[str]] = {
    "TINYINT": {"SMALLINT", "INT", "BIGINT", "LARGEINT", "FLOAT", "DOUBLE", "VARCHAR", "STRING"},
    "SMALLINT": {"INT", "BIGINT", "LARGEINT", "FLOAT", "DOUBLE", "VARCHAR", "STRING"},
    "INT": {"BIGINT", "LARGEINT", "FLOAT", "DOUBLE", "VARCHAR", "STRING", "DATE"},
    "BIGINT": {"LARGEINT", "FLOAT", "DOUBLE", "VARCHAR", "STRING"},
    "LARGEINT": {"FLOAT", "DOUBLE", "VARCHAR", "STRING"},
    "FLOAT": {"DOUBLE", "VARCHAR", "STRING"},
    "DOUBLE": {"VARCHAR", "STRING"},
    "CHAR": {*_NUMBERS, "DATE", "CHAR", "VARCHAR", "STRING"},
    "VARCHAR": {*_NUMBERS, "DATE", "VARCHAR", "STRING", "JSON"},
    "STRING": {"JSON"},
    "JSON": {"STRING", "VARCHAR"},
    "DECIMAL": {"DECIMAL", "VARCHAR", "STRING"},
    "DATE": {"DATETIME"},
    "DATETIME": {"DATE", "DATETIME"},
}
_TEXT_WIDTH = {"TINYINT": 4, "SMALLINT": 6, "INT": 11, "BIGINT": 20, "LARGEINT": 40, "FLOAT": 20, "DOUBLE": 20}


def checked_type_change(table: Table, before: Column, after: Column, *, says_key: bool) -> None:
    """SqlError, in the server's order of checks, when the column may not become that."""
    _check_matrix(before.type, after.type)
    if says_key != before.is_key:
        raise sql_error("Can not change aggregation type")
    if before.nullable and not after.nullable:
        raise sql_error("Can not change from nullable to non-nullable")
    if before.default != after.default:
        raise sql_error("Can not change default value")
    _check_length(before.type, after.type)
    if before.type == after.type:
        return
    if before.name.lower() in {name.lower() for name in table.hashed_by}:
        raise sql_error(f"Can not modify distribution column[{before.name}]. index[{table.name}]")
    if before.is_key and after.type.kind in ("STRING", "FLOAT", "DOUBLE", "JSON"):
        raise sql_error(f"{after.type.kind} Type should not be used in key column[{before.name}].")


def _check_matrix(before: DorisType, after: DorisType) -> None:
    if before != after and before.kind != after.kind and after.kind not in _ALLOWED.get(before.kind, set()):
        raise sql_error(f"Can not change {_shown(before)} to {_shown(after)}")
    width = before.length + 3 if before.kind == "DECIMAL" else _TEXT_WIDTH.get(before.kind)
    if width and after.kind in ("CHAR", "VARCHAR") and after.length < width:
        raise sql_error(f"Can not change {_shown(before)} to {_shown(after)}: the text of a number needs {width} bytes")


def _check_length(before: DorisType, after: DorisType) -> None:
    texts = ("CHAR", "VARCHAR")
    if before.kind in texts and after.kind in texts and after.length < before.length:
        raise sql_error(f"Shorten type length is prohibited, srcType={_shown(before)}, dstType={_shown(after)}")
    if before.kind == after.kind == "DECIMAL" and (
        after.scale < before.scale or after.length - after.scale < before.length - before.scale
    ):
        raise sql_error(f"Can not change {_shown(before)} to {_shown(after)}: digits would be lost")


def _shown(kind: DorisType) -> str:
    return str(kind).upper().replace("TEXT", "STRING")

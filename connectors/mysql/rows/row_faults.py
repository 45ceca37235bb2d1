"""Converts a row kernel's return codes to errors for the user."""

from __future__ import annotations

from typing import Any

from cdc.errors import CdcError, CorruptLog, SchemaUnknown, UnsupportedChange
from connectors.mysql.kernels import ops
from connectors.mysql.kernels.rows_event import UPDATE, row_kind
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.column_plan import RowPlan
from connectors.mysql.rows.definition_check import OTHER_DEFINITION
from connectors.mysql.table import FIX_GENERATED

_CHECK_FILE = "check the log file with mysqlbinlog --verify-binlog-checksum"
_COPY = "exclude the table with tables.exclude until the log is read to its end, and take it in again: it is copied"
_BODY, _VERSION_2 = 19 + 6 + 2, 30
_ROW_IMAGE = f"on the source: SET GLOBAL binlog_row_image=FULL, reconnect its sessions; then {_COPY}"


def fault_error(code: int, fault: Any, plan: RowPlan, buffer: ReceiveBuffer) -> CdcError:
    """Return the error for a code returned by `decode_rows`. `fault` is an ops.FAULT record."""
    event, column, value = (int(number) for number in fault)
    where = f"{plan.table.id} at {buffer.where(event)}"
    name = plan.table.columns[column].name if column >= 0 else ""
    if code == ops.PARTIAL_IMAGE:
        return _partial_image(buffer.data[buffer.start[event] : buffer.end[event]].tobytes(), plan, where)
    if code == ops.WRONG_COLUMNS:
        return CorruptLog("rows do not have as many columns as their TABLE_MAP", where=where, hint=_CHECK_FILE)
    if code == ops.INVALID_DATE:
        text = date_text(int(plan.numbers["op"][column]), buffer.data[value : value + 8].tobytes())
        return UnsupportedChange(
            f"column {name} holds {text}, which is not a date",
            where=where,
            hint="correct it, or allow invalid dates as NULL",
        )
    if code == ops.ODD_VECTOR:
        return invalid_vector(name, where, f"; then {_COPY}")
    if code == ops.UNKNOWN_LABEL:
        labels = len(plan.table.columns[column].labels)
        return SchemaUnknown(
            f"column {name} holds member {value}, its known definition has {labels}",
            where=where,
            hint=OTHER_DEFINITION,
        )
    if code == ops.CORRUPT_JSON:
        return CorruptLog(f"column {name} holds bytes that are not a JSON document", where=where, hint=_CHECK_FILE)
    place = f" in column {name}" if name else ""
    return CorruptLog(f"a rows event has inconsistent lengths{place}", where=where, hint=_CHECK_FILE)


def _partial_image(event: bytes, plan: RowPlan, where: str) -> UnsupportedChange:
    absent = _missing(event)
    missing = [column for index, column in enumerate(plan.table.columns) if index in absent]
    if missing and all(column.generated for column in missing):
        names = ", ".join(column.name for column in missing)
        message = f"rows were logged without their generated columns {names}, as newer versions of MariaDB do"
        return UnsupportedChange(message, where=where, hint=FIX_GENERATED)
    return UnsupportedChange("rows were logged without all of their columns", where=where, hint=_ROW_IMAGE)


def _missing(event: bytes) -> set[int]:
    """Return the columns missing from an image of a rows event; its layout: `kernels.rows_event`."""
    at = _BODY + (int.from_bytes(event[_BODY : _BODY + 2], "little") if event[4] >= _VERSION_2 else 0)
    count, at = (event[at], at + 1) if event[at] < 251 else (int.from_bytes(event[at + 1 : at + 3], "little"), at + 3)
    size = (count + 7) // 8
    starts = (at, at + size) if row_kind(event[4]) == UPDATE else (at,)
    return {index for start in starts for index in range(count) if not event[start + (index >> 3)] >> (index & 7) & 1}


def invalid_vector(column: str, where: str, more: str = "") -> UnsupportedChange:
    """Return the error for a VECTOR whose bytes are not floats: an ALTER without a strict sql_mode can create one."""
    message = f"column {column} holds a VECTOR whose length is not a multiple of 4 bytes, so it is none of floats"
    hint = f"on the source: correct or delete the rows WHERE LENGTH({column}) % 4 <> 0{more}"
    return UnsupportedChange(message, where=where, hint=hint)


def date_text(op: int, data: bytes) -> str:
    """Format the invalid date at the start of `data` like MySQL does."""
    if op == ops.DATE:
        value = int.from_bytes(data[:3], "little")
        return f"{value >> 9:04}-{value >> 5 & 15:02}-{value & 31:02}"
    if op == ops.DATETIME2:
        value = int.from_bytes(data[:5], "big") - 0x8000000000
        months, rest = value >> 22, value & 0x3FFFFF
        date = f"{months // 13:04}-{months % 13:02}-{rest >> 17:02}"
        return f"{date} {rest >> 12 & 31:02}:{rest >> 6 & 63:02}:{rest & 63:02}"
    if op == ops.DATETIME_OLD:
        text = f"{int.from_bytes(data[:8], 'little'):014}"
        return f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:12]}:{text[12:]}"
    return "0000-00-00 00:00:00"

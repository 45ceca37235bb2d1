"""Differences between the two servers' load formats. Both read the same text: fields end with 0x01, rows with 0x02.

| fact | Doris | StarRocks |
|---|---|---|
| NULL | `\\N`, never escaped | the same |
| blank line | skipped | skipped |
| byte order mark at the start of any block of rows | removed | kept |
| enclose and escape | one byte each | not in a transaction |
| `unhex('')` / `from_base64('')` | '' / NULL | '' / NULL |
| longest field | no limit of its own | 1,048,576 bytes |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from connectors.shared.conversion.checks import FieldLimits
from connectors.shared.conversion.target import TargetKind
from connectors.shared.kernels.buffers import buffers
from connectors.shared.streamload.kernels.strings import needs_hex


@dataclass(frozen=True, slots=True)
class StreamLoadDialect:
    """The load format of one server.

    Attributes:
        name: for messages.
        delete_sign: the hidden column that says whether a row is a delete, 1, or not, 0.
        headers: request headers that describe the text; the same for every load.
        text_from_hex, bytes_from_hex: expressions that convert a field of hex digits to a character value or a
            VARBINARY.
        text_from_bytes: the same for bytes in a character column, which stay digits: clients read text as UTF-8.
        field_bytes: the longest field that the server reads, None without limit.
    """

    name: str
    delete_sign: str
    headers: Mapping[str, str]
    text_from_hex: str
    bytes_from_hex: str
    text_from_bytes: str
    field_bytes: int | None = None

    def from_hex(self, kind: TargetKind, field: str, *, binary: bool = False) -> str:
        """Return the expression for a column of that kind from a quoted field name; `binary`: the source has bytes."""
        if kind is TargetKind.VARBINARY:
            return self.bytes_from_hex.format(field)
        return (self.text_from_bytes if binary else self.text_from_hex).format(field)

    @property
    def limits(self) -> FieldLimits:
        """The changes that the load text makes to fields."""
        return FieldLimits(self.field_bytes, self.text_from_bytes == "{}", sent_as_hex)


DORIS = StreamLoadDialect(
    name="Doris",
    delete_sign="__DORIS_DELETE_SIGN__",
    headers={"format": "csv", "column_separator": "\\x01", "line_delimiter": "\\x02"},
    text_from_hex="unhex({})",
    bytes_from_hex="to_binary({})",
    text_from_bytes="{}",
)
STARROCKS = StreamLoadDialect(
    name="StarRocks",
    delete_sign="__op",
    headers={"format": "csv", "column_separator": "\\x01", "row_delimiter": "\\x02"},
    text_from_hex="unhex({})",
    bytes_from_hex="to_binary({}, 'hex')",
    text_from_bytes="{}",
    field_bytes=1_048_576,
)


def sent_as_hex(array: pa.Array) -> bool:
    """Return whether a text column has a value that load text can carry only as hex digits."""
    place = buffers(array)
    return bool(needs_hex(place.offsets, place.values, len(array)))

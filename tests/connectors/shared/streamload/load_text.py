"""A strict reader of load text, written from the servers' rules and not from the encoder."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"`((?:[^`]|``)+)`"


@dataclass(frozen=True)
class LoadColumns:
    """A `columns` header: fields in order, and for each computed column (function, field, further arguments)."""

    fields: tuple[str, ...]
    computed: dict[str, tuple[str, str, str]]


def read_columns(header: str) -> LoadColumns:
    """Read a `columns` header made of quoted names and calls of one function on one field."""
    fields: list[str] = []
    computed: dict[str, tuple[str, str, str]] = {}
    at = 0
    item = re.compile(rf"{_NAME}(?:=(\w+)\({_NAME}((?:, '\w+')?)\))?(,|$)")
    while at < len(header):
        found = item.match(header, at)
        assert found, f"cannot read {header[at:]!r}"
        name, function, field, more, end = found.groups()
        if function:
            computed[name.replace("``", "`")] = (function, field.replace("``", "`"), more)
        else:
            assert not computed, "fields come before expressions"
            fields.append(name.replace("``", "`"))
        at = found.end()
        assert end or at == len(header)
    assert len({name.casefold() for name in fields}) == len(fields)
    return LoadColumns(tuple(fields), computed)


def read_rows(header: str, text: bytes) -> list[dict[str, bytes | None]]:
    """Rows as a server has them before it converts values to their types: bytes, or None for NULL."""
    columns = read_columns(header)
    if not text:
        return []
    assert text.endswith(b"\x02"), "the last row has its end too, or the next request's first row would join it"
    rows = []
    for line in text[:-1].split(b"\x02"):
        assert line, "a blank line would be skipped"
        assert not line.startswith(b"\xef\xbb\xbf"), "a byte order mark would be taken off"
        line.decode()
        fields = line.split(b"\x01")
        assert len(fields) == len(columns.fields), (len(fields), columns.fields)
        row = {name: None if field == b"\\N" else field for name, field in zip(columns.fields, fields, strict=True)}
        made = {name: _call(function, row[field]) for name, (function, field, _) in columns.computed.items()}
        for _, field, _ in columns.computed.values():
            del row[field]
        rows.append({**row, **made})
    return rows


def _call(function: str, field: bytes | None) -> bytes | None:
    """`unhex` and `to_binary`: NULL stays NULL, nothing stays nothing, anything but pairs of digits is a mistake."""
    assert function in ("unhex", "to_binary")
    if field is None:
        return None
    assert re.fullmatch(rb"(?:[0-9A-Fa-f]{2})*", field), field
    return bytes.fromhex(field.decode())

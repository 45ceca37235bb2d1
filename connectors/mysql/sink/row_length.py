"""Tables whose rows would be too long for a server: their longest columns become TEXT or BLOB. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.evolution.table import ActualColumn
from cdc.schema import Kind
from connectors.mysql.server.column_type import parse_column_type
from connectors.mysql.sink.types import ServerType

_MOST = 65_535
_OF_TEXT = 12
"""Maximum bytes that a text or a blob takes of a row; numbers and times take no more, except DECIMAL."""
_OUTSIDE = {"varchar": "text", "varbinary": "blob"}


def shortened(
    columns: Sequence[ActualColumn[ServerType]], changeable: Sequence[ActualColumn[ServerType]]
) -> tuple[ActualColumn[ServerType], ...]:
    """Change the longest `changeable` columns to TEXT or BLOB if a row of all columns would be too long for a server.

    A VARCHAR of another character set takes up to four times as many bytes in utf8mb4, so a table that fits the source
    may be too long here; a TEXT takes next to nothing of the row.
    """
    found = list(columns)
    lengths = [_length(column.type) for column in found]
    places = [place for place, column in enumerate(found) if column in changeable and column.type.name in _OUTSIDE]
    for place in sorted(places, key=lambda place: -lengths[place]):
        if sum(lengths) <= _MOST:
            break
        own = ServerType(_OUTSIDE[found[place].type.name], found[place].type.collation)
        found[place], lengths[place] = replace(found[place], type=own, default=None), _OF_TEXT
    return tuple(found)


def stays_outside(actual: ServerType, kinds: tuple[Kind, Kind]) -> bool:
    """Return whether a column that was changed to a text stays one, as its source type was and is a VARCHAR."""
    texts = {"text": Kind.VARCHAR, "blob": Kind.VARBINARY}
    return kinds == (texts.get(actual.text), texts.get(actual.text))


def _length(kind: ServerType) -> int:
    parsed = parse_column_type(kind.text)
    length = parsed.length or 1
    if parsed.type in ("varchar", "char"):
        return 4 * length + 2
    if parsed.type in ("varbinary", "binary"):
        return length + 2
    return 30 if parsed.type == "decimal" else _OF_TEXT

"""Changes that the way into the sink makes to the fields of a row, as far as they decide whether a value fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


def _never(_: pa.Array) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class FieldLimits:
    """One sink's limits besides those of its columns; the default has none.

    Attributes:
        field_bytes: the longest field that the server reads, None without limit.
        keeps_digits: whether bytes in a character column are kept as hex digits, twice their length.
        sent_as_hex: whether this text column is sent as hex digits, which are twice as long.
    """

    field_bytes: int | None = None
    keeps_digits: bool = False
    sent_as_hex: Callable[[pa.Array], bool] = _never

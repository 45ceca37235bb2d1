"""Values of rows that differ, as `cdc verify --deep` prints them."""

from __future__ import annotations

import pyarrow as pa
from together import together

from cdc.verify.table_verifier import _text


@together(
    "value, told", [("", "''"), (b"", "''"), (None, "NULL"), ("NULL", "'NULL'"), ("a", "a"), (0, "0"), (" ", "' '")]
)
def test_a_text_is_never_printed_as_nothing_or_as_what_it_is_not(value: object, told: str) -> None:
    assert _text(pa.scalar(value), masked=False) == told

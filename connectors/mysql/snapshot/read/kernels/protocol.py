"""Constants shared by the result readers (Python) and their kernels: operations, states, codes.

Columns are described by the `ops.COLUMN` records of the log's decoder, so both fill the same arenas. Of a record's
fields the kernels here use: op, need (bytes of a value of fixed size on the wire), b (bytes to pad BITS to), c (digits
after the point), width, and the addresses.
"""

from __future__ import annotations

from typing import Final

INT8: Final = 0
INT16: Final = 1
INT32: Final = 2
"""Also FLOAT."""
INT64: Final = 3
"""Also DOUBLE."""
YEAR: Final = 4
"""Two bytes."""
YEAR2: Final = 5
"""MariaDB's YEAR(2): two bytes with the last two digits of a year from 1970 on."""
BOOLEAN: Final = 6
"""One byte; any value but 0 is true."""
# From here on values begin with their length.
DATE: Final = 7
MOMENT: Final = 8
"""DATETIME and TIMESTAMP."""
TIME: Final = 9
BIT: Final = 10
"""BIT(1) to a boolean."""
DECIMAL64: Final = 11
"""Text of at most 18 digits to decimal128. [-, -, digits after the point]"""
DECIMAL128: Final = 12
# From here on: variable length.
BYTES: Final = 13
BITS: Final = 14
"""[-, bytes]: padded with leading zero bytes to this length."""
DECIMAL_TEXT: Final = 15
FLOATS: Final = 16

# Words of the splitter's state, int64 each.
AT: Final = 0
"""Offset of the next packet."""
SEQUENCE: Final = 1
"""Sequence number that the next packet must have."""
ENDED: Final = 2
"""0, or the reason why the result ended: see below."""
SPLIT_STATE: Final = 3

GOING: Final = 0
END: Final = 1
"""An end-of-result packet; AT is after it."""
REFUSED: Final = 2
"""An error packet; AT is at it."""
NO_PACKET: Final = 3
"""Bytes that cannot be a packet of a result; AT is at them."""

# Words of the row reader's state, int64 each.
ROWS: Final = 0
"""Rows in the arena."""
FAULT_COLUMN: Final = 1
"""Column at which reading stopped, or -1."""
FAULT_AT: Final = 2
"""Offset in the buffer of the faulty value, before its length."""
ROW_STATE: Final = 3

# Return codes of the row reader.
DONE: Final = 0
FULL: Final = 1
"""The arena has no room for the next row."""
CORRUPT: Final = 2
INVALID_DATE: Final = 3
ODD_VECTOR: Final = 4

"""Numba kernels that read values from JSON text into buffers, and write JSON strings. None raises or allocates."""

from pathlib import Path

from connectors.shared.kernels import Kernels

kernel = Kernels(Path(__file__).parent, "kafka")
"""Declares a kernel of this package."""

ABSENT, NULL, STRING, ESCAPED, INTEGER, FRACTION, TRUE, FALSE, OBJECT, ARRAY = range(10)
"""The kinds of values in JSON text. STRING has no backslash, ESCAPED has some; FRACTION has `.`, `e` or `E`."""

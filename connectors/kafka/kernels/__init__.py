"""Numba kernels that find values in JSON text and turn them into column buffers. None raises and none allocates."""

from pathlib import Path

from connectors.shared.kernels import Kernels

kernel = Kernels(Path(__file__).parent, "kafka")
"""Declares a kernel of this package."""

ABSENT, NULL, STRING, ESCAPED, INTEGER, FRACTION, TRUE, FALSE, OBJECT, ARRAY = range(10)
"""Kinds of a value in JSON text: a STRING has no backslash, an ESCAPED one has, a FRACTION has `.`, `e` or `E`."""

"""Numba kernels over JSON text: values to column buffers, and strings as JSON writes them. None raises or allocates."""

from pathlib import Path

from connectors.shared.kernels import Kernels

kernel = Kernels(Path(__file__).parent, "kafka")
"""Declares a kernel of this package."""

ABSENT, NULL, STRING, ESCAPED, INTEGER, FRACTION, TRUE, FALSE, OBJECT, ARRAY = range(10)
"""Kinds of a value in JSON text: a STRING has no backslash, an ESCAPED one has, a FRACTION has `.`, `e` or `E`."""

"""Numba kernels over raw log bytes. They never read outside their bounds, and return codes instead of raising errors.

The way of a row: `framing` finds events and verifies them (`crc`), `table_maps` finds their tables, and `rows` turns
them into columns. For this, `placing` finds the values of many images and `columns` converts them; `row_by_row`,
`image` and `one_value` do the same for the unusual cases. `ops` has the records that the kernels share with Python.
"""

from pathlib import Path

from connectors.shared.kernels import Kernels, text

FOLDER = Path(__file__).parent
"""The folder of these kernels' sources, for packages whose kernels call them."""

EVENTS = FOLDER.parent / "events.py"
"""The constants that these kernels are compiled with and share with Python code."""

kernel = Kernels(FOLDER, "log", EVENTS, text.FOLDER)
"""Declares a kernel of this package."""

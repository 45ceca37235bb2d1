"""Numba kernels over raw log bytes. No kernel reads outside the bounds it is given; none raises: they return codes.

The way of a row: `framing` finds events and verifies them (`crc`), `table_maps` finds out whose rows they hold, `rows`
makes columns of them: `placing` finds the values of many images, `columns` converts them; `row_by_row`, `image` and
`one_value` do the same for what is out of the ordinary. `ops` has the records that they share with Python code.
"""

from pathlib import Path

from connectors.shared.kernels import Kernels, text

FOLDER = Path(__file__).parent
"""Where the sources of these kernels are, for the packages whose kernels call them."""

EVENTS = FOLDER.parent / "events.py"
"""Constants that these kernels are compiled with and share with Python code."""

kernel = Kernels(FOLDER, "log", EVENTS, text.FOLDER)
"""Declares a kernel of this package."""

"""Numba kernels over result sets of the binary protocol. As with `connectors.mysql.kernels`: checked bounds, codes.

Their compiled code has a cache folder of its own, so an edit here does not compile the log's kernels anew.
"""

from pathlib import Path

from connectors.mysql.kernels import EVENTS, FOLDER
from connectors.shared.kernels import Kernels, text

kernel = Kernels(Path(__file__).parent, "snapshot", FOLDER, EVENTS, text.FOLDER)
"""Declares a kernel of this package."""

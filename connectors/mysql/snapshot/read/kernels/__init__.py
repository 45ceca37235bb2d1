"""Numba kernels for result sets of the binary protocol, with the rules of `connectors.mysql.kernels`.

Their compiled code has its own cache folder, so an edit here does not recompile the log's kernels.
"""

from pathlib import Path

from connectors.mysql.kernels import EVENTS, FOLDER
from connectors.shared.kernels import Kernels, text

kernel = Kernels(Path(__file__).parent, "snapshot", FOLDER, EVENTS, text.FOLDER)
"""Declares a kernel of this package."""

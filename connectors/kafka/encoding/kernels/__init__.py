"""Numba kernels from Arrow buffers to JSON text"""

from pathlib import Path

from connectors.shared.kernels import Kernels
from connectors.shared.kernels.text import FOLDER

kernel = Kernels(Path(__file__).parent, "json", FOLDER)
"""Declares a kernel of this package."""

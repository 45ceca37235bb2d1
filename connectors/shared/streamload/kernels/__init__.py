"""Numba kernels from Arrow buffers to load text. None raises and none allocates."""

from pathlib import Path

from connectors.shared.kernels import Kernels
from connectors.shared.kernels.text import FOLDER

kernel = Kernels(Path(__file__).parent, "load", FOLDER)
"""Declares a kernel of this package."""

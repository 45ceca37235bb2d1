"""Numba kernels from Arrow buffers to load text. None of them raises or allocates."""

from pathlib import Path

from connectors.shared.kernels import Kernels
from connectors.shared.kernels.text import FOLDER

kernel = Kernels(Path(__file__).parent, "load", FOLDER)
"""Declares a kernel of this package."""

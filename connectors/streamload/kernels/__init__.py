"""Numba kernels from Arrow buffers to load text. None raises and none allocates."""

from pathlib import Path

from connectors.shared.kernels import kernels_in

kernel = kernels_in(Path(__file__).parent, "load")
"""Declares a kernel of this package."""

"""Numba kernels over row keys. None raises and none allocates."""

from pathlib import Path

from connectors.shared.kernels import kernels_in

kernel = kernels_in(Path(__file__).parent, "keys")
"""Declares a kernel of this package."""

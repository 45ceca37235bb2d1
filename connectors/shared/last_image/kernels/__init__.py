"""Numba kernels over row keys. None of them raises or allocates."""

from pathlib import Path

from connectors.shared.kernels import Kernels

kernel = Kernels(Path(__file__).parent, "keys")
"""Declares a kernel of this package."""

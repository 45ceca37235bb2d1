"""Numba kernels that write numbers, dates and times as text, and check text."""

from pathlib import Path

from connectors.shared.kernels import Kernels

FOLDER = Path(__file__).parent
"""The folder of these kernels' sources, for packages whose kernels call them."""

kernel = Kernels(FOLDER, "text")
"""Declares a kernel of this package."""

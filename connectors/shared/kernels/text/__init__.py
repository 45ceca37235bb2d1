"""Numba kernels that write numbers, dates and times as text, and judge text."""

from pathlib import Path

from connectors.shared.kernels import Kernels

FOLDER = Path(__file__).parent
"""Where the sources of these kernels are, for the packages whose kernels call them."""

kernel = Kernels(FOLDER, "text")
"""Declares a kernel of this package."""

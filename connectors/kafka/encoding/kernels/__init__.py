"""Numba kernels from Arrow buffers to JSON text"""

from pathlib import Path

from connectors.shared.kernels import kernels_in

_FORMATTERS = Path(__file__).resolve().parents[3] / "streamload" / "kernels"

kernel = kernels_in(Path(__file__).parent, "json", _FORMATTERS)
"""Declares a kernel of this package."""

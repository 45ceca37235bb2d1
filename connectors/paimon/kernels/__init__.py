"""Numba kernels over key columns: they compute the bucket of each row."""

from __future__ import annotations

from pathlib import Path

from connectors.shared.kernels import Kernels

kernel = Kernels(Path(__file__).parent, "paimon")
"""Declares a kernel of this package."""

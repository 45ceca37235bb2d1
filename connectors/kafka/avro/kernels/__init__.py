"""Numba kernels that convert Avro's binary encoding to JSON text. They neither raise nor allocate."""

from pathlib import Path

from connectors.kafka import kernels
from connectors.shared.kernels import Kernels
from connectors.shared.kernels.text import FOLDER

kernel = Kernels(Path(__file__).parent, "avro", FOLDER, Path(kernels.__file__).parent)
"""Declares a kernel of this package."""

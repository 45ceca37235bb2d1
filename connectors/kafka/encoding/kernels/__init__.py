"""Numba kernels that write JSON and Avro from Arrow buffers"""

from pathlib import Path

from connectors.kafka import kernels
from connectors.shared.kernels import Kernels
from connectors.shared.kernels.text import FOLDER

kernel = Kernels(Path(__file__).parent, "json", FOLDER, Path(kernels.__file__).parent)
"""Declares a kernel of this package."""

"""Names for the values inside kernels. Numba gives them their types at the call, so to mypy they are `Any`."""

from __future__ import annotations

from typing import Any, TypeAlias

Int: TypeAlias = Any
"""int64: a number, an offset, an address, or a negative answer code."""

Word: TypeAlias = Any
"""uint64: a bit pattern or an unsigned number."""

Bytes: TypeAlias = Any
"""uint8[:], C-contiguous."""

Ints: TypeAlias = Any
"""An integer array; the docstring says of which width and shape."""

Bool: TypeAlias = Any
"""A truth value."""

Pair: TypeAlias = Any
"""Two numbers."""

"""Type names for the values inside kernels. Numba determines types at the call, so for mypy they are `Any`."""

from __future__ import annotations

from typing import Any, TypeAlias

Int: TypeAlias = Any
"""int64: a number, an offset, an address, or a negative answer code."""

Word: TypeAlias = Any
"""uint64: a bit pattern or an unsigned number."""

Bytes: TypeAlias = Any
"""uint8[:], C-contiguous."""

Ints: TypeAlias = Any
"""An integer array; the docstring says which width and shape it has."""

Bool: TypeAlias = Any
"""A truth value."""

Pair: TypeAlias = Any
"""Two numbers."""

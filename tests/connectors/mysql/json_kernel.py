"""The JSON kernel as a function from bytes to text."""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels.json import STACK_BYTES, json_text, json_text_bound
from connectors.mysql.rows.addresses import address

_STACK = np.zeros(STACK_BYTES, np.uint8)
STACK = address(_STACK)


def kernel_text(document: bytes) -> str | int:
    """The text, or the kernel's negative answer."""
    out = np.zeros(json_text_bound(len(document)), np.uint8)
    source = np.frombuffer(document, np.uint8).copy()  # writable, as the decoder's buffers: one compiled variant
    end = json_text(source, 0, len(document), out, 0, STACK)
    return out[:end].tobytes().decode() if end >= 0 else int(end)

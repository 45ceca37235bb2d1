"""The engine's offsets: the source's offset plus the number of the batch that begins there.

Names in the sink contain the batch number, which Spark does not pass to a reader. So the offset has it under
`BATCH_KEY`: n + 1 in the end offset of batch n, 0 in the initial offset.
"""

from __future__ import annotations

from cdc.source import Offset

BATCH_KEY = "batch"


def source_offset(offset: Offset) -> Offset:
    """Return the source's part of an offset."""
    return {name: value for name, value in offset.items() if name != BATCH_KEY}


def numbered(offset: Offset, batch: int) -> Offset:
    """Return a source's offset with the number of the batch that begins there."""
    return {**offset, BATCH_KEY: batch}

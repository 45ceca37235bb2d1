"""The engine's offsets: the source's own, and the number of the batch that begins there.

Names in the sink hold the batch number, which Spark does not tell a reader. So it is part of the offset, under
`BATCH_KEY`: the end offset of batch n has n + 1, the initial offset 0.
"""

from __future__ import annotations

from cdc.source import Offset

BATCH_KEY = "batch"


def source_offset(offset: Offset) -> Offset:
    """The source's own part of an offset."""
    return {name: value for name, value in offset.items() if name != BATCH_KEY}


def numbered(offset: Offset, batch: int) -> Offset:
    """A source's offset with the number of the batch that begins there."""
    return {**offset, BATCH_KEY: batch}

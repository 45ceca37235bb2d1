"""Compiles the decoder's kernels into the cache folder, once per machine and version, by reading the demo's binlog.

Without this the first pipeline run does it, in every one of its processes at the same time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cdc.source import Context, Limits, Source
from cdc.spec.check import check_file

DEMO = Path(__file__).resolve().parent.parent / "pipelines" / "demo.yaml"
LIMITS = Limits(max_bytes=64 << 20, max_rows=1_000_000)


def main() -> int:
    """Decode everything; say how long it took."""
    sys.stdout.write("compiling the decoder for this processor (once)\n")
    sys.stdout.flush()
    started = time.monotonic()
    options = check_file(str(DEMO)).spec.source
    with tempfile.TemporaryDirectory() as folder:
        rows = sum(decoded(options.build(Context("warm", Path(folder)))))
    sys.stdout.write(f"decoder ready: {rows:,} row images in {time.monotonic() - started:.0f} s\n")
    return 0


def decoded(source: Source) -> Iterator[int]:
    """Row images of each block of the whole log."""
    start = source.initial_offset()
    while (end := source.latest_offset(start, LIMITS, 0.0)) != start:
        for split in source.splits(start, end, 1):
            yield from (len(block) for block in source.read(split, lambda _reason, _number: None))
        start = end
    source.stop()


if __name__ == "__main__":
    sys.exit(main())

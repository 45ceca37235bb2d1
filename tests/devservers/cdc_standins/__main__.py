"""The process of a stand-in: `python -m cdc_standins KIND FOLDER OPTIONS`.

Prints its ports as one line of JSON when it is ready, and ends when its standard input does, so that it never outlives
the process that started it.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

from cdc.process.without_pandas import hide_pandas
from cdc_standins.run import running


def main(kind: str, folder: str, options: str) -> None:
    """Run one stand-in until standard input ends."""
    hide_pandas()
    gc.set_threshold(200_000, 50, 100)  # rows are many lists at once, and none of them a cycle
    chosen: dict[str, Any] = json.loads(options)
    with running(kind, Path(folder), chosen) as ports:
        sys.stdout.write(json.dumps(ports) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What a worker process does with its memory once it has worked."""

from __future__ import annotations

import subprocess
import sys

KEEPS = """
import gc
from cdc.process.memory import freeze_loaded_objects
freeze_loaded_objects()
loaded = gc.get_freeze_count()
later = [[] for _ in range(1000)]
freeze_loaded_objects()
print(loaded, gc.get_freeze_count(), len(gc.get_objects()))
"""


def test_what_is_loaded_behind_the_first_task_is_not_searched_and_what_comes_later_is() -> None:
    done = subprocess.run([sys.executable, "-c", KEEPS], capture_output=True, text=True, check=True)
    loaded, kept, searched = map(int, done.stdout.split())
    assert loaded == kept > 10_000  # of interpreter, numpy and pyarrow
    assert 1000 < searched < 3000

"""Records in the state which user functions tasks have open: a process that a function kills cannot report it.

    <state>/answers/functions-batch-7-part-0-1.json    {"functions": ["region_of", "score"]}

A task writes the document before it opens its functions and removes it once they are closed. Documents of killed runs
are removed with the answers (`cdc.transform.answers.prune`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cdc.errors import WorkerLost
from cdc.state.store import Store

_NAME = re.compile(r"functions-batch-(\d+)-part-\d+-\d+\.json")


def note(store: Store, task: str, attempt: int, functions: Sequence[str]) -> None:
    """Record which functions an attempt of a task (`batch-7-part-0`) has open. Executor. Raises StateError."""
    store.write_json_later(_name(task, attempt), {"functions": list(functions)})


def forget(store: Store, task: str, attempt: int) -> None:
    """Remove the record once the functions are closed. Executor; idempotent. Raises StateError."""
    store.remove(_name(task, attempt))


def name_functions(lost: WorkerLost, store: Store, batch: int) -> WorkerLost:
    """Add to the error the functions that the lost tasks of a batch had open. Driver. Raises StateError."""
    names = [name for name in store.names() if (match := _NAME.fullmatch(name)) and int(match[1]) == batch]
    open_ones = {function for name in names for function in (store.read_json(name) or {}).get("functions", ())}
    for name in names:
        store.remove(name)
    if open_ones:
        lost.message += f"; it was running user functions: {', '.join(sorted(open_ones))}"
    return lost


def _name(task: str, attempt: int) -> str:
    return f"functions-{task}-{attempt}.json"

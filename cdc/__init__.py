"""Change data capture pipelines in YAML, run as one Spark Structured Streaming job.

The Python API (docs/python-api.md). Names are imported on first use, so `import cdc` is cheap:

    pipeline = cdc.load("shop.yaml")            # every mistake at once: SpecError
    print(cdc.plan(pipeline))                   # connects, changes nothing
    with cdc.run(pipeline) as run:              # runs in a thread; stopped at the end of the block
        print(run.status().rows)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc.api import Pipeline, Run, Status, Validation, load, plan, run, validate
    from cdc.errors import CdcError, Problem, SpecError
    from cdc.planning.plan import Plan

__version__ = "0.1.0"
__all__ = [
    "CdcError",
    "Pipeline",
    "Plan",
    "Problem",
    "Run",
    "SpecError",
    "Status",
    "Validation",
    "__version__",
    "load",
    "plan",
    "run",
    "validate",
]

_MODULES = {"CdcError": "cdc.errors", "SpecError": "cdc.errors", "Problem": "cdc.errors", "Plan": "cdc.planning.plan"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'cdc' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES.get(name, "cdc.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

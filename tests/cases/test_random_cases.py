"""Random rules, routes, behaviors and schema changes against a model in plain Python, row at a time.

`make chaos` draws other seeds.
"""

from __future__ import annotations

import pytest
from middle_model import differing


@pytest.mark.slow
def test_random_pipelines_do_what_the_model_says() -> None:
    assert differing(range(20)) == []

from __future__ import annotations

import contextlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # tests/spec may have added it already
        parser.addoption("--update-golden", action="store_true", help="write what is said now to tests/golden")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """`pytest tests/transform --update-golden`; the option is known only when this folder is named."""
    return bool(request.config.getoption("--update-golden", default=False))

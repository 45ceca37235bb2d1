from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is said now to tests/golden/spec/*.txt")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """`pytest tests/spec --update-golden`; the option is known only when this folder is named."""
    return bool(request.config.getoption("--update-golden", default=False))

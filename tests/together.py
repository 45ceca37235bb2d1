"""Many small cases as one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

_OneCase = type(pytest.param())


def together(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test tries all cases and names the one that fails: to collect and report a
    test costs some milliseconds in each process, which is more than most cases take.

    Each case has a `tmp_path` of its own. Not for functions with other fixtures that a case changes.
    """
    own = names.split(", ")
    rows = [dict(zip(own, _values(case, len(own)), strict=True)) for case in cases]
    assert rows

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def test(*given: Any, **others: Any) -> None:
            folder: Path | None = others.get("tmp_path")
            for number, values in enumerate(rows):
                if folder is not None:
                    others["tmp_path"] = folder / str(number)
                    others["tmp_path"].mkdir()
                try:
                    function(*given, **others, **values)
                except BaseException as error:
                    error.add_note(f"case: {values!r}")
                    raise

        signature = inspect.signature(function)
        others = [one for name, one in signature.parameters.items() if name not in own]
        test.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return test

    return decorate


def _values(case: Any, count: int) -> tuple[Any, ...]:
    if isinstance(case, _OneCase):
        assert not case.marks, "a mark needs a test of its own"
        return tuple(case.values)
    return (case,) if count == 1 else tuple(case)

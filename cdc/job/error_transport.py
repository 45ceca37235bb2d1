"""How our errors cross Spark: an exception in another process reaches the driver as text only, so it carries JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from cdc.errors import CdcError, EngineError, from_json

_MARK = "cdc-error:"
_MARKED = re.compile(re.escape(_MARK) + r"(\{.*?\}):end-cdc-error")

_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)

P = ParamSpec("P")
T = TypeVar("T")


class CrossingError(Exception):
    """Carries a CdcError through Spark; `recover` finds it again in whatever text Spark wraps around it."""

    def __init__(self, error: CdcError) -> None:
        super().__init__(f"{_MARK}{error.to_json()}:end-cdc-error")
        self.error = error


def crossing(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that Spark calls in another process, so that a CdcError in it can be recovered."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except CdcError as error:
            raise CrossingError(error) from error

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call


def recover(error: BaseException) -> CdcError:
    """The CdcError inside an exception that came through Spark, or an EngineError with Spark's own first line."""
    if isinstance(error, CdcError):
        return error
    text = str(error)
    match = _MARKED.search(text)
    if match:
        return from_json(match[1])
    raised = _RAISED.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return EngineError(
        f"Spark stopped: {(raised[-1:] or lines or [type(error).__name__])[0][:500]}",
        hint="CDC_DEBUG=1 shows the whole trace; a run after this one continues at the last committed batch",
    )

"""User functions in Python: inline code with one `eval`, or `module:function`.

    def eval(price: Decimal, country: str | None) -> Decimal: ...       # once per row
    def eval(a: Annotated[pa.Array, "BIGINT"]) -> Annotated[pa.Array, "BIGINT"]: ...   # once per batch

An `open(options)` next to it runs once before the first row of a task, `close()` after the last. A function with an
argument that cannot be None is not called for NULL: the result is NULL.
"""

from __future__ import annotations

import importlib
import inspect
import os.path
import sys
import typing
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import localcontext
from functools import cached_property
from typing import Any

import pyarrow as pa

from cdc.errors import TransformError
from cdc.schema import Kind
from cdc.transform.conversions import engine_type
from cdc.transform.convert import Arity
from cdc.transform.engine import EngineFunction
from cdc.transform.limits import in_range_values
from cdc.transform.rule import CustomFunction
from cdc.transform.syntax import Span
from cdc.transform.texts import UserFunction
from cdc.transform.translate import engine_name
from cdc.transform.typed import Typed, call, cast, literal, mistake
from cdc.transform.types import JSON, NullType, SqlType, is_number, is_text, kind_of
from cdc.transform.user_types import arrow_of, sql_type
from cdc.transform.user_values import EXACT, fitting, giving, values_of


class FunctionError(ValueError):
    """An unusable user function; `line` is the line in its code, 0 without one."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class UserParameter:
    """One argument: its type, whether None is allowed, and its default (`...` when it must be given)."""

    name: str
    type: SqlType
    nullable: bool
    default: Any = ...


class LoadedFunction:
    """A loaded user function: the driver types its calls, each task calls it.

    The constructor raises FunctionError for a function that cannot be used.
    """

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self._namespace = _namespace(function)
        self._call: Callable[..., Any] = self._namespace[_entry(function)]
        self.parameters, self.result, self.arrow = _signature(self._call)

    @property
    def op(self) -> str:
        """The operation of nodes that call it."""
        return f"own {self.function.name.upper()}"

    @cached_property
    def source(self) -> str:
        """The code; for a module its whole file, empty where that is not Python."""
        if not self.function.module:
            return self.function.code
        try:
            return inspect.getsource(importlib.import_module(self.function.module.partition(":")[0]))
        except (OSError, TypeError):
            return ""

    def open(self) -> None:
        """Run the user's `open`, if any. Raises TransformError."""
        self._run("open", dict(self.function.options))

    def close(self) -> None:
        """Run the user's `close`, if any. Raises TransformError."""
        self._run("close")

    def _run(self, name: str, *arguments: object) -> None:
        if not callable(self._namespace.get(name)):
            return
        try:
            self._namespace[name](*arguments)
        except Exception as error:
            message = f"{name}() failed with {type(error).__name__}: {error}"
            hint = "it runs in each task, on the machine of the task, which must have everything that it needs"
            raise TransformError(message, where=f"function {self.function.name}", hint=hint) from error

    def typed(self, args: list[Typed], span: Span) -> Typed:
        """Return the typed call; arguments are widened, never parsed from text."""
        arguments = [
            _fitting(self.function.name, arg, parameter) for arg, parameter in zip(args, self.parameters, strict=False)
        ]
        for parameter in self.parameters[len(args) :]:
            arguments.append(cast(literal(parameter.default, span), parameter.type))
        return call(self.op, self.result, arguments, span, nullable=True, fails=True)  # nothing keeps it from None

    def custom_function(self) -> CustomFunction:
        """Return the function as rules call it."""
        least = sum(parameter.default is ... for parameter in self.parameters)
        on_block = self.on_block if self.arrow else None
        return CustomFunction(Arity(least, len(self.parameters)), self, on_block=on_block)

    def engine(self) -> EngineFunction:
        """Return the function as the engine calls it."""
        arguments = tuple(engine_type(parameter.type) for parameter in self.parameters)
        return EngineFunction(engine_name(self.op), arguments, engine_type(self.result), self._on_arrays)

    def on_block(self, *arrays: pa.ChunkedArray) -> pa.Array:
        """Call a vectorised function. Raises ValueError with its name and the reason."""
        try:
            with localcontext(EXACT):
                result = self._call(*(_combine_chunks(array) for array in arrays))
        except Exception as error:
            raise ValueError(f"{self.function.name}: {type(error).__name__}: {error}") from error
        try:
            return in_range_values(fitting(result, self.result, len(arrays[0])), self.result)
        except ValueError as error:
            raise ValueError(f"{self.function.name}: {str(error).removeprefix('cdc: ')}") from error

    def _on_arrays(self, *arrays: pa.ChunkedArray) -> pa.Array:
        try:
            return self.on_block(*arrays) if self.arrow else pa.array(self._rows(arrays), arrow_of(self.result))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"cdc: {error}") from error

    def _rows(self, arrays: tuple[pa.ChunkedArray, ...]) -> list[Any]:
        columns = [values_of(array, parameter.type) for array, parameter in zip(arrays, self.parameters, strict=True)]
        strict = [number for number, parameter in enumerate(self.parameters) if not parameter.nullable]
        give, results = giving(self.result), []
        with localcontext(EXACT):
            for row in zip(*columns, strict=True):
                skipped = any(row[number] is None for number in strict)
                results.append(None if skipped else self._one(row, give))
        return results

    def _one(self, row: tuple[Any, ...], give: Callable[[Any], Any]) -> Any:
        try:
            found = self._call(*row)
        except Exception as error:
            raise ValueError(f"{self.function.name}: {type(error).__name__}: {error}") from error
        try:
            return give(found)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{self.function.name}: {error}") from error


_MOST_LOADED = 256
_loaded: OrderedDict[str, LoadedFunction] = OrderedDict()


def load(function: UserFunction) -> LoadedFunction:
    """Load a function, or return it from the cache: its code runs once per process. Raises FunctionError."""
    name = repr(function)
    _search(function)
    found = _loaded.pop(name, None) or LoadedFunction(function)
    _loaded[name] = found
    while len(_loaded) > _MOST_LOADED:
        _loaded.popitem(last=False)
    return found


def forget_functions() -> None:
    """Drop all functions: the next load runs the code again, without the earlier state."""
    _loaded.clear()


def _entry(function: UserFunction) -> str:
    return function.module.partition(":")[2] if function.module else "eval"


def _search(function: UserFunction) -> None:
    """Add the function's files to Python's import path. Raises FunctionError."""
    for path in function.paths:
        if not os.path.exists(path):
            raise FunctionError(f"{path} of python-files does not exist")
        if path not in sys.path:
            sys.path.append(path)


def _namespace(function: UserFunction) -> dict[str, Any]:
    _search(function)
    if function.module:
        path, _, name = function.module.partition(":")
        if not name:
            raise FunctionError(f"`{function.module}` is not package.module:function")
        try:
            return dict(vars(importlib.import_module(path)), **{name: getattr(importlib.import_module(path), name)})
        except (ImportError, AttributeError) as error:
            raise FunctionError(f"{function.module} cannot be loaded: {error}") from error
    namespace: dict[str, Any] = {"__name__": f"user_function_{function.name}"}
    try:
        exec(compile(function.code, f"<{function.name}>", "exec"), namespace)
    except SyntaxError as error:
        raise FunctionError(f"the code is not Python: {error.msg}", error.lineno or 0) from error
    except Exception as error:
        raise FunctionError(f"the code fails when it is loaded: {type(error).__name__}: {error}") from error
    if not inspect.isfunction(namespace.get("eval")):
        raise FunctionError("the code has no top-level function eval")
    return namespace


def _signature(function: Callable[..., Any]) -> tuple[tuple[UserParameter, ...], SqlType, bool]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise FunctionError(f"an annotation cannot be read: {error}") from error
    if "return" not in hints:
        raise FunctionError("the function does not say what it returns, such as -> str")
    parameters, arrow = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise FunctionError(f"the argument {parameter.name} must be a plain one, without * or /")
        if parameter.name not in hints:
            raise FunctionError(f"the argument {parameter.name} has no annotation, such as {parameter.name}: int")
        kind, nullable, array = _typed(hints[parameter.name], f"the argument {parameter.name}")
        arrow.append(array)
        default = ... if parameter.default is parameter.empty else parameter.default
        parameters.append(UserParameter(parameter.name, kind, nullable, default))
    result, _, array = _typed(hints["return"], "the result")
    if len({*arrow, array}) > 1:
        raise FunctionError("either all arguments and the result are Arrow arrays, or none is")
    if not parameters:
        raise FunctionError("the function takes no argument")
    return tuple(parameters), result, array


def _typed(hint: object, subject: str) -> tuple[SqlType, bool, bool]:
    try:
        return sql_type(hint)
    except ValueError as error:
        raise FunctionError(f"{subject}: {error}") from error


def _fitting(name: str, arg: Typed, parameter: UserParameter) -> Typed:
    source, to = arg.type, parameter.type
    fits = (
        isinstance(source, NullType)
        or source == to
        or (is_number(source) and is_number(to) and (kind_of(to) is not Kind.BIGINT or kind_of(source) in _WHOLE))
        or (is_text(source) and is_text(to))
        or (kind_of(source) is not None and kind_of(source) in _SAME.get(kind_of(to), ()))
        or (type(source) is type(to) and not isinstance(source, type(JSON)))
    )
    if not fits:
        message = f"{name} takes {to} as {parameter.name}, got {source}"
        raise mistake(arg.span, message, "CAST it")
    return cast(arg, to)


_WHOLE = frozenset({
    Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TINYINT_UNSIGNED, Kind.SMALLINT_UNSIGNED,
    Kind.INT_UNSIGNED,
})  # fmt: skip
_SAME: dict[Kind | None, frozenset[Kind]] = {
    Kind.BYTES: frozenset({Kind.BINARY, Kind.VARBINARY, Kind.BYTES}),
    Kind.TIMESTAMP: frozenset({Kind.TIMESTAMP, Kind.DATE}),
    Kind.TIMESTAMP_LTZ: frozenset({Kind.TIMESTAMP_LTZ}),
    Kind.TIME: frozenset({Kind.TIME}),
    Kind.JSON: frozenset({Kind.JSON}),
    Kind.BOOLEAN: frozenset({Kind.BOOLEAN}),
    Kind.DATE: frozenset({Kind.DATE}),
}


def _combine_chunks(array: pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

"""The expression engine: a sandboxed DuckDB that reads no files, loads no extensions and sees only the given batch.

An engine is used by one thread only. A statement is prepared once and run on many batches of one schema.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import duckdb
import pyarrow as pa

from cdc.errors import CdcError
from cdc.transform.extra_functions import EXTRA_FUNCTIONS
from cdc.transform.limits import CHECKS

MEMORY = "512MB"


class ExpressionFailed(Exception):
    """An expression could not be evaluated for some value; has the engine's message."""


@dataclass(frozen=True)
class EngineFunction:
    """A function on Arrow arrays: `call` takes one array per argument, including NULLs, and returns one of that length.

    `stopped` returns, once, an error that ended its work and is not about a value; the statement then raises it.
    """

    name: str
    arguments: tuple[str, ...]
    result: str
    call: Callable[..., pa.Array]
    stopped: Callable[[], CdcError | None] = lambda: None


class _Input:
    """A table in the engine whose rows are replaced for each batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.Table.from_batches([self.batch]).__arrow_c_stream__(requested_schema)


class Engine:
    """A sandboxed connection.

    Args:
        zone: the session's time zone, a region name.
        functions: the user's own functions.
        hash_key: key of HASH; without it HASH cannot be used.
    """

    def __init__(
        self, *, zone: str = "UTC", functions: Sequence[EngineFunction] = (), hash_key: bytes | None = None
    ) -> None:
        self.zone, self.hash_key = zone, hash_key
        self._connection = duckdb.connect(":memory:", config={"threads": "1", "python_enable_replacements": "false"})
        self._count = 0
        self._stopped = [function.stopped for function in functions]
        self._shared: dict[tuple[tuple[str, ...], str | None, pa.Schema], PreparedStatement] = {}
        checks = (EngineFunction(name, (takes,), gives, call) for name, (takes, gives, call) in CHECKS.items())
        extra = (EngineFunction(name, each.arguments, each.result, each.call) for name, each in EXTRA_FUNCTIONS.items())
        for function in (*functions, _FAIL, *checks, *extra, *(_hashes(hash_key) if hash_key else ())):
            self._connection.create_function(
                function.name, _with_arguments(function), list(function.arguments), function.result, type="arrow",
                null_handling="special",
            )  # fmt: skip
        for setting in (
            f"TimeZone = '{zone}'", "ieee_floating_point_ops = false", f"memory_limit = '{MEMORY}'",
            "enable_external_access = false", "enable_progress_bar = false", "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            # Otherwise repeated parts would be computed once, before the TRY or CASE that guards them.
            "disabled_optimizers = 'common_subexpressions'", "lock_configuration = true",
        ):  # fmt: skip
            self._connection.execute(f"SET {setting}")

    def shared(self, select: Sequence[str], where: str | None, schema: pa.Schema) -> PreparedStatement:
        """Return a statement as from `prepare`, shared by all callers with the same texts until each has closed it."""
        key = (tuple(select), where, schema)
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = self.prepare(select, where, schema)
            found.forget = partial(self._shared.pop, key)
        else:
            found.users += 1
        return found

    def prepare(self, select: Sequence[str], where: str | None, schema: pa.Schema) -> PreparedStatement:
        """Prepare a statement on batches of this Arrow schema; it refers to columns by name.

        Raises ExpressionFailed when the engine refuses it, such as for an invalid regular expression.
        """
        self._count += 1
        name = f"batch{self._count}"
        source = _Input(pa.RecordBatch.from_pylist([], schema=schema))
        self._connection.register(name, source)
        text = f"SELECT {', '.join(f'{sql} AS r{n}' for n, sql in enumerate(select))} FROM {name}"
        try:
            self._connection.execute(f"PREPARE run{self._count} AS {text}{f' WHERE {where}' if where else ''}")
        except duckdb.Error as error:
            raise ExpressionFailed(engine_message(error)) from error
        return PreparedStatement(self._connection, self._count, source, self._stopped)


class PreparedStatement:
    """A prepared statement; use it in a `with` block when it is needed once."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        number: int,
        source: _Input,
        stopped: Sequence[Callable[[], CdcError | None]] = (),
    ) -> None:
        self._connection, self._number, self._source, self._stopped = connection, number, source, stopped
        self.users = 1
        self.forget: Callable[[], object] = lambda: None

    def __enter__(self) -> PreparedStatement:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release it; to be called once by each of its users."""
        self.users -= 1
        if self.users:
            return
        self.forget()
        self._connection.execute(f"DEALLOCATE run{self._number}")
        self._connection.unregister(f"batch{self._number}")

    def run(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the result for a batch, columns r0, r1, ...; rows in the batch's order.

        Raises ExpressionFailed, and errors that stopped a function.
        """
        try:
            return self._run(batch)
        finally:
            self._raise_stopped()  # also when TRY has turned it into NULL

    def _raise_stopped(self) -> None:
        for error in [stopped() for stopped in self._stopped]:
            if error is not None:
                raise error

    def _run(self, batch: pa.RecordBatch) -> pa.Table:
        self._source.batch = batch
        try:
            result = self._connection.execute(f"EXECUTE run{self._number}")
            with warnings.catch_warnings():
                # A relation would avoid a copy, but takes twice the time on small batches.
                warnings.simplefilter("ignore", UserWarning)
                return result.to_arrow_table()
        except duckdb.Error as error:
            raise ExpressionFailed(engine_message(error)) from error
        finally:
            self._source.batch = batch.slice(0, 0)


def engine_message(error: Exception) -> str:
    """Return the engine's message without its prefixes and advice."""
    text = str(error).split("\n", 1)[0]
    _, mark, message = text.partition("cdc: ")
    if mark:
        return message
    for start in ("Python exception occurred while executing the UDF: ",):
        text = text.partition(start)[2] or text
    kind, colon, detail = text.partition(" Error: ")
    text = detail if colon and " " not in kind.replace(" ", "", 3) else text
    return (
        text.partition(" Use TRY(")[0].partition(". You might want to add")[0].partition(" in expression (")[0].strip()
    )


def _with_arguments(function: EngineFunction) -> Callable[..., pa.Array]:
    """Wrap the function with one named parameter per argument type, as the engine counts the parameters."""

    def called(*arrays: pa.Array) -> pa.Array:
        return function.call(*arrays)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(f"a{number}", kind) for number in range(len(function.arguments))]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _fail(messages: pa.Array, rows: pa.Array) -> pa.Array:
    raise ValueError(f"cdc: {messages[0].as_py()}")


_FAIL = EngineFunction("cdc_fail", ("VARCHAR", "INTEGER"), "BOOLEAN", _fail)


def _hashes(key: bytes) -> tuple[EngineFunction, EngineFunction]:
    first = hmac.new(key, digestmod=hashlib.sha256)

    def digest(values: pa.Array) -> pa.Array:
        result: list[str | None] = []
        for value in values.cast(pa.binary()).to_pylist():
            if value is None:
                result.append(None)
                continue
            each = first.copy()
            each.update(value)
            result.append(each.hexdigest())
        return pa.array(result, pa.string())

    return (
        EngineFunction("cdc_hash", ("VARCHAR",), "VARCHAR", digest),
        EngineFunction("cdc_hash_bytes", ("BLOB",), "VARCHAR", digest),
    )

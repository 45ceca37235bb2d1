"""Functions that users write in Python."""

from __future__ import annotations

import builtins
import datetime as dt
import json
import pickle
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from together import together
from transform_rules import EMPTY, ROW, ZONE, applied, compiled

from cdc.errors import SpecError, TransformError
from cdc.spec.check import check
from cdc.spec.rules import parsed_rules
from cdc.testing.cases import STAND_INS
from cdc.transform.engine import Engine
from cdc.transform.failures import Counts
from cdc.transform.texts import UserFunction
from cdc.transform.user import FunctionError, LoadedFunction, forget_functions

HEAD = """\
from __future__ import annotations
import datetime
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated
import pyarrow as pa
import pyarrow.compute as pc
"""


def called(code: str, expression: str, *, options: dict[str, str] | None = None) -> list[Any]:
    """The answers for the full row and for the one of NULLs."""
    ((_, *answers),) = all_called([(code, expression)], options)
    return answers


def all_called(calls: list[tuple[str, str]], options: dict[str, str] | None = None) -> list[tuple[str, Any, Any]]:
    """For each code and an expression with `own`: its type and both answers."""
    names = [f"own{number}" for number in range(len(calls))]
    functions = [
        LoadedFunction(UserFunction(name, HEAD + code, options=options or {}))
        for name, (code, _) in zip(names, calls, strict=True)
    ]
    for function in functions:
        function.open()
    columns = [re.sub(r"(?i)\bown\(", f"{name}(", text) for name, (_, text) in zip(names, calls, strict=True)]
    made = compiled(
        engine=Engine(zone=ZONE, functions=[function.engine() for function in functions]),
        own={name.upper(): function.custom_function() for name, function in zip(names, functions, strict=True)},
        projection=f"id, {', '.join(f'{column} AS a_{name}' for name, column in zip(names, columns, strict=True))}",
    )
    (_, full), (_, empty) = applied(made, [("+I", ROW), ("+I", EMPTY)])
    for function in functions:
        function.close()
    return [(str(made.schema.column(f"a_{name}").type), full[f"a_{name}"], empty[f"a_{name}"]) for name in names]


CALLS: list[tuple[str, str, str, Any]] = [
    ("def eval(a: int) -> int: return a + 1", "own(n)", "BIGINT", 8),
    ("def eval(a: str, b: str) -> str: return b + a", "own(s, v)", "STRING", "abcHello Wörld"),
    ("def eval(a: float) -> float: return a / 2", "own(n)", "DOUBLE", 3.5),
    ("def eval(a: bool) -> bool: return not a", "own(z)", "BOOLEAN", False),
    ("def eval(a: bytes) -> bytes: return a * 2", "own(b)", "BYTES", b"xyxy"),
    (
        "def eval(a: Decimal) -> Annotated[Decimal, 'DECIMAL(10, 2)']: return a.quantize(Decimal('0.01')) * 2",
        "own(d)", "DECIMAL(10, 2)", Decimal("24.68"),
    ),
    (
        "def eval(a: Decimal) -> Decimal: return a * 2",
        "own(CASE WHEN n > 0 THEN CAST('12345678901234567.123456789012345678' AS DECIMAL(38, 18)) END)",
        "DECIMAL(38, 18)", Decimal("24691357802469134.246913578024691356"),
    ),
    (
        "def eval(a: Decimal) -> Decimal: return a * a * a",
        "own(CASE WHEN n > 0 THEN CAST('10.5' AS DECIMAL(38, 18)) END)", "DECIMAL(38, 18)", Decimal("1157.625"),
    ),
    ("def eval(a: date) -> date: return a + timedelta(days=1)", "own(day)", "DATE", dt.date(2024, 2, 1)),
    ("def eval(a: datetime.datetime) -> str: return a.isoformat()", "own(t)", "STRING",
     "2024-01-31T03:04:05.678000"),
    ("def eval(a: timedelta) -> timedelta: return -a", "own(c)", "TIME(6)", -ROW["c"]),
    (
        "def eval(a: Annotated[datetime.datetime, 'TIMESTAMP_LTZ(3)']) -> str: return a.isoformat()",
        "own(l)", "STRING", "2024-02-01T02:04:05.678000+08:00",
    ),
    ("def eval(a: list[int]) -> list[int]: return sorted(a)",
        "own(CASE WHEN n > 0 THEN ARRAY[n, 1] END)[1]", "BIGINT", 1),
    ("def eval(a: str) -> dict[str, int]: return {a: len(a)}", "own(v)['abc']", "BIGINT", 3),
    ("def eval(a: dict) -> str: return a['k']", "own(j)", "STRING", "v"),
    (
        "def eval(a: Annotated[pa.Array, 'BIGINT']) -> Annotated[pa.Array, 'BIGINT']: return pc.add(a, 1)",
        "own(n)", "BIGINT", 8,
    ),
]  # fmt: skip


def test_types_come_from_annotations_and_null_is_null() -> None:
    assert all_called([(code, expression) for code, expression, _, _ in CALLS]) == [
        (kind, answer, None) for _, _, kind, answer in CALLS
    ]


def test_a_function_that_takes_none_is_called_for_null() -> None:
    assert called("def eval(a: int | None) -> str: return repr(a)", "own(n)") == ["7", "None"]


def test_the_column_of_a_function_is_nullable_as_in_flink_cdc() -> None:
    """Nothing makes a function with `-> str` return one: NULL in a column that is NOT NULL is refused by readers."""
    function = LoadedFunction(UserFunction("own", "def eval(a: int) -> str: return None"))
    made = compiled(
        engine=Engine(functions=[function.engine()]),
        own={"OWN": function.custom_function()},
        projection="id, own(id) AS a",
    )
    assert made.schema.column("a").nullable
    assert [row for _, row in applied(made, [("+I", ROW)])] == [{"id": ROW["id"], "a": None}]


def test_an_argument_with_a_default_can_be_left_out() -> None:
    assert called("def eval(a: int, b: int = 10) -> int: return a * b", "own(n) + own(n, 2)") == [84, None]


def test_open_gets_the_options_and_close_is_called() -> None:
    code = """
state = {}
def open(options): state.update(options)
def close(): state.clear()
def eval(a: int) -> str: return state["word"] + str(a)
"""
    assert called(code, "own(n)", options={"word": "x"}) == ["x7", None]


def test_a_function_shadows_a_built_in_one_and_is_guarded_like_any_other() -> None:
    function = LoadedFunction(UserFunction("upper", "def eval(a: str) -> str:\n    return a[2]"))
    made = compiled(
        engine=Engine(functions=[function.engine()]), own={"UPPER": function.custom_function()},
        projection="id, CASE WHEN CHAR_LENGTH(s) > 2 THEN UPPER(s) END AS a",
    )  # fmt: skip
    rows = [("+I", {"id": 1, "s": "x"}), ("+I", {"id": 2, "s": "abc"})]
    assert [row["a"] for _, row in applied(made, rows)] == [None, "c"]


def test_an_error_in_a_function_names_the_row_and_the_reason() -> None:
    function = LoadedFunction(UserFunction("own", "def eval(a: int) -> int:\n    return 1 // (a - 7)"))
    made = compiled(
        engine=Engine(functions=[function.engine()]),
        own={"OWN": function.custom_function()},
        projection="id, own(n) AS a",
    )
    with pytest.raises(TransformError, match="id=1: own: ZeroDivisionError"):
        applied(made, [("+I", EMPTY), ("+I", ROW)])


def test_a_function_of_a_module() -> None:
    function = LoadedFunction(UserFunction("own", module="tests.transform.test_user_functions:twice"))
    made = compiled(
        engine=Engine(functions=[function.engine()]),
        own={"OWN": function.custom_function()},
        projection="id, own(n) AS a",
    )
    assert applied(made, [("+I", ROW)])[0][1]["a"] == 14
    assert "return a * 2" in function.source, "an edit of the module is one of the rule"


def twice(a: int) -> int:
    return a * 2


@together(
    "code, message",
    [
        ("def eval(a: int) -> int\n  return a", "not Python"),
        ("x = 1", "no top-level function eval"),
        ("def eval(a) -> int: return a", "argument a has no annotation"),
        ("def eval(a: int): return a", "does not say what it returns"),
        ("def eval(a: set) -> int: return a", "annotation set is not an SQL type"),
        ("def eval(*a: int) -> int: return 1", "must be a plain one"),
        ("import pyarrow as pa\ndef eval(a: pa.Array) -> int: return 1", "Arrow array says what is in it"),
        ("import nosuchmodule\ndef eval(a: int) -> int: return 1", "fails when it is loaded"),
        ("def eval() -> int: return 1", "takes no argument"),
    ],
)
def test_code_that_cannot_be_used_is_explained(code: str, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        LoadedFunction(UserFunction("own", code))


def test_a_syntax_error_has_its_line() -> None:
    with pytest.raises(FunctionError) as caught:
        LoadedFunction(UserFunction("own", "x = 1\ndef eval(a: int) -> int\n  return a"))
    assert caught.value.line == 2


def test_arguments_are_not_read_from_text() -> None:
    function = LoadedFunction(UserFunction("own", "def eval(a: int) -> int: return a"))
    for expression, message in (("own(s)", "takes BIGINT as a, got STRING"), ("own(n, n)", "takes 1 argument, got 2")):
        with pytest.raises(SpecError, match=message):
            compiled(engine=Engine(functions=[function.engine()]), own={"OWN": function.custom_function()},
                     projection=f"id, {expression} AS a")  # fmt: skip


def test_a_vectorised_function_must_give_as_many_values_as_it_got() -> None:
    code = "def eval(a: Annotated[pa.Array, 'BIGINT']) -> Annotated[pa.Array, 'BIGINT']: return a[:0]"
    with pytest.raises(TransformError, match="an Arrow array of"):
        called(code, "own(n)")


SCALAR = "def eval(a: int) -> Annotated[object, '{kind}']: return {value}"
WHOLE = (
    "def eval(a: Annotated[pa.Array, 'BIGINT']) -> Annotated[pa.Array, '{kind}']: return pa.array([{value}] * len(a))"
)
HOUR = "datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.timezone.utc)"


@together("code", [SCALAR, WHOLE])
@together(
    "kind, value",
    [
        ("BIGINT", "1.75"), ("BIGINT", "2.0"), ("INT", "2**40"), ("TINYINT", "300"), ("BIGINT", "True"),
        ("BIGINT", "'1'"), ("BOOLEAN", "1"), ("DOUBLE", "'1'"), ("DOUBLE", "2**53 + 1"), ("DOUBLE", "True"),
        ("DOUBLE", "float('nan')"), ("DOUBLE", "float('inf')"), ("STRING", "1"), ("STRING", "b'x'"),
        ("VARCHAR(2)", "'abc'"), ("BYTES", "'x'"), ("BINARY(2)", "b'xyz'"),
        ("DATE", "datetime.datetime(2024, 1, 2, 3)"), ("FLOAT", "1e300"),
        ("DATE", "'2024-01-02'"), ("TIMESTAMP(6)", "datetime.date(2024, 1, 2)"), ("TIMESTAMP(6)", HOUR),
        ("TIMESTAMP_LTZ(6)", "datetime.datetime(2024, 1, 2, 3)"), ("DECIMAL(4, 1)", "1.5"),
        ("DECIMAL(4, 1)", "Decimal('1.25')"), ("DECIMAL(4, 1)", "Decimal('1234.5')"), ("TIME(6)", "'01:00'"),
        ("JSON", "float('nan')"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_the_declared_type_is_refused(code: str, kind: str, value: str) -> None:
    function = LoadedFunction(UserFunction("own", HEAD + code.format(kind=kind, value=value)))
    with pytest.raises(ValueError, match=r"^cdc: own: ") as caught:
        function.engine().call(pa.chunked_array([[7]]))
    assert "beside" not in str(caught.value)


def test_a_value_that_fits_is_taken_as_it_is() -> None:
    fitting = [
        ("INT", "7", 7), ("DOUBLE", "3", 3.0), ("DECIMAL(4, 1)", "3", Decimal("3.0")), ("VARCHAR(3)", "'abc'", "abc"),
        ("DECIMAL(4, 1)", "Decimal('123.50')", Decimal("123.5")), ("BOOLEAN", "True", True),
        ("TIMESTAMP(6)", "datetime.datetime(2024, 1, 2, 3)", dt.datetime(2024, 1, 2, 3)),
        ("DATE", "datetime.date(2024, 1, 2)", dt.date(2024, 1, 2)),
        ("TIME(6)", "datetime.timedelta(hours=-3)", dt.timedelta(hours=-3)),
    ]  # fmt: skip
    codes = [code.format(kind=kind, value=value) for code in (SCALAR, WHOLE) for kind, value, _ in fitting]
    calls = [(code, "own(n)") for code in codes]
    assert [(kind, full) for kind, full, _ in all_called(calls)] == [(kind, answer) for kind, _, answer in fitting] * 2


def test_numpy_numbers_are_numbers() -> None:
    code = "import numpy as np\ndef eval(a: int) -> {}: return np.{}(3)"
    assert called(code.format("int", "int64"), "own(n)") == [3, None]
    assert called(code.format("float", "float32"), "own(n)") == [3.0, None]


@pytest.mark.parametrize("name", ["open", "close"])
def test_open_and_close_that_fail_are_named(name: str) -> None:
    arguments = "options" if name == "open" else ""
    code = f"def {name}({arguments}): raise OSError('no model file')\ndef eval(a: int) -> int: return a"
    with pytest.raises(TransformError, match=rf"function own0: {name}\(\) failed with OSError: no model file"):
        called(code, "own(n)")


BY_LENGTH = "def eval(a: Annotated[pa.Array, 'BIGINT']) -> Annotated[pa.Array, 'BIGINT']: return pc.multiply(a, len(a))"


def test_a_vectorised_function_gets_all_rows_of_a_block_at_once() -> None:
    function = LoadedFunction(UserFunction("own", HEAD + BY_LENGTH))
    made = compiled(
        engine=Engine(functions=[function.engine()]), own={"OWN": function.custom_function()}, filter="id >= 1000",
        projection="id, own(n) AS a, own(n + 1) AS b, OWN(n) + 0 AS c",
    )  # fmt: skip
    rows = applied(made, [("+I", {**ROW, "id": number, "n": 1}) for number in range(6000)])
    assert [row["id"] for _, row in rows] == list(range(1000, 6000))
    assert {(row["a"], row["b"]) for _, row in rows} == {(5000, 10000)}
    assert {row["c"] for _, row in rows} != {5000}  # by the engine, which has at most 2,048 rows at a time


def test_a_vectorised_function_is_not_called_for_no_row() -> None:
    code = "def eval(a: Annotated[pa.Array, 'BIGINT']) -> Annotated[pa.Array, 'BIGINT']: return pc.add(a, 1 // len(a))"
    function = LoadedFunction(UserFunction("own", HEAD + code))
    made = compiled(
        engine=Engine(functions=[function.engine()]), own={"OWN": function.custom_function()}, filter="id > 5",
        projection="id, own(n) AS a",
    )  # fmt: skip
    assert applied(made, [("+I", ROW)]) == []


@pytest.mark.parametrize(("on_error", "answers"), [("null", [7, None]), ("dead-letter", [7])])
def test_rows_that_a_vectorised_function_fails_on_are_null_or_left_out(on_error: Any, answers: list[Any]) -> None:
    code = "def eval(a: Annotated[pa.Array, 'BIGINT']) -> Annotated[pa.Array, 'BIGINT']: return pc.divide(7, a)"
    function = LoadedFunction(UserFunction("own", HEAD + code))
    made = compiled(
        engine=Engine(functions=[function.engine()]), own={"OWN": function.custom_function()}, on_error=on_error,
        projection="id, own(n) AS a",
    )  # fmt: skip
    given = applied(made, [("+I", {**ROW, "id": 1, "n": 1}), ("+I", {**ROW, "id": 2, "n": 0})], Counts())
    assert [row["a"] for _, row in given] == answers


def test_the_code_of_a_function_runs_once_in_a_process() -> None:
    code = "import builtins\nbuiltins.__dict__.setdefault('loads', []).append(1)\ndef eval(a: int) -> int: return a"
    text = json.dumps({
        "transform": [{"source-table": "shop.t", "projection": "id, own(id) AS a"}],
        "pipeline": {"user-defined-function": [{"name": "own", "python-code": code}]},
    })  # fmt: skip
    forget_functions()
    vars(builtins).pop("loads", None)
    spec = check("p.yaml", text.encode(), env={}, stand_ins=STAND_INS).spec
    made = [pickle.loads(pickle.dumps(parsed_rules(spec))) for _ in range(2)]
    assert len(made) == 2
    assert vars(builtins).pop("loads") == [1]

"""Functions that users write in Python."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from cdc.errors import SpecError, TransformError
from cdc.transform.engine import Engine
from cdc.transform.texts import UserFunction
from cdc.transform.user import FunctionError, Loaded
from tests.transform_rules import EMPTY, ROW, ZONE, applied, compiled

HEAD = """\
from __future__ import annotations
import datetime
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated
import pyarrow as pa
import pyarrow.compute as pc
"""


def called(code: str, expression: str, *, options: dict[str, str] | None = None, kind: str | None = None) -> list[Any]:
    function = Loaded(UserFunction("own", HEAD + code, options=options or {}))
    function.open()
    made = compiled(
        engine=Engine(zone=ZONE, functions=[function.engine()]),
        own={"OWN": function.own()},
        projection=f"id, {expression} AS a",
    )
    if kind is not None:
        assert str(made.schema.column("a").type) == kind
    answers = [row["a"] for _, row in applied(made, [("+I", ROW), ("+I", EMPTY)])]
    function.close()
    return answers


@pytest.mark.parametrize(
    ("code", "expression", "kind", "answer"),
    [
        ("def eval(a: int) -> int: return a + 1", "own(n)", "BIGINT", 8),
        ("def eval(a: str, b: str) -> str: return b + a", "OWN(s, v)", "STRING", "abcHello Wörld"),
        ("def eval(a: float) -> float: return a / 2", "own(n)", "DOUBLE", 3.5),
        ("def eval(a: bool) -> bool: return not a", "own(z)", "BOOLEAN", False),
        ("def eval(a: bytes) -> bytes: return a * 2", "own(b)", "BYTES", b"xyxy"),
        (
            "def eval(a: Decimal) -> Annotated[Decimal, 'DECIMAL(10, 2)']: return a.quantize(Decimal('0.01')) * 2",
            "own(d)", "DECIMAL(10, 2)", Decimal("24.68"),
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
    ],
)  # fmt: skip
def test_types_come_from_annotations_and_null_is_null(code: str, expression: str, kind: str, answer: Any) -> None:
    assert called(code, expression, kind=kind) == [answer, None]


def test_a_function_that_takes_none_is_called_for_null() -> None:
    assert called("def eval(a: int | None) -> str: return repr(a)", "own(n)") == ["7", "None"]


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
    function = Loaded(UserFunction("upper", "def eval(a: str) -> str:\n    return a[2]"))
    made = compiled(
        engine=Engine(functions=[function.engine()]), own={"UPPER": function.own()},
        projection="id, CASE WHEN CHAR_LENGTH(s) > 2 THEN UPPER(s) END AS a",
    )  # fmt: skip
    rows = [("+I", {"id": 1, "s": "x"}), ("+I", {"id": 2, "s": "abc"})]
    assert [row["a"] for _, row in applied(made, rows)] == [None, "c"]


def test_an_error_in_a_function_names_the_row_and_the_reason() -> None:
    function = Loaded(UserFunction("own", "def eval(a: int) -> int:\n    return 1 // (a - 7)"))
    made = compiled(
        engine=Engine(functions=[function.engine()]), own={"OWN": function.own()}, projection="id, own(n) AS a"
    )
    with pytest.raises(TransformError, match="id=1: own: ZeroDivisionError"):
        applied(made, [("+I", EMPTY), ("+I", ROW)])


def test_a_function_of_a_module() -> None:
    function = Loaded(UserFunction("own", module="tests.transform.test_user_functions:twice"))
    made = compiled(
        engine=Engine(functions=[function.engine()]), own={"OWN": function.own()}, projection="id, own(n) AS a"
    )
    assert applied(made, [("+I", ROW)])[0][1]["a"] == 14


def twice(a: int) -> int:
    return a * 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def eval(a: int) -> int\n  return a", "not Python"),
        ("x = 1", "no top-level function eval"),
        ("def eval(a) -> int: return a", "argument a has no annotation"),
        ("def eval(a: int): return a", "does not say what it returns"),
        ("def eval(a: set) -> int: return a", "annotation set is no SQL type"),
        ("def eval(*a: int) -> int: return 1", "must be a plain one"),
        ("import pyarrow as pa\ndef eval(a: pa.Array) -> int: return 1", "Arrow array says what is in it"),
        ("import nosuchmodule\ndef eval(a: int) -> int: return 1", "fails when it is loaded"),
        ("def eval() -> int: return 1", "takes no argument"),
    ],
)
def test_code_that_cannot_be_used_is_explained(code: str, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        Loaded(UserFunction("own", code))


def test_a_syntax_error_has_its_line() -> None:
    with pytest.raises(FunctionError) as caught:
        Loaded(UserFunction("own", "x = 1\ndef eval(a: int) -> int\n  return a"))
    assert caught.value.line == 2


def test_arguments_are_not_read_from_text() -> None:
    function = Loaded(UserFunction("own", "def eval(a: int) -> int: return a"))
    for expression, message in (("own(s)", "takes BIGINT as a, got STRING"), ("own(n, n)", "takes 1 argument, got 2")):
        with pytest.raises(SpecError, match=message):
            compiled(engine=Engine(functions=[function.engine()]), own={"OWN": function.own()},
                     projection=f"id, {expression} AS a")  # fmt: skip


def test_a_vectorised_function_must_give_as_many_values_as_it_got() -> None:
    code = "def eval(a: Annotated[pa.Array, 'BIGINT']) -> Annotated[pa.Array, 'BIGINT']: return a[:0]"
    with pytest.raises(TransformError, match="an Arrow array of"):
        called(code, "own(n)")

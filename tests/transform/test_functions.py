"""Functions over random values: the engine answers as a line of plain Python does, and MySQL where it means the same.

`make chaos` draws other seeds.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import function_model as model
import pytest
from together import together
from transform_rules import applied, compiled, rule

from cdc.errors import SpecError
from cdc.schema import TableSchema
from cdc.transform.catalogue import FUNCTIONS
from cdc.transform.compiler import compile_rule
from cdc.transform.engine import Engine
from cdc.transform.extra_functions import groups
from cdc_services.server import MySqlServer

SAMPLES = {
    "TEXT": "s", "SHOWN": "s", "INT": "m", "NUMBER": "d", "DOUBLE": "g", "BOOLEAN": "(m = 1)", "JSON": "j",
    "MOMENT": "t", "CLOCK": "t", "DATA": "s", "ANY": "s", "ZONE": "'UTC'", "UNIT": "DAY", "ARRAY": "ARRAY[m, 1]",
    "COLLECTION": "ARRAY[m, 1]", "BYTES": "CAST(s AS BYTES)",
}  # fmt: skip
CONSTANTS = {"JSON_VALUE": "'$.a'", "JSON_QUERY": "'$.a'", "DATE_TRUNC": "'day'"}
ROW = {"id": 1, "s": "abc", "m": 1, "d": Decimal(2), "g": 1.5, "t": dt.datetime(2024, 1, 31), "j": '{"a": 1}', "n": 2}
NOT_NULL = {"CONSTANT", "UNIT", "ZONE", "ARRAY", "COLLECTION"}
LEAVES_NULLS_OUT = {"CONCAT_WS", "IF", "COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST", "ARRAY", "MAP", "ROW"}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(zone="UTC", hash_key=b"key")


@pytest.mark.slow
def test_functions_answer_as_the_model_does() -> None:
    assert model.differing(range(2)) == []


def test_every_function_is_null_where_an_argument_is(engine: Engine) -> None:
    calls: list[str] = []
    for name, function in FUNCTIONS.items():
        if name in LEAVES_NULLS_OUT:
            continue
        for count in range(max(function.arity.least, 1), len(function.parameters) + 1):
            kinds = [parameter.accepts for parameter in function.parameters[:count]]
            if name == "DATE_FORMAT_TZ":
                kinds[-1] = "ZONE"
            args = [CONSTANTS.get(name, "'yyyy'") if kind == "CONSTANT" else SAMPLES[kind] for kind in kinds]
            constant = "0" if name == "ROUND" or "REGEXP" in name else "1" if "ARRAY_" in name else ""
            replaced = ("m",) if "REGEXP" in name else ("m", "s")
            args[1:] = [constant if constant and arg in replaced else arg for arg in args[1:]]
            if name in ("TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_LTZ", "UNIX_TIMESTAMP"):
                continue
            if name == "DATE_ADD":
                args[0] = "t"
            for place, arg in enumerate(args):
                if kinds[place] not in NOT_NULL and arg not in ("0", "1"):
                    nulls = [*args[:place], f"CASE WHEN id > 1 THEN {arg} END", *args[place + 1 :]]
                    call = f"EXTRACT(DAY FROM {nulls[1]})" if name == "EXTRACT" else f"{name}({', '.join(nulls)})"
                    calls += [] if "PARSE_JSON" in name else [call]
    items = ", ".join(f"{sql} AS a{number}" for number, sql in enumerate(calls))
    made = compile_rule(rule(projection=f"id, {items}"), model.SCHEMA, engine)
    ((_, answers),) = applied(made, [("+I", ROW)])
    assert {calls[int(name[1:])]: value for name, value in answers.items() if name != "id" and value is not None} == {}


@together("call", ["LEFT(s, n)", "RIGHT(s, n)", "OVERLAY(s PLACING s FROM n FOR n)", "LOCATE(s, s, n)", "MASK(s, n)"])
def test_a_function_that_cannot_fail_takes_every_number(call: str, engine: Engine) -> None:
    columns = tuple(replace(column, nullable=column.name not in ("s", "n")) for column in model.SCHEMA.columns)
    table = TableSchema(columns, ())
    made = compile_rule(rule(projection=f"id, {call} AS answer"), table, engine)
    assert not made.schema.column("answer").nullable
    for number in (-(2**63), 2**63 - 1, 2**32, 2**31):
        ((_, out),) = applied(made, [("+I", {"id": 1, "s": "a", "n": number})])
        assert out["answer"] is not None


@together(
    "regex, count",
    [("a", 0), (r"\(a", 0), ("(?:a)", 0), ("[(]", 0), (r"[\](](b)", 1), ("(a(b))", 2), ("(?P<x>a)(b)", 2),
     (r"\Q(\E(a)", 1), ("[[:alpha:](](a)", 1), ("(?i)(a)", 1)],
)  # fmt: skip
def test_groups_of_a_regular_expression_are_counted(regex: str, count: int, engine: Engine) -> None:
    assert groups(regex) == count
    compiled(engine=engine, projection=f"id, REGEXP_EXTRACT_ALL(s, '{regex}') AS a")
    compiled(engine=engine, projection=f"id, REGEXP_EXTRACT(s, '{regex}', {count}) AS a")


@together(
    "call, message",
    [
        ("REGEXP_REPLACE(s, 'x', '$1')", "1:28: .*there is no group .1 in the regular expression 'x'"),
        ("JSON_VALUE(j, '$.*')", "the path '..\\*' of JSON_VALUE cannot be read"),
        ("JSON_VALUE(j, 'a')", "such as ..a.b"),
        ("JSON_QUERY(j, '$.c[-1]')", "JSON_QUERY cannot be read"),
        ("TIMESTAMP_DIFF(DAYS_, t, t)", "not a unit of time"),
        ("INTERVAL '1' DAY IS NULL", "an INTERVAL can only be added"),
        ("ROW(INTERVAL '1' DAY, 1)", "an INTERVAL can only be added"),
        ("TO_TIMESTAMP_LTZ(s, v)", "takes text constants after the text"),
        ("n = '1_000'", "'1_000' is not a value of type"),
        ("n = '1e999999999'", "is not a value of type"),
    ],
)
def test_what_has_no_answer_is_told_before_any_row(call: str, message: str, engine: Engine) -> None:
    with pytest.raises(SpecError, match=message):
        compiled(engine=engine, projection=f"id, {call} AS a")


@pytest.mark.mysql
def test_mysql_answers_alike(mysql_server: MySqlServer, engine: Engine) -> None:
    judged = [each for each in model.ANSWERS if each.mysql]
    texts = ", ".join(each.sql if each.mysql == model.SAME else each.mysql for each in judged)
    kinds = {"TIMESTAMP": "DATETIME", "VARCHAR(60)": "VARCHAR(60) COLLATE utf8mb4_bin"}
    database = mysql_server.new_database()
    columns = ", ".join(
        f"{name} {kinds.get(kind, kind.replace('TIMESTAMP', 'DATETIME'))}" for name, kind in model.KINDS.items()
    )
    found: list[str] = []
    connection = mysql_server.connect(database=database)
    with connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'")
        cursor.execute(f"CREATE TABLE t ({columns})")
        for seed in range(2):
            given = model.rows(seed)
            marks = ", ".join(["%s"] * len(model.KINDS))
            cursor.execute("DELETE FROM t")
            cursor.executemany(f"INSERT INTO t VALUES ({marks})", [list(row.values()) for row in given])
            cursor.execute(f"SELECT {texts.replace('%', '%%')} FROM t ORDER BY id", ())
            for row, answers in zip(given, cursor.fetchall(), strict=True):
                for each, is_ in zip(judged, answers, strict=True):
                    wanted = each.at(row)
                    if wanted is not model.Fails and is_ != wanted:
                        found.append(f"seed {seed}: {each.sql}, {row}: MySQL has {is_!r}, the model {wanted!r}")
    assert found == []

"""Functions of JSON, arrays, maps and rows. Indexes count from 1; missing elements are NULL."""

from __future__ import annotations

import re

from cdc.schema import Kind
from cdc.transform import operators
from cdc.transform.catalogue.function import Function, ResultRule
from cdc.transform.conversions import failing, text_literal
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, cast, mistake
from cdc.transform.types import (
    BIGINT,
    BOOLEAN,
    FLOAT,
    INT,
    JSON,
    STRING,
    Array,
    Map,
    NullType,
    RowType,
    SqlType,
    is_integer,
    is_text,
    kind_of,
)

_J, _N = "JSON", "Arrays, maps and rows"


def element_type(kind: SqlType) -> SqlType:
    """Return the type of an array's elements."""
    return kind.element if isinstance(kind, Array) else FLOAT


def index(args: list[Typed], span: Span) -> Typed:
    """`a[1]`, `m['k']`, `row[1]`, `json['k']`, `json[1]`."""
    base, key = args
    if isinstance(base.type, Array) or kind_of(base.type) is Kind.VECTOR:
        if not is_integer(key.type):
            raise mistake(key.span, f"an array's index is an integer, got {key.type}", "indexes count from 1")
        return call("[]", element_type(base.type), [base, cast(key, BIGINT)], span, nullable=True)
    if isinstance(base.type, Map):
        fitting = operators.compare("=", cast(key, base.type.key) if isinstance(key.type, NullType) else key, Typed(
            "column", base.type.key, value="key", span=key.span), span).args[0]  # fmt: skip
        return call("[]", base.type.value, [base, cast(fitting, base.type.key)], span, nullable=True)
    if isinstance(base.type, RowType):
        if not isinstance(key.value, int) or not 1 <= key.value <= len(base.type.fields):
            raise mistake(key.span, f"a row's index is a constant from 1 to {len(base.type.fields)}", "")
        return call("[]", base.type.fields[key.value - 1], [base, key], span, nullable=True)
    if kind_of(base.type) is Kind.JSON:
        if not is_integer(key.type) and not is_text(key.type):
            raise mistake(
                key.span, f"JSON is indexed by text or an integer, got {key.type}", "such as v['name'] or v[1]"
            )
        return call("[]", JSON, [base, cast(key, BIGINT) if is_integer(key.type) else key], span, nullable=True)
    hint = "PARSE_JSON makes text JSON" if is_text(base.type) else "only arrays, maps, rows and JSON have parts"
    raise mistake(base.span, f"{base.type} has no parts to take with [ ]", hint)


def index_sql(args: list[str], node: Typed) -> str:
    """Return the SQL of `[]`."""
    base, key = node.args
    if isinstance(base.type, Map):
        return f"map_extract_value({args[0]}, {args[1]})"
    if isinstance(base.type, RowType):
        return f"struct_extract({args[0]}, 'f{int(key.value) - 1}')"
    if kind_of(base.type) is Kind.JSON:
        if key.op == "literal" and isinstance(key.value, str):
            return f"CAST(json_extract({args[0]}, {text_literal(_pointer(key.value))}) AS VARCHAR)"
        if is_text(key.type):
            return f"CAST(json_extract({args[0]}, {_pointer_sql(args[1])}) AS VARCHAR)"
        path = f"'$[' || ({args[1]} - 1) || ']'"
        return f"CASE WHEN {args[1]} >= 1 THEN CAST(json_extract({args[0]}, {path}) AS VARCHAR) END"
    return f"CASE WHEN {args[1]} >= 1 THEN list_extract({args[0]}, {args[1]}) END"


def _pointer(key: str) -> str:
    """Return the engine's path of a key: a JSON pointer, which has no wildcards but takes digits for an array index."""
    return f'$."{key}"' if key.isdecimal() else "/" + key.replace("~", "~0").replace("/", "~1")


def _pointer_sql(key: str) -> str:
    """Return the SQL that computes the engine's path of a key that differs by row."""
    named = f"'/' || replace(replace({key}, '~', '~0'), '/', '~1')"
    return f"CASE WHEN regexp_full_match({key}, '\\pN+') THEN '$.\"' || {key} || '\"' ELSE {named} END"


_STEP = re.compile(r"""\.(?:"(?:[^"*\\]|\\.)+"|[^.\["*]+)|\[\d{1,9}\]""")


def _path(name: str, kind: SqlType) -> ResultRule:
    """Return the rule of JSON_VALUE and JSON_QUERY. Paths to several values, a list in the engine, are mistakes."""

    def rule(args: list[Typed], span: Span) -> Typed:
        path = str(args[1].value)
        if not path.startswith("$") or _STEP.sub("", path[1:]):
            hint = 'such as $.a.b, $.a[0] or $."a key"; [0] is the first element'
            raise mistake(args[1].span, f"the path '{path}' of {name} cannot be read", hint)
        return call(name, kind, args, span, nullable=True)

    return rule


def _array(args: list[Typed], span: Span) -> Typed:
    kind, values = operators.one_of("ARRAY", args, span)
    return call("ARRAY", Array(STRING if isinstance(kind, NullType) else kind), values, span, nullable=False)


def _map(args: list[Typed], span: Span) -> Typed:
    if len(args) % 2:
        raise mistake(span, "MAP takes keys and values in turn", "such as MAP['a', 1, 'b', 2]")
    key, keys = operators.one_of("MAP", args[::2], span)
    value, values = operators.one_of("MAP", args[1::2], span)
    kind = Map(STRING if isinstance(key, NullType) else key, STRING if isinstance(value, NullType) else value)
    return call("MAP", kind, [*keys, *values], span, nullable=False, fails=True, value=len(keys))


def _map_sql(args: list[str], node: Typed) -> str:
    count = int(node.value)
    return f"MAP([{', '.join(args[:count])}], [{', '.join(args[count:])}])"


def _row(args: list[Typed], span: Span) -> Typed:
    kinds = tuple(STRING if isinstance(arg.type, NullType) else arg.type for arg in args)
    values = [cast(arg, kind) for arg, kind in zip(args, kinds, strict=True)]
    return call("ROW", RowType(kinds), values, span, nullable=False)


def _row_sql(args: list[str], node: Typed) -> str:
    return "struct_pack(" + ", ".join(f"f{number} := {arg}" for number, arg in enumerate(args)) + ")"


def _contains(name: str, kind: SqlType) -> ResultRule:
    def rule(args: list[Typed], span: Span) -> Typed:
        element = element_type(args[0].type)
        needle = Typed("column", element, value="element", span=args[1].span)
        fitting = operators.compare("=", args[1], needle, span).args[0]
        return call(name, kind, [args[0], cast(fitting, element)], span)

    return rule


def _size(args: list[str], node: Typed) -> str:
    return f"cardinality({args[0]})" if isinstance(node.args[0].type, Map) else f"len({args[0]})"


def _element(args: list[Typed], span: Span) -> Typed:
    return call("ELEMENT", element_type(args[0].type), args, span, nullable=True, fails=True)


def _parsed(name: str) -> ResultRule:
    def rule(args: list[Typed], span: Span) -> Typed:
        text = args[0] if is_text(args[0].type) else cast(args[0], STRING)
        return cast(text, JSON, safe=name.startswith("TRY"), span=span)

    return rule


_BASE: tuple[Function, ...] = (
    Function("PARSE_JSON", _J, "s SHOWN, [allow_duplicates BOOLEAN]", _parsed("PARSE_JSON"), "",
             "Text to JSON; other text fails.", fails=True, flink="A key that is there twice fails unless the second "
             "argument is TRUE, then the last one counts; here the first one does. Empty text gives NULL. The "
             "keys are sorted and spaces go; here the text stays as it is.",
             example=("CAST(PARSE_JSON('{\"a\":1,\"a\":2}')['a'] AS INT)", "1", "an error")),
    Function("TRY_PARSE_JSON", _J, "s SHOWN, [allow_duplicates BOOLEAN]", _parsed("TRY_PARSE_JSON"), "",
             "Text to JSON; NULL for other text.",
             flink="A key that is there twice gives NULL unless the second argument is TRUE, then the last one counts.",
             example=("TRY_PARSE_JSON('{\"a\":1,\"a\":2}')['a']", "1", "NULL")),
    Function("JSON_VALUE", _J, "v JSON, path CONSTANT", _path("JSON_VALUE", STRING),
             "CASE WHEN json_valid({0}) THEN json_extract_string({0}, {1}) END",
             "The text at a path such as `$.a[0].b` (paths count from 0); NULL when there is none, or no JSON.",
             nulls="always", flink="Flink CDC has no such function.",
             example=("JSON_VALUE('{\"a\":\"x\"}', '$.a')", "x", "an error")),
    Function("JSON_QUERY", _J, "v JSON, path CONSTANT", _path("JSON_QUERY", JSON),
             "CASE WHEN json_valid({0}) THEN CAST(json_extract({0}, {1}) AS VARCHAR) END",
             "The JSON at a path such as `$.a[0]`; NULL when there is none, or no JSON.", nulls="always",
             flink="Flink CDC has no such function.", example=("JSON_QUERY('{\"a\":[1]}', '$.a')", "[1]", "an error")),
    Function("ARRAY", _N, "value ANY...", _array, lambda args, node: f"[{', '.join(args)}]",
             "An array; written `ARRAY[1, 2]`."),
    Function("MAP", _N, "key ANY, value ANY...", _map, _map_sql, "A map; written `MAP['a', 1, 'b', 2]`."),
    Function("ROW", _N, "value ANY...", _row, _row_sql, "Values side by side, taken with `r[1]`."),
    Function("CARDINALITY", _N, "a COLLECTION", INT, _size, "How many elements or entries."),
    Function("ARRAY_CONTAINS", _N, "a ARRAY, value ANY", _contains("ARRAY_CONTAINS", BOOLEAN),
             "coalesce(list_contains({0}, {1}), CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN FALSE END)",
             "True when the value is in the array."),
    Function("ARRAY_POSITION", _N, "a ARRAY, value ANY", _contains("ARRAY_POSITION", INT),
             "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE coalesce(list_position({0}, {1}), 0) END",
             "Where the value first is in the array, 0 when it is not."),
    Function("ELEMENT", _N, "a ARRAY", _element,
             f"CASE WHEN len({{0}}) > 1 THEN {failing('ELEMENT of an array with more than one element')} "
             f"ELSE list_extract({{0}}, 1) END",
             "The only element; NULL for an empty array, more than one fails.", fails=True),
)  # fmt: skip
FUNCTIONS = _BASE

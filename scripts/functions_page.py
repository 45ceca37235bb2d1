"""The page docs/functions.md, written from the catalogue of functions."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from cdc.transform.catalogue import FUNCTIONS
from cdc.transform.catalogue.function import Function
from cdc.transform.types import Array

PAGE = Path(__file__).resolve().parent.parent / "docs" / "functions.md"

RESULTS = {
    "POSITION": "INT", "INSTR": "INT", "STARTSWITH": "BOOLEAN", "ENDSWITH": "BOOLEAN", "OVERLAY": "like s",
    "REGEXP_REPLACE": "STRING", "REGEXP_EXTRACT": "STRING", "REGEXP_EXTRACT_ALL": "ARRAY<STRING>",
    "REGEXP_COUNT": "INT", "REGEXP_SUBSTR": "STRING", "REGEXP_INSTR": "INT", "REGEXP_LIKE": "BOOLEAN",
    "JSON_VALUE": "STRING", "JSON_QUERY": "JSON",
    "REPLACE": "STRING", "ABS": "like x", "CEIL": "like x; a decimal without its fraction",
    "FLOOR": "like x; a decimal without its fraction",
    "ROUND": "like x", "MOD": "like `x % y`", "UUID": "CHAR(36)", "IF": "common type", "COALESCE": "common type",
    "NULLIF": "like a", "GREATEST": "common type", "LEAST": "common type", "CURRENT_TIMESTAMP": "TIMESTAMP_LTZ(3)",
    "LOCALTIMESTAMP": "TIMESTAMP(3)", "CURRENT_DATE": "DATE", "CURRENT_TIME": "TIME(0)", "EXTRACT": "BIGINT",
    "YEAR": "BIGINT", "QUARTER": "BIGINT", "MONTH": "BIGINT", "WEEK": "BIGINT", "DAYOFYEAR": "BIGINT",
    "DAYOFMONTH": "BIGINT", "DAYOFWEEK": "BIGINT", "HOUR": "BIGINT", "MINUTE": "BIGINT", "SECOND": "BIGINT",
    "TIMESTAMPADD": "like t", "TIMESTAMPDIFF": "BIGINT", "DATE_ADD": "DATE", "DATE_TRUNC": "like t",
    "DATE_FORMAT": "STRING", "DATE_FORMAT_TZ": "STRING", "TO_DATE": "DATE", "TO_TIMESTAMP": "TIMESTAMP(3)",
    "TO_TIMESTAMP_LTZ": "TIMESTAMP_LTZ(3)", "FROM_UNIXTIME": "STRING", "UNIX_TIMESTAMP": "BIGINT",
    "PARSE_JSON": "JSON",
    "TRY_PARSE_JSON": "JSON", "ARRAY": "ARRAY", "MAP": "MAP", "ROW": "ROW", "ARRAY_CONTAINS": "BOOLEAN",
    "ARRAY_POSITION": "INT", "ELEMENT": "like an element", "MASK": "STRING", "HASH": "STRING",
    "TRUNCATE_TEXT": "STRING",
}  # fmt: skip
"""Results of functions whose type depends on their arguments or is made by a rule."""

DIFFERENCES: tuple[tuple[str, str, str], ...] = (
    ("NULL = 1", "NULL", "FALSE"),
    ("NULL <> 1", "NULL", "TRUE"),
    ("NULL NOT IN (1)", "NULL", "TRUE"),
    ("1 = CAST(1 AS BIGINT)", "TRUE", "FALSE"),
    ("'50% off' LIKE '50%'", "TRUE", "FALSE (a regular expression)"),
    ("'abc' LIKE 'b'", "FALSE", "TRUE (a regular expression)"),
    ("'a' || NULL", "NULL", "anull"),
    ("12345678901234567890 + 1", "12345678901234567891", "NULL (over 19 digits)"),
    ("CAST(300 AS TINYINT)", "an error", "44"),
    ("CAST('2.22' AS INT)", "an error", "2"),
    ("TRY_CAST('x' AS INT)", "NULL", "NULL"),
    ("CAST('maybe' AS BOOLEAN)", "an error", "FALSE"),
    ("CAST(TIMESTAMP '2024-01-01 00:00:00' AS STRING)", "2024-01-01 00:00:00.000000", "2024-01-01T00:00"),
    ("CAST(x'61' AS STRING)", "a", "YQ== (Base64)"),
    ("__namespace_name__ || '.t'", "NULL", "null.t"),
    ("LOCATE('', 'abcdef', 4)", "4", "1"),
    ("FROM_BASE64('/w==')", "an error", "text with U+FFFD for the bytes that are no UTF-8"),
    ("REGEXP_COUNT('a', '(')", "an error", "NULL, or the job fails at its first row"),
    ("REGEXP_REPLACE('ba', 'b*', '-')", "-a-", "--a-"),
    ("CAST('-0' AS DOUBLE) = CAST(0 AS DOUBLE)", "TRUE", "FALSE"),
    ("NOT (NULL > 1)", "NULL", "TRUE"),
    ("(1 + 2) * 3", "9", "7 up to version 3.5, which loses the brackets"),
    ("2147483647 + 1", "an error", "-2147483648"),
    ("CAST(1 AS DOUBLE) / 0", "an error", "Infinity"),
    ("CAST(10 AS DECIMAL(3, 1)) / 3", "3.333333333333", "3.300000000000 (cut to the digits of the dividend)"),
    ("CAST('abcdef' AS VARCHAR(3))", "abc", "abcdef (a STRING)"),
    ("CAST('yes' AS BOOLEAN)", "TRUE", "FALSE"),
    ("CAST(CAST('21:45:03' AS TIME(6)) AS STRING)", "21:45:03.000000", "21:45:03"),
    ("DATE '2024-02-28' + INTERVAL '12' HOUR", "2024-02-28T12:00:00", "2024-02-28 (a DATE)"),
    ("CAST(TIME '23:30:00' + INTERVAL '2' HOUR AS STRING)", "25:30:00", "01:30:00"),
    ("REGEXP_EXTRACT('a', 'a', 1)", "an error", "NULL"),
    ("CAST(' 5 ' AS DECIMAL(3, 0))", "5", "NULL"),
    ("CAST('1.2349999' AS DECIMAL(4, 2))", "1.23", "1.24 (rounded to four digits first)"),
    ("CAST(CAST(6.7 AS FLOAT) AS DECIMAL(12, 10))", "6.6999998093 (as in MySQL)", "6.7000000000"),
    ("TRY_CAST(300 AS TINYINT)", "NULL", "44"),
    ("CAST(CAST(10000000 AS DOUBLE) AS STRING)", "10000000.0", "1.0E7"),
    ("CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING)", "1970-01-01 08:00:00.000 (local)", "1970-01-01T00:00 (in UTC)"),
    ("CAST('2024-01-31 03:04:05' AS TIMESTAMP)", "2024-01-31T03:04:05", "an error (it wants a T)"),
    ("TIMESTAMPDIFF(MONTH, DATE '2024-01-31', DATE '2024-02-01')", "0", "1 (of the calendar)"),
    ("DATE_FORMAT(TIMESTAMP '1500-01-01 00:00:00', 'yyyy-MM-dd')", "1500-01-01", "1499-12-23 (Julian before 1582)"),
    ("TO_DATE('2024-2-3')", "2024-02-03", "NULL"),
    ("TO_DATE('2024-02-30')", "NULL", "2024-02-29"),
    ("TO_TIMESTAMP('2025-13-05 00:00:00')", "an error", "2026-01-05T00:00"),
    ("TO_TIMESTAMP('2025-01-05')", "2025-01-05T00:00:00", "an error"),
)
"""What operators answer: expression, here, in Flink CDC. A test runs each."""

_HEAD = """# Functions and operators of transform rules

Generated from the catalogue of functions by `make schemas`; edit that, not this page.

For the projection and the filter of [transform rules](transform.md).

Expressions are SQL: NULL is unknown, numbers of different types compare by value, `AND`, `OR`, `CASE` and `COALESCE`
evaluate an operand only if the previous ones do not determine the result. Text comparison is case-sensitive.
If an expression fails on a value (a division by zero, a number or date out of range, text that is not a number), the
pipeline stops with table, key, column and expression, or with `on-error: null` the result is NULL and counted.
It also fails instead of creating a text of more than 64 MiB with `REPEAT` or a non-constant `REPLACE`, or of more than
16,777,216 characters with `LPAD` or `RPAD`.
Nothing is rounded silently: decimals have up to 38 digits, and a result that needs more fails.

## Operators

| operator | meaning |
|---|---|
| `= <> != < <= > >=` | comparison; NULL when an operand is |
| `IS [NOT] DISTINCT FROM` | comparison in which NULL equals NULL |
| `IS [NOT] NULL`, `IS [NOT] TRUE`, `FALSE`, `UNKNOWN` | never NULL |
| `[NOT] BETWEEN a AND b`, `[NOT] IN (a, b)` | as the comparisons they stand for |
| `[NOT] LIKE p [ESCAPE c]` | `%` any text, `_` any character; no escape character unless given |
| `[NOT] SIMILAR TO p [ESCAPE c]` | SQL's regular expressions, the whole text |
| `AND`, `OR`, `NOT` | three-valued |
| `+ - * /`, `DIV`, `%` | integers stay integers, at least INT (`7 / 2` is 3); BIGINT UNSIGNED is DECIMAL(20, 0) |
| `+ -` on DECIMAL(p1, s1), (p2, s2) | scale max(s1, s2), one more digit in front |
| `*` | DECIMAL(p1 + p2, s1 + s2) |
| `/` | scale max(6, s1 + p2 + 1), the last digit half to even |
| FLOAT, DOUBLE | FLOAT with FLOAT or an integer is FLOAT, all else DOUBLE; compared as DOUBLE |
| `t + INTERVAL '1' DAY`, `INTERVAL '1 02:03' DAY TO MINUTE` | YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND |
| `a \\|\\| b` | joined text; NULL when one is |
| `a[1]`, `m['k']`, `r[1]`, `v['k']`, `v[1]` | element, value, field, part of JSON; NULL when there is none |
| `CASE WHEN c THEN x END`, `CASE v WHEN a, b THEN x END`, `IF`, `COALESCE` | the first that holds; text if one is |
| `CAST(x AS type)`, `TRY_CAST(x AS type)` | fails, or NULL, when the value does not fit |
| `DATE '...'`, `TIMESTAMP '...'`, `x'0AFF'`, `'it''s'` | constants |

## Conversions

| from | to | rule |
|---|---|---|
| number | integer | the fraction is cut; out of range fails |
| number | DECIMAL(p, s) | rounded half away from zero to s; too many digits in front fails |
| text | number | the whole text, blanks around allowed |
| text | BOOLEAN | true, t, yes, y, 1 and false, f, no, n, 0 in any case |
| number, BOOLEAN | each other | not 0 is true; 1 and 0 |
| any | VARCHAR(n), CHAR(n) | cut to n characters; CHAR and VARCHAR alone are STRING |
| TIMESTAMP, TIMESTAMP_LTZ | text | `2024-01-31 03:04:05.678`, as many digits as the type; LTZ in the session's zone |
| text | DATE, TIME, TIMESTAMP | `2024-01-31`, `-838:59:59.5`, `2024-01-31 03:04:05.678`, with a blank or `T` |
| text | TIMESTAMP_LTZ | the same, in the session's zone unless it ends in `Z` or `+02:00` |
| TIMESTAMP | TIMESTAMP_LTZ and back | by the session's zone; of an hour that is there twice, the second |
| TIMESTAMP(6) | TIMESTAMP(3) | digits are cut |
| text | JSON | must be JSON |
| JSON | text | the text itself when it is a JSON string, else the JSON |
| text | bytes and back | UTF-8 |
| ARRAY, MAP, ROW | JSON, text | JSON; a computed column of such a type is JSON |

Types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT (each also UNSIGNED), DECIMAL(p, s), FLOAT, DOUBLE, CHAR(n),
VARCHAR(n), STRING, BINARY(n), VARBINARY(n), BYTES, DATE, TIME(p), TIMESTAMP(p), TIMESTAMP_LTZ(p) and JSON.
"""

_TYPES = """
Types differ in some columns: `CAST(x AS TIMESTAMP)` is TIMESTAMP(6) here and TIMESTAMP(0) there, a BIGINT `% 3` BIGINT
and INT, `TIMESTAMPDIFF` BIGINT and INT, `CEIL` and `FLOOR` of DECIMAL(p, s) DECIMAL(p - s + 1, 0) and DECIMAL(p, 0).
Decimals have up to 38 digits instead of 19.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD]
    for group, functions in groupby(FUNCTIONS.values(), key=lambda function: function.group):
        rows = [function for function in functions if not function.alias_of]
        if rows:
            parts += [f"\n## {group}\n", "| function | result | meaning |", "|---|---|---|", *map(_row, rows)]
    parts += [
        "\nRegular expressions are RE2's: no look-ahead and no back-references.\n",
        "## Where Flink CDC answers differently\n",
        "There is no switch for the other answer.\n",
        "| expression | here | Flink CDC |",
        "|---|---|---|",
        *(_line(*difference) for difference in DIFFERENCES),
        *(_line(*function.example) for function in _documented_functions() if function.example is not None),
    ]
    parts.append(_TYPES)
    parts += [
        f"- `{function.name}`: {function.flink.rstrip('.')}." for function in _documented_functions() if function.flink
    ]
    return "\n".join(parts) + "\n"


def _documented_functions() -> list[Function]:
    return [function for function in FUNCTIONS.values() if not function.alias_of]


def _row(function: Function) -> str:
    names = [f"`{function.name}({_arguments(function)})`"]
    names += [f"`{other.name}`" for other in FUNCTIONS.values() if other.alias_of == function.name]
    result = RESULTS.get(function.name) or str(function.result)
    if isinstance(function.result, Array):
        result = str(function.result)
    return f"| {', '.join(names)} | {result} | {_cell(function.meaning)} |"


def _arguments(function: Function) -> str:
    shown = ""
    for parameter in function.parameters:
        name = parameter.name + ("..." if parameter.repeated else "")
        joined = f", {name}" if shown else name
        shown += f"[{joined}]" if parameter.optional else joined
    return shown


def _line(expression: str, here: str, there: str) -> str:
    return f"| `{_cell(expression)}` | {_cell(here)} | {_cell(there)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

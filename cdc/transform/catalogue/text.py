"""Text functions; positions count characters (code points) from 1."""

from __future__ import annotations

from collections.abc import Callable

from cdc.transform.catalogue.function import Function, ResultRule, aliases
from cdc.transform.conversions import failing
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, mistake
from cdc.transform.types import BOOLEAN, BYTES, INT, STRING, SqlType, is_text, kind_of
from cdc.types.kinds import BINARIES

_G = "Text"
_FIND = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {2} < 1 OR {2} > length({1}) + 1 THEN 0 "
    "WHEN instr(substr({1}, {2}), {0}) = 0 THEN 0 ELSE instr(substr({1}, {2}), {0}) + {2} - 1 END"
)
_FROM = "CASE WHEN {1} = 0 THEN 1 ELSE {1} END"
_SHORT = "WHEN {1} < -length({0}) OR {1} > length({0}) THEN '' "
_NEGATIVE = f"WHEN {{2}} < 0 AND {{0}} IS NOT NULL THEN {failing('SUBSTRING with a negative length')} "
_FAR = 1_000_000_000
"""Longer than any text; the engine fails on positions and lengths beyond 2 ** 32."""
LONGEST = 64 * 1024 * 1024
"""Maximum bytes of a text that a function lengthens; the engine would build gigabytes for one value."""
_MOST = LONGEST // 4
"""Maximum number of characters that LPAD and RPAD fill to: one has at most four bytes."""
_TOO_LONG = failing(f"the text would be longer than {LONGEST} bytes")
# A text that would be too long is refused in an argument: the engine evaluates constant branches of CASE in advance.
_TIMES = (
    f"CASE WHEN {{1}} > {LONGEST} // nullif(strlen({{0}}), 0) THEN {_TOO_LONG} WHEN {{1}} < 0 THEN 0 ELSE {{1}} END"
)
_FILLED = f"CASE WHEN {{1}} > {_MOST} THEN {failing(f'filled to more than {_MOST} characters')} ELSE {{1}} END"
_NULLS = "NULL arguments: older functions of Flink CDC stop the job with a null pointer error"
_UNITS = "; characters beyond the first 65,536 of Unicode count twice there"
_TRIMS = "; it takes away all characters up to the blank, and ignores which ones are named and at which end"


def limited(number: str, least: int = 0) -> str:
    """Return the SQL that limits a number of characters to the engine's range; NULL for NULL, unlike `greatest`."""
    return f"CASE WHEN {number} < {least} THEN {least} WHEN {number} > {_FAR} THEN {_FAR} ELSE {number} END"


def _overlay(args: list[str], node: Typed) -> str:
    """Return the SQL of OVERLAY, like MySQL's INSERT(): unchanged for a position outside, to the end for a negative
    length."""
    value, by, start = args[:3]
    of_bytes = not is_text(node.type)
    size = "octet_length" if of_bytes else "length"
    length = args[3] if len(args) > 3 else f"{size}({by})"
    first, end = limited(start, 1), f"({limited(start, 1)} + {limited(length)})"
    if of_bytes:
        before, after = f"array_slice({value}, 1, {first} - 1)", f"array_slice({value}, {end}, {size}({value}))"
    else:
        before, after = f"substring({value}, 1, {first} - 1)", f"substring({value}, {end})"
    empty = "''::BLOB" if of_bytes else "''"
    return (
        f"CASE WHEN {by} IS NULL OR {length} IS NULL THEN NULL WHEN {start} < 1 OR {start} > {size}({value}) "
        f"THEN {value} ELSE {before} || {by} || CASE WHEN {length} < 0 THEN {empty} ELSE {after} END END"
    )


def _one_kind(name: str, kind: SqlType | None, values: tuple[int, ...]) -> ResultRule:
    """Return the result rule of a function of texts or bytes, but not both; `kind` None: that of the arguments."""

    def rule(args: list[Typed], span: Span) -> Typed:
        found = [args[number] for number in values]
        binary = any(kind_of(arg.type) in BINARIES for arg in found)
        common = BYTES if binary else STRING
        result = list(args)
        for number in values:
            arg = args[number]
            if binary and arg.op == "literal" and arg.value is None:
                result[number] = Typed("literal", BYTES, span=arg.span)
            elif (kind_of(arg.type) in BINARIES) is not binary:
                raise mistake(arg.span, f"{name} takes text only or bytes only", "CAST(... AS BYTES) makes text bytes")
        return call(name, kind or common, result, span, nullable=any(arg.nullable for arg in result))

    return rule


def _position_sql(args: list[str], node: Typed) -> str:
    """Return the SQL of POSITION; its arguments are the text to find, the text to search, and the start."""
    if kind_of(node.args[0].type) in BINARIES:
        return f"cdc_find({args[0]}, {args[1]}, {args[2] if len(args) > 2 else 1})"
    return (_FIND if len(args) > 2 else "instr({1}, {0})").format(*args)


def _compared(function: str) -> Callable[[list[str], Typed], str]:
    """Return the SQL of a comparison; bytes are compared by their hexadecimal digits."""

    def sql(args: list[str], node: Typed) -> str:
        first, second = (f"hex({arg})" if kind_of(node.args[0].type) in BINARIES else arg for arg in args)
        return f"{function}({first}, {second})"

    return sql


def _replace(args: list[Typed], span: Span) -> Typed:
    return call("REPLACE", STRING, args, span, fails=args[2].op != "literal")


def _replaced(args: list[str], node: Typed) -> str:
    """Return the SQL of REPLACE. The result's length is checked unless the replacement is a constant of the rule."""
    text, searched, by = args
    if node.args[2].op != "literal":
        more = f"(strlen({by}) - strlen({searched}))"
        most = f"strlen({text}) // nullif(strlen({searched}), 0) * {more}"
        found = f"(strlen({text}) - strlen(replace({text}, {searched}, ''))) // nullif(strlen({searched}), 0) * {more}"
        by = (
            f"CASE WHEN {most} > {LONGEST} THEN CASE WHEN strlen({text}) + {found} > {LONGEST} "
            f"THEN {_TOO_LONG} ELSE {by} END ELSE {by} END"
        )
    return f"replace({text}, {searched}, {by})"


def _reverse(args: list[str], node: Typed) -> str:
    """Return the SQL of REVERSE by code points; the engine's function keeps letters together with their accents."""
    each = f"list_reverse(regexp_extract_all({args[0]}, '(?s).'))"
    return (
        f"CASE WHEN strlen({args[0]}) = length({args[0]}) THEN reverse({args[0]}) ELSE array_to_string({each}, '') END"
    )


_BASE: tuple[Function, ...] = (
    Function("CONCAT", _G, "s SHOWN...", STRING, lambda args, node: f"({' || '.join(args)})",
             "The values one after the other, as text; NULL when one is NULL. `||` does the same.",
             flink="NULL becomes the text `null`.",
             example=("CONCAT('a', NULL)", "NULL", "anull")),
    Function("CONCAT_WS", _G, "separator TEXT, s SHOWN...", STRING, lambda args, node: f"concat_ws({', '.join(args)})",
             "The texts that are not NULL, with the separator between them.", nulls="always"),
    Function("CHAR_LENGTH", _G, "s SHOWN", INT, "length({0})", "Number of characters.", flink=_NULLS + _UNITS,
             example=("CHAR_LENGTH(NULL)", "NULL", "the job fails")),
    Function("UPPER", _G, "s SHOWN", STRING, "upper({0})", "In capitals, character by character.", flink=_NULLS +
             "; `ß` becomes `SS`", example=("UPPER('ß')", "ẞ", "SS")),
    Function("LOWER", _G, "s SHOWN", STRING, "lower({0})", "In small letters.", flink=_NULLS,
             example=("LOWER(NULL)", "NULL", "the job fails")),
    Function("TRIM", _G, "s SHOWN, [characters TEXT]", STRING, ("trim({0}, ' ')", "trim({0}, {1})"),
             "Without blanks (or those characters) at both ends; also `TRIM(BOTH 'x' FROM s)`.", flink=_NULLS + _TRIMS,
             example=("TRIM(NULL)", "NULL", "the job fails")),
    Function("LTRIM", _G, "s SHOWN, [characters TEXT]", STRING, ("ltrim({0}, ' ')", "ltrim({0}, {1})"),
             "Without blanks (or those characters) at the start."),
    Function("RTRIM", _G, "s SHOWN, [characters TEXT]", STRING, ("rtrim({0}, ' ')", "rtrim({0}, {1})"),
             "Without blanks (or those characters) at the end."),
    Function("LPAD", _G, "s SHOWN, n INT, pad TEXT", STRING,
             "CASE WHEN {1} < 0 OR {2} = '' THEN NULL "
             f"ELSE lpad({{0}}, CAST({_FILLED} AS INTEGER), {{2}}) END",
             "Filled at the start to n characters, or cut to them; NULL for a negative n or an empty pad.",
             nulls="always", fails=True),
    Function("RPAD", _G, "s SHOWN, n INT, pad TEXT", STRING,
             "CASE WHEN {1} < 0 OR {2} = '' THEN NULL "
             f"ELSE rpad({{0}}, CAST({_FILLED} AS INTEGER), {{2}}) END",
             "Filled at the end to n characters, or cut to them; NULL for a negative n or an empty pad.",
             nulls="always", fails=True),
    Function("REPLACE", _G, "s SHOWN, what TEXT, by TEXT", _replace, _replaced,
             "Every occurrence replaced; an empty `what` changes nothing."),
    Function("REPEAT", _G, "s SHOWN, n INT", STRING, f"repeat({{0}}, {_TIMES})",
             "The text n times; empty for n below 1.", fails=True),
    Function("REVERSE", _G, "s SHOWN", STRING, _reverse, "The characters in reverse.",
             flink="Flink CDC has no such function.", example=("REVERSE('abc')", "cba", "an error")),
    Function("LEFT", _G, "s SHOWN, n INT", STRING, f"left({{0}}, {limited('{1}')})", "The first n characters."),
    Function("RIGHT", _G, "s SHOWN, n INT", STRING, f"right({{0}}, {limited('{1}')})", "The last n characters."),
    Function("SUBSTRING", _G, "s SHOWN, from INT, [length INT]", STRING,
             (f"CASE {_SHORT}ELSE substring({{0}}, {_FROM}) END",
              f"CASE WHEN {{2}} IS NULL THEN NULL {_NEGATIVE}{_SHORT}"
              f"ELSE substring({{0}}, {_FROM}, {limited('{2}')}) END"),
             "From a position on (0 counts as 1, negative from the end), at most `length` characters; "
             "also `SUBSTRING(s FROM 2 FOR 3)`.", fails=True, flink=_NULLS + _UNITS,
             example=("SUBSTRING('😀a', 2)", "a", "half a character and an a")),
    Function("POSITION", _G, "what DATA, s DATA, [start INT]", _one_kind("POSITION", INT, (0, 1)), _position_sql,
             "Where the text first occurs (from `start` on), 0 when it does not; also `POSITION('a' IN s FROM 2)`."),
    Function("INSTR", _G, "s DATA, what DATA", _one_kind("INSTR", INT, (0, 1)),
             lambda args, node: _position_sql([args[1], args[0]], node),
             "Where the text first occurs, 0 when it does not."),
    Function("OVERLAY", _G, "s DATA, by DATA, from INT, [length INT]", _one_kind("OVERLAY", None, (0, 1)), _overlay,
             "With a piece replaced; also `OVERLAY(s PLACING 'x' FROM 2 FOR 3)`. Unchanged where `from` is outside."),
    Function("STARTSWITH", _G, "s DATA, start DATA", _one_kind("STARTSWITH", BOOLEAN, (0, 1)), _compared("starts_with"),
             "True when it begins so."),
    Function("ENDSWITH", _G, "s DATA, end DATA", _one_kind("ENDSWITH", BOOLEAN, (0, 1)), _compared("ends_with"),
             "True when it ends so."),
    Function("SPLIT_INDEX", _G, "s SHOWN, separator TEXT, index INT", STRING,
             "CASE WHEN {1} IS NULL OR {2} < 0 OR {2} >= len(string_split({0}, {1})) THEN NULL "
             "ELSE list_extract(string_split({0}, {1}), {2} + 1) END",
             "The piece of that index, from 0; NULL when there is none.", nulls="always",
             flink="Flink CDC has no such function.", example=("SPLIT_INDEX('a,b', ',', 1)", "b", "an error")),
    Function("TO_BASE64", _G, "s DATA", STRING, lambda args, node: f"base64({_bytes(args[0], node)})",
             "Base64 of a text's UTF-8 bytes or of bytes."),
    Function("FROM_BASE64", _G, "s TEXT", STRING, "decode(from_base64({0}))", "The text that Base64 stands for.",
             fails=True),
    Function("FROM_BASE64_BINARY", _G, "s TEXT", BYTES, "from_base64({0})", "The bytes that Base64 stands for.",
             fails=True),
    Function("MD5", _G, "s DATA", STRING, lambda args, node: f"md5({_bytes(args[0], node)})",
             "MD5 in hexadecimal digits.",
             flink="Flink CDC has no such function.",
             example=("MD5('a')", "0cc175b9c0f1b6a831c399e269772661", "an error")),
    Function("SHA256", _G, "s DATA", STRING, lambda args, node: f"sha256({_bytes(args[0], node)})",
             "SHA-256 in hexadecimal digits, without a key: short values can be guessed, see HASH.",
             flink="Flink CDC has no such function.", example=("CHAR_LENGTH(SHA256('a'))", "64", "an error")),
)  # fmt: skip


def _bytes(sql: str, node: Typed) -> str:
    return f"encode({sql})" if is_text(node.args[0].type) else sql


FUNCTIONS: tuple[Function, ...] = (
    *_BASE,
    *aliases(_BASE, {"CHARACTER_LENGTH": "CHAR_LENGTH", "LENGTH": "CHAR_LENGTH", "SUBSTR": "SUBSTRING",
                     "BTRIM": "TRIM", "LOCATE": "POSITION", "STARTS_WITH": "STARTSWITH", "ENDS_WITH": "ENDSWITH",
                     "UCASE": "UPPER", "LCASE": "LOWER"}),
)  # fmt: skip

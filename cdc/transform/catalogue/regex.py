"""Regular expression functions (RE2). Expression, group and replacement may be columns; constants are checked early."""

from __future__ import annotations

from collections.abc import Callable

from cdc.transform.catalogue.function import Function, ResultRule
from cdc.transform.conversions import failing, text_literal
from cdc.transform.extra_functions import groups, rewritten
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, mistake
from cdc.transform.types import BOOLEAN, INT, STRING, Array, NullType, SqlType

_R = "Regular expressions"
_MOST_GROUPS = 9
"""Highest group number that the engine supports."""


def _constant(node: Typed) -> str | None:
    """Return the text of a constant; None for NULL and for values that depend on the row."""
    return node.value if node.op == "literal" and isinstance(node.value, str) else None


def _number(node: Typed) -> int | None:
    """Return the constant number of a group, which may be cast to the argument's type."""
    inner = node.args[0] if node.op == "cast" else node
    return inner.value if inner.op == "literal" and isinstance(inner.value, int) else None


def _rule(name: str, kind: SqlType, *, nullable: bool = False, fails: bool = False) -> ResultRule:
    """Return the result rule: an expression that is not constant may be invalid, and then fails for its row."""

    def rule(args: list[Typed], span: Span) -> Typed:
        unknown = any(_constant(arg) is None for arg in args[1:2]) or any(
            _number(arg) is None and _constant(arg) is None for arg in args[2:]
        )
        null = nullable or any(arg.nullable or isinstance(arg.type, NullType) for arg in args)
        return call(name, kind, args, span, nullable=null, fails=fails or unknown)

    return rule


def _replacement(args: list[str], node: Typed) -> str:
    """Return the SQL of REGEXP_REPLACE; Java writes groups as $1, the engine as \\1."""
    regex, by = _constant(node.args[1]), _constant(node.args[2])
    if regex is None or by is None:
        return f"regexp_replace({args[0]}, {args[1]}, cdc_rewritten({args[1]}, {args[2]}), 'g')"
    try:
        rewritten_text = rewritten(regex, by)
    except ValueError as error:
        raise mistake(node.args[2].span, str(error), "put brackets around what it stands for") from error
    return f"regexp_replace({args[0]}, {args[1]}, {text_literal(rewritten_text)}, 'g')"


def _of_group(args: list[str], node: Typed, extract: Callable[[int], str]) -> str:
    """Return the SQL of `extract` for the group that the third argument names, checked against the expression."""
    regex, arg = _constant(node.args[1]), node.args[2]
    group_count = None if regex is None else groups(regex)
    most = _MOST_GROUPS if group_count is None else min(group_count, _MOST_GROUPS)
    number = _number(arg)
    if number is not None:
        if not 0 <= number <= most:
            known = f"'{regex}' has {group_count}" if group_count is not None else f"there are at most {_MOST_GROUPS}"
            raise mistake(arg.span, f"there is no group {number}: {known}", "a group is a part in brackets")
        return extract(number) if group_count is not None else _checked(args[1], str(number), extract(number))
    cases = " ".join(f"WHEN {number} THEN {extract(number)}" for number in range(most + 1))
    otherwise = failing("the regular expression has no such group")
    chosen = f"CASE {args[2]} {cases} ELSE CASE WHEN {args[2]} IS NOT NULL THEN {otherwise} END END"
    return chosen if group_count is not None else _checked(args[1], args[2], chosen)


def _checked(regex: str, number: str, sql: str) -> str:
    otherwise = failing("the regular expression has no such group")
    return f"CASE WHEN {number} > cdc_groups({regex}) THEN {otherwise} ELSE {sql} END"


def _extract(args: list[str], node: Typed) -> str:
    def extract(group: int) -> str:
        return f"regexp_extract({args[0]}, {args[1]}, {group})"

    found = extract(0) if len(args) < 3 else _of_group(args, node, extract)
    return f"CASE WHEN regexp_matches({args[0]}, {args[1]}) THEN {found} END"


def _extract_all(args: list[str], node: Typed) -> str:
    def extract(group: int) -> str:
        return f"regexp_extract_all({args[0]}, {args[1]}, {group})"

    if len(args) > 2:
        return _of_group(args, node, extract)
    regex = _constant(node.args[1])
    if regex is not None:
        return extract(min(groups(regex), 1))
    return f"CASE WHEN cdc_groups({args[1]}) = 0 THEN {extract(0)} ELSE {extract(1)} END"


def _instr(args: list[str], node: Typed) -> str:
    """Return the SQL of the first match's position, by the text before it, as the match's text may occur earlier."""
    regex = _constant(node.args[1])
    before = f"('^((?s:.*?))(?:' || {args[1]} || ')')" if regex is None else text_literal(f"^((?s:.*?))(?:{regex})")
    return (
        f"CASE WHEN regexp_matches({args[0]}, {before}) THEN length(regexp_extract({args[0]}, {before}, 1)) + 1 "
        f"WHEN {args[0]} IS NOT NULL AND {args[1]} IS NOT NULL THEN 0 END"
    )


FUNCTIONS: tuple[Function, ...] = (
    Function("REGEXP_REPLACE", _R, "s SHOWN, regex TEXT, by TEXT", _rule("REGEXP_REPLACE", STRING), _replacement,
             "Every match replaced; `$1` stands for a group, `$` before anything but a digit for itself.",
             flink="`$1` is text there, not a group.",
             example=("REGEXP_REPLACE('ab', '(a)', '<$1>')", "<a>b", "<$1>b")),
    Function("REGEXP_EXTRACT", _R, "s SHOWN, regex TEXT, [group INT]",
             _rule("REGEXP_EXTRACT", STRING, nullable=True), _extract,
             "The first match, or a group of it; NULL when nothing matches, empty where the group takes no part in it.",
             flink="A group that takes no part in the match is NULL.",
             example=("REGEXP_EXTRACT('b', '(a)?b', 1) = ''", "TRUE", "FALSE")),
    Function("REGEXP_EXTRACT_ALL", _R, "s SHOWN, regex TEXT, [group INT]",
             _rule("REGEXP_EXTRACT_ALL", Array(STRING), fails=True), _extract_all,
             "All matches, or a group of each; by default the first group if there is one.",
             flink="NULL where the group is left out and the expression has none.",
             example=("CARDINALITY(REGEXP_EXTRACT_ALL('aba', 'a'))", "2", "NULL")),
    Function("REGEXP_COUNT", _R, "s SHOWN, regex TEXT", _rule("REGEXP_COUNT", INT),
             "len(regexp_extract_all({0}, {1}, 0))", "How many matches."),
    Function("REGEXP_SUBSTR", _R, "s SHOWN, regex TEXT", _rule("REGEXP_SUBSTR", STRING, nullable=True), _extract,
             "The first match; NULL when there is none."),
    Function("REGEXP_INSTR", _R, "s SHOWN, regex TEXT", _rule("REGEXP_INSTR", INT), _instr,
             "Where the first match begins, 0 when nothing matches."),
    Function("REGEXP_LIKE", _R, "s SHOWN, regex TEXT", _rule("REGEXP_LIKE", BOOLEAN), "regexp_matches({0}, {1})",
             "True when some part matches.", flink="Flink CDC has no such function: its LIKE does that.",
             example=("REGEXP_LIKE('abc', 'b+')", "TRUE", "an error")),
)  # fmt: skip

"""Masking functions. HASH needs the pipeline's key, which is never part of SQL text."""

from __future__ import annotations

from cdc.transform.catalogue.function import Function
from cdc.transform.catalogue.text import limited
from cdc.transform.conversions import convertible
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, cast, mistake
from cdc.transform.types import BYTES, STRING, Array, Map, RowType, is_text, kind_of
from cdc.types.kinds import BINARIES

_G = "Masking"
_FLINK = "Flink CDC has no such function."
MASKS = ("MASK", "HASH", "TRUNCATE_TEXT", "REDACT")
"""Functions that a rule's `mask:` accepts."""


def _as_text(name: str, arg: Typed) -> Typed:
    binary = kind_of(arg.type) in BINARIES
    nested = isinstance(arg.type, Array | Map | RowType)
    if nested or (name != "HASH" and binary) or not (binary or convertible(arg.type, STRING)):
        raise mistake(arg.span, f"{name} takes text or what can be text, got {arg.type}", "REDACT takes everything")
    if binary:
        return cast(arg, BYTES)
    return arg if is_text(arg.type) else cast(arg, STRING)


def _hash(args: list[Typed], span: Span) -> Typed:
    return call("HASH", STRING, [_as_text("HASH", args[0])], span)


def _mask(args: list[Typed], span: Span) -> Typed:
    return call("MASK", STRING, [_as_text("MASK", args[0]), *args[1:]], span)


def _truncate(args: list[Typed], span: Span) -> Typed:
    return call("TRUNCATE_TEXT", STRING, [_as_text("TRUNCATE_TEXT", args[0]), args[1]], span)


FUNCTIONS: tuple[Function, ...] = (
    Function("MASK", _G, "x ANY, [visible INT]", _mask,
             ("repeat('*', length({0}))",
              "CASE WHEN {1} <= 0 OR length({0}) <= {1} THEN repeat('*', length({0})) "
              "ELSE repeat('*', length({0}) - {1}) || right({0}, {1}) END"),
             "Every character a star, except the last `visible` ones; a text no longer than that is all stars.",
             flink=_FLINK, example=("MASK('4111111111111234', 4)", "************1234", "an error")),
    Function("HASH", _G, "x ANY", _hash,
             lambda args, node: f"cdc_hash({args[0]})" if is_text(node.args[0].type) else f"cdc_hash_bytes({args[0]})",
             "Keyed SHA-256 (HMAC) in hexadecimal digits: equal values stay equal, "
             "and values cannot be guessed without the key.",
             flink=_FLINK, example=("CHAR_LENGTH(HASH('a'))", "64", "an error")),
    Function("TRUNCATE_TEXT", _G, "x ANY, n INT", _truncate, f"left({{0}}, {limited('{1}')})",
             "The first n characters.",
             flink=_FLINK, example=("TRUNCATE_TEXT('Lovelace', 1)", "L", "an error")),
    Function("REDACT", _G, "x ANY", STRING, "CASE WHEN {0} IS NOT NULL THEN '[redacted]' END",
             "`[redacted]` in place of every value that is not NULL.", flink=_FLINK,
             example=("REDACT('secret')", "[redacted]", "an error")),
)  # fmt: skip

"""How a pipeline wants values that a table can have in more than one way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRules:
    """Rules for values, of the log's rows and of copied ones.

    Attributes:
        tinyint1_as_boolean: TINYINT(1) becomes BOOLEAN.
        strict_dates: zero and invalid dates are refused; else they become NULL and are counted.
        replaces_text: bytes that their character set does not have become U+FFFD and are counted, but for keys; else
            they are refused.
    """

    tinyint1_as_boolean: bool = False
    strict_dates: bool = False
    replaces_text: bool = False


DEFAULT_RULES = ValueRules()

"""Rules for values that a pipeline can represent in more than one way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRules:
    """Rules for values of logged and of copied rows.

    Attributes:
        tinyint1_as_boolean: read TINYINT(1) as BOOLEAN.
        strict_dates: refuse zero and invalid dates; else they become NULL and are counted.
        replaces_text: replace bytes that are invalid in their character set with U+FFFD and count them, except in keys;
            else refuse them.
    """

    tinyint1_as_boolean: bool = False
    strict_dates: bool = False
    replaces_text: bool = False


DEFAULT_RULES = ValueRules()

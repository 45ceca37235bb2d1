"""The treatment of values that the sink's column cannot hold, and the reasons for refusing them."""

from __future__ import annotations

from enum import StrEnum


class RejectedValuePolicy(StrEnum):
    """The treatment of a value that does not fit.

    FAIL stops the pipeline with an error that names table, column, key and position. NULL sends NULL instead; TRUNCATE
    cuts text and bytes to length (text between characters) and drops fractional digits. Neither changes a key column,
    and where they do not apply, such as NULL in a NOT NULL column, the pipeline stops. DEAD_LETTER skips the row in the
    sink and writes it to a file. All but FAIL are counted, by table, column and reason.
    """

    FAIL = "fail"
    NULL = "null"
    TRUNCATE = "truncate"
    DEAD_LETTER = "dead-letter"


class Reason(StrEnum):
    """Reasons why a value does not fit; part of counter names and of dead letters."""

    TOO_LONG = "too-long"
    OUT_OF_RANGE = "out-of-range"
    DIGITS_LOST = "digits-lost"
    NOT_FINITE = "not-finite"
    IS_NULL = "null-in-not-null"
    INVALID_UTF8 = "invalid-utf8"
    INVALID_JSON = "invalid-json"
    NOT_CONVERTIBLE = "not-convertible"
    SAME_CLOCK = "same-clock"
    KEY_TOO_LONG = "key-too-long"
    CHECK = "refused-by-a-check"
    UNIQUE_KEY = "unique-key-taken"
    FOREIGN_KEY = "no-such-parent"


_DONE = {
    RejectedValuePolicy.NULL: "to-null",
    RejectedValuePolicy.TRUNCATE: "truncated",
    RejectedValuePolicy.DEAD_LETTER: "dead-letter",
}


def counter_name(reason: Reason, policy: RejectedValuePolicy, place: str) -> str:
    """Return a counter name such as `too-long-truncated shop.orders.note`. `place` is table and column."""
    return f"{reason}-{_DONE[policy]} {place}"


class RejectedValue(Exception):
    """A value that cannot become the sink column's text. `shortened` is the text for TRUNCATE, None for none."""

    def __init__(self, reason: Reason, shortened: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.shortened = reason, shortened

"""Errors of lake libraries: which of them may pass."""

from __future__ import annotations

from collections.abc import Collection


def is_away(error: BaseException | None, names: Collection[str], words: Collection[str]) -> bool:
    """Whether an error, or one that it came from, says that a server could not be reached.

    `names` are those of classes, `words` parts of messages in lower case.
    """
    while error is not None:
        text = str(error).lower()
        if type(error).__name__ in names or isinstance(error, ConnectionError | TimeoutError):
            return True
        if any(word in text for word in words):
            return True
        error = error.__cause__
    return False

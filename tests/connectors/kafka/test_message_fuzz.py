"""Whatever bytes a topic has end in a row, a counted skip, a dead letter, or an error that names their place."""

from __future__ import annotations

import message_fuzz


def test_mutations_of_recorded_messages_are_read_or_refused() -> None:
    """A million of them: `make chaos`."""
    assert list(message_fuzz.problems(1, 500)) == []

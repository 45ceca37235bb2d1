"""Whatever bytes a topic has end in a row, a counted skip, a dead letter, or an error that names their place."""

from __future__ import annotations

import message_fuzz
import pytest


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_mutations_of_recorded_messages_are_read_or_refused(seed: int) -> None:
    """A million of them: `make chaos`."""
    assert list(message_fuzz.problems(seed, 1_500)) == []

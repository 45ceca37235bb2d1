"""Ports of servers that tests start side by side."""

from __future__ import annotations

import subprocess
import sys

from cdc_services.process import free_port

_OFFERED = "import random, cdc_services.process as p; random.SystemRandom.sample = lambda *_: [{}]; p.free_port()"


def test_a_port_that_one_was_given_is_given_to_nobody_else_while_it_lives() -> None:
    """Its server need not listen: it is starting, or was killed and comes back."""
    command = [sys.executable, "-c", _OFFERED.format(free_port())]
    other = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "none is free" in other.stderr, other

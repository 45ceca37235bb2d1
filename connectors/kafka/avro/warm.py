"""Loads the kernel that reads Avro; compiles it where no cached code fits this machine."""

from __future__ import annotations

import numpy as np

from connectors.kafka.avro.schemas import program
from connectors.kafka.avro.unwrapper import WrittenTexts
from connectors.kafka.formats.scan import Texts


def warm_avro() -> int:
    """Read one message; how many could not be read, none. Executor; a repeat costs nothing."""
    made = program('{"type": "record", "name": "warm", "fields": [{"name": "a", "type": ["null", "int"]}]}')
    return len(WrittenTexts(8, 1).add(made, Texts.of([b"\0\0\0\0\1\2\2"]), np.arange(1)))

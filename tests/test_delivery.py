"""Every sink says what it promises and what it does with rows that have no key."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from pathlib import Path

from together import together

from cdc.sink import Delivery, KeylessRows, Sink

GUARANTEES = Path(__file__).parent.parent / "docs" / "delivery-guarantees.md"
ROWS = re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| `([\w-]+)` \|", GUARANTEES.read_text(encoding="utf-8"), re.MULTILINE)


@together("entry", entry_points(group="cdc.sinks"))
def test_a_sink_says_what_it_promises_and_the_docs_say_the_same(entry: object) -> None:
    name, package = getattr(entry, "name", ""), getattr(entry, "module", "").rpartition(".")[0]
    module = import_module(f"{package}.sink")
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    (found,) = [each for each in classes if issubclass(each, Sink) and not isabstract(each)]
    assert isinstance(found.delivery, Delivery)
    assert isinstance(found.keyless, KeylessRows)
    assert (name, found.delivery.value, found.keyless.value) in ROWS

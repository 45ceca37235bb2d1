"""Metrics of many pipelines in Prometheus's text format: what a pipeline had at the last scrape is not written again.

A server with hundreds of pipelines is scraped every few seconds, and most of them have not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client.utils import floatToGoString

from cdc.status.families import Family
from cdc.status.file import Seen

Samples = Callable[[Family, Seen], Iterable[tuple[tuple[str, ...], float]]]
"""Label values behind `pipeline`, and the value, of one family of one pipeline."""


@dataclass(slots=True)
class _Written:
    """The lines of one pipeline, by family, and what they were written of."""

    seen: Seen
    lines: list[str] = field(default_factory=list)


class Exposition:
    """Writes the text. One thread at a time.

    Args:
        families: in the order of the text.
        samples: see `Samples`.
    """

    def __init__(self, families: Sequence[Family], samples: Samples) -> None:
        self._families, self._samples = tuple(families), samples
        self._heads = [_head(family) for family in self._families]
        self._moving = [number for number, family in enumerate(self._families) if family.moves]
        self._written: dict[str, _Written] = {}

    def text(self, documents: Iterable[Seen]) -> bytes:
        """All families of all pipelines."""
        written = [self._of(seen) for seen in documents]
        self._written = {each.seen.status.name: each for each in written}
        parts = []
        for number, head in enumerate(self._heads):
            parts.append(head)
            parts.extend(each.lines[number] for each in written)
        return "".join(parts).encode("utf-8")

    def _of(self, seen: Seen) -> _Written:
        known = self._written.get(seen.status.name)
        if known is None or known.seen != seen:
            return _Written(seen, [self._lines(family, seen) for family in self._families])
        for number in self._moving:
            known.lines[number] = self._lines(self._families[number], seen)
        return known

    def _lines(self, family: Family, seen: Seen) -> str:
        name, labels = _sample_name(family), ("pipeline", *family.labels)
        order = sorted(range(len(labels)), key=labels.__getitem__)
        lines = []
        for values, value in self._samples(family, seen):
            texts = (seen.status.name, *values)
            pairs = ",".join(f'{labels[place]}="{_escaped(texts[place])}"' for place in order)
            lines.append(f"{name}{{{pairs}}} {floatToGoString(value)}\n")  # type: ignore[no-untyped-call]
        return "".join(lines)


def _sample_name(family: Family) -> str:
    return f"{family.name.removesuffix('_total')}_total" if family.kind == "counter" else family.name


def _head(family: Family) -> str:
    name = _sample_name(family)
    text = family.text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

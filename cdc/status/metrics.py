"""Exports status documents as metrics for Prometheus; they are read on each scrape."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from cdc.errors import EngineError
from cdc.status.families import ALIASES, FAMILIES, TABLE_FAMILIES, Family
from cdc.status.file import LiveStatus
from cdc.status.model import StatusDocument

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

ALL: tuple[Family, ...] = (*FAMILIES, *ALIASES, *TABLE_FAMILIES)
_BY_TABLE = frozenset(family.name for family in TABLE_FAMILIES)
OTHERS = "(other)"
"""The label for all tables without their own series."""
MOST_TABLES = 500
"""Maximum number of tables per pipeline with their own series; the others are summed up. 10,000 tables with 4 series
each would be too many for most Prometheus servers."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Samples = Callable[[Family, LiveStatus], Iterable[tuple[tuple[str, ...], float]]]
"""Returns label values after `pipeline`, and the values, of one family of one pipeline."""


class Collected(Collector):
    """Reads documents on each scrape.

    Args:
        documents: returns the current documents of the pipelines.
        most_tables: maximum number of tables per pipeline with their own series: the first ones seen, so that a series
            never moves to `(other)`.
    """

    def __init__(self, documents: Callable[[], Iterable[LiveStatus]], most_tables: int = MOST_TABLES) -> None:
        self._documents, self._most = documents, most_tables
        self._own: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def describe(self) -> Iterable[Metric]:
        """Return nothing before the first scrape: documents may not exist yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of all pipelines."""
        documents = self.documents()
        for family in ALL:
            metric = _metric(family)
            for seen in documents:
                for labels, value in self.samples(family, seen):
                    metric.add_metric((seen.status.name, *labels), value)
            yield metric

    def documents(self) -> list[LiveStatus]:
        """Return the current documents."""
        documents = list(self._documents())
        for seen in documents:
            self._note_tables(seen.status)
        return documents

    def samples(self, family: Family, seen: LiveStatus) -> Iterable[tuple[tuple[str, ...], float]]:
        """Return the values of one family of one pipeline, with their labels."""
        if family.name in _BY_TABLE:
            return (((table,), value) for table, value in self._by_table(family, seen).items())
        return ((labels, value) for labels, value in family.read(seen) if value is not None)

    def _note_tables(self, status: StatusDocument) -> None:
        own = self._own[status.name]
        for table in status.tables:
            if len(own) >= self._most:
                return
            own.setdefault(table.table)

    def _by_table(self, family: Family, seen: LiveStatus) -> dict[str, float]:
        own, sums = self._own[seen.status.name], dict[str, float]()
        for (table,), value in family.read(seen):
            if value is not None:
                label = table if table in own else OTHERS
                sums[label] = sums.get(label, 0.0) + value
        return sums


def _metric(family: Family) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.text, labels=("pipeline", *family.labels))


def metrics_text(documents: Callable[[], Iterable[LiveStatus]], most_tables: int = MOST_TABLES) -> Callable[[], bytes]:
    """Return a function that returns the current metrics in Prometheus's text format."""
    collected = Collected(documents, most_tables)
    exposition, lock = Exposition(ALL, collected.samples), threading.Lock()

    def text() -> bytes:
        with lock:
            return exposition.text(collected.documents())

    return text


class MetricsServer:
    """Serves `/metrics` of one run over HTTP, without a login: numbers and names of tables. Driver.

    It is called with each new document, and exports the last one.
    """

    def __init__(self) -> None:
        self._seen: dict[str, LiveStatus] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(Collected(lambda: [*self._seen.values()]))
        self._server: WSGIServer | None = None

    def __call__(self, status: StatusDocument) -> None:
        """Take a new document of a run in this process."""
        self._seen[status.name] = LiveStatus(status, alive=status.state not in ("ended", "failed"))

    def start(self, host: str, port: int) -> int:
        """Listen and return the port, which is chosen for 0. Raises EngineError when that fails."""
        try:
            self._server, _ = start_http_server(port, host, registry=self._registry)
        except (OSError, OverflowError) as error:
            reason = f"metrics cannot be served at {host}:{port}: {error}"
            raise EngineError(reason, hint="choose another --metrics-port or --metrics-host") from error
        return int(self._server.server_port)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


@dataclass(slots=True)
class _Written:
    """The lines of one pipeline, by family, and the document that they were generated from."""

    seen: LiveStatus
    lines: list[str] = field(default_factory=list)


class Exposition:
    """Formats the metrics of many pipelines and caches the lines of unchanged ones. One thread at a time.

    A server with hundreds of pipelines is scraped every few seconds, and most of them do not change in between.

    Args:
        families: the families, in output order.
        samples: see `Samples`.
    """

    def __init__(self, families: Sequence[Family], samples: Samples) -> None:
        self._families, self._samples = tuple(families), samples
        self._heads = [_head(family) for family in self._families]
        self._moving = [number for number, family in enumerate(self._families) if family.moves]
        self._written: dict[str, _Written] = {}

    def text(self, documents: Iterable[LiveStatus]) -> bytes:
        """Return the text of all families of all pipelines."""
        written = [self._of(seen) for seen in documents]
        self._written = {each.seen.status.name: each for each in written}
        parts = []
        for number, head in enumerate(self._heads):
            parts.append(head)
            parts.extend(each.lines[number] for each in written)
        return "".join(parts).encode("utf-8")

    def _of(self, seen: LiveStatus) -> _Written:
        known = self._written.get(seen.status.name)
        if known is None or known.seen != seen:
            return _Written(seen, [self._lines(family, seen) for family in self._families])
        for number in self._moving:
            known.lines[number] = self._lines(self._families[number], seen)
        return known

    def _lines(self, family: Family, seen: LiveStatus) -> str:
        name, labels = _sample_name(family), ("pipeline", *family.labels)
        order = sorted(range(len(labels)), key=labels.__getitem__)
        lines = []
        for values, value in self._samples(family, seen):
            texts = (seen.status.name, *values)
            pairs = ",".join(f'{labels[series]}="{_escaped(texts[series])}"' for series in order)
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

"""Status documents as metrics for Prometheus: read at the moment of the scrape."""

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
from cdc.status.file import Seen
from cdc.status.model import StatusDocument

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

ALL: tuple[Family, ...] = (*FAMILIES, *ALIASES, *TABLE_FAMILIES)
_BY_TABLE = frozenset(family.name for family in TABLE_FAMILIES)
OTHERS = "(other)"
"""The label of the tables that have no series of their own, all together."""
MOST_TABLES = 500
"""Tables of a pipeline with series of their own. 10,000 tables with 4 series each would be more than most Prometheus
servers are made for; what is beyond is summed up."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Samples = Callable[[Family, Seen], Iterable[tuple[tuple[str, ...], float]]]
"""Label values after `pipeline`, and the value, of one family of one pipeline."""


class Collected(Collector):
    """Reads documents when it is scraped.

    Args:
        documents: the pipelines as of now.
        most_tables: of each pipeline, so many tables have series of their own: those that were there first, so that a
            series never moves to `(other)`.
    """

    def __init__(self, documents: Callable[[], Iterable[Seen]], most_tables: int = MOST_TABLES) -> None:
        self._documents, self._most = documents, most_tables
        self._own: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of the first scrape: documents may not be there yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics of all pipelines."""
        documents = self.documents()
        for family in ALL:
            metric = _metric(family)
            for seen in documents:
                for labels, value in self.samples(family, seen):
                    metric.add_metric((seen.status.name, *labels), value)
            yield metric

    def documents(self) -> list[Seen]:
        """The pipelines as of now."""
        documents = list(self._documents())
        for seen in documents:
            self._note_tables(seen.status)
        return documents

    def samples(self, family: Family, seen: Seen) -> Iterable[tuple[tuple[str, ...], float]]:
        """The values of one family of one pipeline, by labels."""
        if family.name in _BY_TABLE:
            return (((table,), value) for table, value in self._by_table(family, seen).items())
        return ((labels, value) for labels, value in family.read(seen) if value is not None)

    def _note_tables(self, status: StatusDocument) -> None:
        own = self._own[status.name]
        for table in status.tables:
            if len(own) >= self._most:
                return
            own.setdefault(table.table)

    def _by_table(self, family: Family, seen: Seen) -> dict[str, float]:
        own, sums = self._own[seen.status.name], dict[str, float]()
        for (table,), value in family.read(seen):
            if value is not None:
                label = table if table in own else OTHERS
                sums[label] = sums.get(label, 0.0) + value
        return sums


def _metric(family: Family) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.text, labels=("pipeline", *family.labels))


def metrics_text(documents: Callable[[], Iterable[Seen]], most_tables: int = MOST_TABLES) -> Callable[[], bytes]:
    """A function that gives the metrics in Prometheus's text format, each time it is called."""
    collected = Collected(documents, most_tables)
    exposition, turn = Exposition(ALL, collected.samples), threading.Lock()

    def text() -> bytes:
        with turn:
            return exposition.text(collected.documents())

    return text


class MetricsServer:
    """`/metrics` of one run, over HTTP, without a login: numbers and names of tables. Driver.

    It is told of each new document, and shows the last one.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(Collected(lambda: [*self._seen.values()]))
        self._server: WSGIServer | None = None

    def __call__(self, status: StatusDocument) -> None:
        """A new document of a run of this process, which lives."""
        self._seen[status.name] = Seen(status, alive=status.state not in ("ended", "failed"))

    def start(self, host: str, port: int) -> int:
        """Listen; the port, which was chosen when it is 0. Raises EngineError when that cannot be."""
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
    """The lines of one pipeline, by family, and what they were written of."""

    seen: Seen
    lines: list[str] = field(default_factory=list)


class Exposition:
    """Writes the metrics of many pipelines: what one had at the last scrape is not written again. One thread at a time.

    A server with hundreds of pipelines is scraped every few seconds, and most of them have not changed.

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

"""Batches as OpenTelemetry traces: a span for each committed batch, and below it one for each phase. Driver.

    cdc.batch                 from its start to its commit
      cdc.batch.schema ...    the phases of `cdc.status`, one after the other

Phases of a task take turns with every block of rows, so their spans are not when but how long: each is the sum of a
phase, and they follow each other in the order that a block goes. What no phase has is the gap at the end.

Spans wait in a bounded queue and are sent by a thread of their own. A collector that is away or slow costs spans, and
nothing else: neither a batch nor the end of a run waits for it.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from cdc.status.model import PHASES

if TYPE_CHECKING:
    from cdc.progress import BatchReport

END_S = 2.0
"""How long the end of a run waits for the last spans to be sent."""
_PATH = "/v1/traces"
_LIBRARY = "opentelemetry"


class Traces:
    """The traces of one run. Driver, one thread.

    Args:
        name: of the pipeline; source, sink: its connectors.
        endpoint: where to send them; None for what the environment says.
        warn: is told once when the collector does not answer. Any thread.
        guest: whether the process is somebody else's, with log settings of his own.
    """

    def __init__(
        self,
        name: str,
        source: str,
        sink: str,
        endpoint: str | None,
        warn: Callable[[str], None],
        *,
        guest: bool = False,
    ) -> None:
        if not guest:
            logging.getLogger(_LIBRARY).setLevel(logging.CRITICAL)  # each failed try is a line otherwise
        resource = Resource.create({**_service(), "cdc.pipeline": name, "cdc.source": source, "cdc.sink": sink})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=None if endpoint is None else _signal_endpoint(endpoint))
        where = endpoint or "the collector that the environment names"
        self._provider.add_span_processor(BatchSpanProcessor(_ReportingExporter(exporter, where, warn)))
        self._tracer = self._provider.get_tracer("cdc")
        self._name = name

    def batch(self, report: BatchReport) -> None:
        """A batch is committed."""
        end = _ns(report.committed_s)
        start = end - _ns(report.duration_s)
        attributes: dict[str, Any] = {
            "cdc.pipeline": self._name, "cdc.batch": report.batch, "cdc.rows": report.rows,
            "cdc.rows_read": sum(report.read.values()), "cdc.bytes": report.bytes, "cdc.tables": len(report.tables),
            "cdc.schema_changes": len(report.changes), "cdc.position": json.dumps(report.position),
        }  # fmt: skip
        if report.lag_s is not None:
            attributes["cdc.lag_s"] = round(report.lag_s, 3)
        span = self._tracer.start_span("cdc.batch", Context(), SpanKind.CONSUMER, attributes, start_time=start)
        context = set_span_in_context(span)
        for phase in [name for name in PHASES if report.phases.get(name)]:
            until = min(end, start + _ns(report.phases[phase]))
            child = self._tracer.start_span(f"cdc.batch.{phase}", context, start_time=start)
            child.end(until)
            start = until
        span.end(end)

    def record_failure(self, error: BaseException, batch: int | None, now_s: float) -> None:
        """Something stopped the run, or a batch that begins again."""
        attributes = {"cdc.pipeline": self._name} | ({} if batch is None else {"cdc.batch": batch})
        span = self._tracer.start_span("cdc.failure", Context(), attributes=attributes, start_time=_ns(now_s))
        span.add_event(
            "exception", {"exception.type": type(error).__name__, "exception.message": str(error)}, _ns(now_s)
        )
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(_ns(now_s))

    def close(self) -> None:
        """Send what waits, for `END_S` at most; what takes longer is lost when the process ends."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(END_S)


class _ReportingExporter(SpanExporter):
    """Tells once that spans are not taken, and again after some were."""

    def __init__(self, exporter: SpanExporter, where: str, warn: Callable[[str], None]) -> None:
        self._exporter, self._where, self._warn, self._lost = exporter, where, warn, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS and not self._lost:
            self._warn(f"traces are lost, which stops nothing else: {self._where} does not take them")
        self._lost = result is not SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _service() -> dict[str, str]:
    """The service's name, where the environment has none."""
    named = os.environ.get("OTEL_SERVICE_NAME") or f"{SERVICE_NAME}=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return {} if named else {SERVICE_NAME: "cdc"}


def _signal_endpoint(endpoint: str) -> str:
    """The address of the signal: that of a collector alone gets the usual path."""
    return endpoint.rstrip("/") + _PATH if urlsplit(endpoint).path in ("", "/") else endpoint


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)

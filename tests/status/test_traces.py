"""Batches as OpenTelemetry traces, sent to a collector that decodes them; and one that is away, slow or full."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from http_server import QuietHandler
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

import cdc
from cdc.errors import SinkError, SpecError
from cdc.progress import BatchReport, Progress, TableTotals
from cdc.schema import TableId
from cdc.spec import traces as options
from cdc.status.recording import Outlets, Recording, first_status
from cdc.status.traces import END_S, Traces

FILE = "source:\n  type: values\n  rows: []\nsink:\n  type: values\npipeline:\n  traces: otlp\n"
PHASES = {"dispatch": 0.1, "read": 0.3, "prepare": 0.2, "commit": 0.15}


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent; answers with `code`, once `hold` is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        self.headers: list[Any] = []
        self.code, self.hold = 200, threading.Event()
        self.hold.set()
        self.daemon_threads = True
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def spans(self) -> dict[str, Span]:
        """By name; the last one of each."""
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    @property
    def resource(self) -> dict[str, str]:
        found = self.requests[0].resource_spans[0].resource.attributes
        return {each.key: each.value.string_value for each in found}


class Handler(QuietHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.hold.wait()
        self.server.paths.append(self.path)
        self.server.headers.append(self.headers)
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.code)
        self.end_headers()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.hold.set()
    collector.shutdown()
    collector.server_close()


def report(batch: int = 7) -> BatchReport:
    tables = {TableId("shop", "orders"): TableTotals(inserts=5, updates=1)}
    position = {"file": "binlog.000042", "position": 1234}
    return BatchReport(
        batch, tables, {}, 1.0, 1_700_000_000.0, 0.25, {"shop.orders": 6}, PHASES, (), position, bytes=321
    )


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in span.attributes}


def recording(root: Path, traces: Traces | None) -> Recording:
    first = first_status(
        root, "shop-1", name="shop", source="mysql", sink="duckdb", file="shop.yaml", behavior="evolve"
    )  # fmt: skip
    return Recording(first, root, Progress(), lambda text: None, Outlets(traces=traces))


def test_a_batch_is_a_trace_with_its_phases(collector: Collector, tmp_path: Path) -> None:
    warned: list[str] = []
    with recording(tmp_path, Traces("shop", "mysql", "duckdb", collector.url, warned.append)) as made:
        made.batch(report())
        made.batch(BatchReport(8, {}, {}, 0.1, 1_700_000_001.0, None))
    assert (collector.paths, warned) == (["/v1/traces"], [])
    assert collector.resource.items() >= {
        "service.name": "cdc", "cdc.pipeline": "shop", "cdc.source": "mysql", "cdc.sink": "duckdb",
    }.items()  # fmt: skip
    spans = collector.spans
    batch = spans["cdc.batch"]
    assert (batch.start_time_unix_nano, batch.end_time_unix_nano) == (1_699_999_999 * 10**9, 1_700_000_000 * 10**9)
    told = attributes(batch)
    assert (told["cdc.batch"], told["cdc.rows"], told["cdc.bytes"], told["cdc.lag_s"]) == (7, 6, 321, 0.25)
    assert json.loads(told["cdc.position"]) == {"file": "binlog.000042", "position": 1234}
    phases = [spans[f"cdc.batch.{name}"] for name in PHASES]
    assert len(spans) == 1 + len(PHASES), "a batch without anything is none"
    assert all(span.parent_span_id == batch.span_id and span.trace_id == batch.trace_id for span in phases)
    seconds = [(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9 for span in phases]
    assert seconds == pytest.approx([*PHASES.values()])
    assert phases[0].start_time_unix_nano == batch.start_time_unix_nano
    assert phases[1].start_time_unix_nano == phases[0].end_time_unix_nano


def test_what_stops_a_run_is_a_trace_with_its_error(collector: Collector, tmp_path: Path) -> None:
    made = recording(tmp_path, Traces("shop", "mysql", "duckdb", collector.url, print))
    with pytest.raises(SinkError), made:
        raise SinkError("the disk is full", where="shop.duckdb")
    failure = collector.spans["cdc.failure"]
    assert failure.status.code == 2
    assert {each.key: each.value.string_value for each in failure.events[0].attributes} == {
        "exception.type": "SinkError", "exception.message": "shop.duckdb: the disk is full",
    }  # fmt: skip


def test_the_environment_says_where_and_how(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "warehouse")
    traces = Traces("shop", "mysql", "duckdb", None, print)
    traces.batch(report())
    traces.close()
    assert collector.headers[0]["x-key"] == "secret"
    assert collector.resource["service.name"] == "warehouse"
    assert "cdc.batch" in collector.spans


def test_a_collector_that_does_not_take_them_is_told_of_once(collector: Collector) -> None:
    collector.code = 400
    warned: list[str] = []
    traces = Traces("shop", "mysql", "duckdb", f"{collector.url}/mine", warned.append)
    for number in range(3):
        traces.batch(report(number))
        traces._provider.force_flush()
    traces.close()
    assert warned == [f"traces are lost, without other effects: {collector.url}/mine does not accept them"]
    assert set(collector.paths) == {"/mine"}


@pytest.mark.slow
def test_neither_a_batch_nor_the_end_waits_for_a_collector_that_does_not_answer(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.hold.clear()
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    traces = Traces("shop", "mysql", "duckdb", collector.url, print)
    for number in range(200):  # the queue has long been full
        traces.batch(report(number))
    ended = threading.Thread(target=traces.close)
    began = time.monotonic()
    ended.start()
    ended.join(30 * END_S)
    assert not ended.is_alive(), f"it waits since {time.monotonic() - began:.0f} s"


def test_off_is_the_default_and_loads_nothing(tmp_path: Path) -> None:
    spec = cdc.load(tmp_path / "p.yaml", text=FILE.replace("  traces: otlp\n", "  name: p\n")).spec
    assert spec.pipeline.traces == "none"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("  traces.endpoint: collector:4318\n", "is not a URL"),
        ("  traces.endpoint: http://me:secret@collector:4318\n", "contains a password"),
    ],
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        cdc.load(tmp_path / "p.yaml", text=FILE + more)
    assert "secret" not in str(caught.value)


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_NEEDED", ("opentelemetry.nothing.there",))
    with pytest.raises(SpecError, match=r"p\.yaml:7:11: pipeline\.traces: needs packages") as caught:
        cdc.load(tmp_path / "p.yaml", text=FILE)
    assert "pip install 'cdc-pipelines[otel]'" in str(caught.value)

"""Comparisons with the source that are begun from the page: told table by table, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_control import FakeControl, shop
from web_client import TestClient

from cdc.errors import NotNow, PipelineUnknown, SinkError
from cdc.serve.control import PipelineView
from cdc.verify.report import TableReport, Verdict, Verification
from cdc.web.app import create_app
from cdc.web.guard import API_HEADER
from cdc.web.settings import WebSettings
from cdc.web.verifying import Verifications

EQUAL = TableReport("shop.users", ("shop.users",), Verdict.EQUAL, 7, 7)
OTHER = TableReport("shop.orders", ("shop.orders",), Verdict.DIFFERENT, 9, 8, missing=1)


class Comparing:
    """Compares when it is let; what it then finds."""

    def __init__(self, *tables: TableReport) -> None:
        self.go, self.told, self.tables = threading.Event(), threading.Event(), tables
        self.error: Exception | None = None

    def __call__(self, view: PipelineView, told: Callable[[TableReport], None]) -> Verification:
        for table in self.tables:
            told(table)
        self.told.set()
        assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return Verification(view.name, 3, {}, self.tables)


@pytest.fixture
def control(tmp_path: Path) -> FakeControl:
    return shop(tmp_path)


def ended(name: str = "verify-shop") -> None:
    for thread in list(threading.enumerate()):
        if thread.name == name:
            thread.join(60)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("verify-")]


def test_tables_are_told_as_they_are_known_and_then_the_end(control: FakeControl) -> None:
    comparing = Comparing(EQUAL, OTHER)
    verifications = Verifications(control, comparing)
    assert verifications.of("shop") is None
    verifications.start("shop")
    assert comparing.told.wait(60)
    found = verifications.of("shop")
    assert found is not None
    assert (found.state, found.lines[0], found.ended_s) == ("running", "shop.users: equal, 7 rows", None)
    with pytest.raises(NotNow, match="shop is being verified"):
        verifications.start("billing")
    comparing.go.set()
    ended()
    found = verifications.of("shop")
    assert found is not None
    assert (found.state, found.summary) == ("different", "1 of 2 tables equal")


@pytest.mark.parametrize(("also", "state"), [((), "open"), ((OTHER,), "different")])
def test_it_is_open_where_nothing_differs_and_not_all_could_be_told(
    control: FakeControl, also: tuple[TableReport, ...], state: str
) -> None:
    comparing = Comparing(EQUAL, TableReport("shop.t", ("shop.t",), Verdict.OPEN, note="it is being copied"), *also)
    comparing.go.set()
    verifications = Verifications(control, comparing)
    verifications.start("shop")
    ended()
    found = verifications.of("shop")
    assert found is not None
    assert found.state == state


def test_what_stops_it_is_shown_with_the_next_step(control: FakeControl) -> None:
    comparing = Comparing()
    comparing.error = SinkError("its rows cannot be read back", where="sink kafka", hint="take another sink")
    comparing.go.set()
    verifications = Verifications(control, comparing)
    verifications.start("shop")
    ended()
    found = verifications.of("shop")
    assert found is not None
    assert found.error is not None
    assert (found.state, found.error.hint) == ("failed", "take another sink")
    with pytest.raises(PipelineUnknown):
        verifications.start("nobody")


@pytest.mark.slow
def test_the_page_and_the_api_begin_it_and_show_it(control: FakeControl, monkeypatch: pytest.MonkeyPatch) -> None:
    comparing = Comparing(EQUAL)
    comparing.go.set()
    monkeypatch.setattr("cdc.web.app.Verifications", lambda control: Verifications(control, comparing))
    client = TestClient(create_app(control, WebSettings()), base_url="http://127.0.0.1:8380")
    assert client.get("/api/v1/pipelines/shop/verify").json() == {"verify": None}
    assert client.post("/api/v1/pipelines/shop/verify", headers={API_HEADER: "1"}).status_code == 200
    ended()
    assert client.get("/api/v1/pipelines/shop/verify").json()["verify"]["state"] == "equal"
    page = client.get("/pipelines/shop").text
    assert "shop.users: equal, 7 rows" in page
    assert "1 of 1 table equal" in page


@pytest.mark.slow
def test_the_comparison_is_that_of_cdc_verify_with_the_version_that_runs(control: FakeControl, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("a mistake since then")
    verifications = Verifications(control)
    verifications.start("billing")
    ended("verify-billing")
    found = verifications.of("billing")
    assert found is not None
    assert found.error is not None
    assert (found.state, found.error.message) == ("failed", "no pipeline has run here yet")

"""The REST API: what it shows, what it does, and how it says no."""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest
from fake_control import HOSTILE, FakeControl, fake, form, shop, status, told, view
from jsonschema import Draft202012Validator
from together import together
from web_client import TestClient

from cdc import web
from cdc.errors import SinkError
from cdc.schema import TableId
from cdc.serve.control import ErrorView, RunTotals
from cdc.state.store import LocalStore
from cdc.status.model import PHASES, Point
from cdc.tables.requests import Mailbox, RequestKind
from cdc.web import api
from cdc.web.actions import ACTIONS
from cdc.web.app import create_app
from cdc.web.guard import API_HEADER
from cdc.web.settings import WebSettings
from cdc.web.templating import link
from cdc.web.words import clock

BASE = "/api/v1/pipelines"
SENT = {API_HEADER: "1"}


@pytest.fixture
def control(tmp_path: Path) -> FakeControl:
    return shop(tmp_path)


@pytest.fixture
def client(control: FakeControl) -> TestClient:
    return TestClient(create_app(control, WebSettings()), base_url="http://127.0.0.1:8380")


def test_all_pipelines_in_short(client: TestClient) -> None:
    found = {each["name"]: each for each in client.get(BASE).json()["pipelines"]}
    assert {"shop", "nightly", "billing"} < set(found)
    assert (found["shop"]["lag_s"], found["shop"]["tables"], found["shop"]["state"]) == (1.4, 120, "running")
    assert found["billing"]["last_error"]["hint"] == "free some space and start it"
    assert found["nightly"]["lag_s"] is None


def test_one_pipeline_with_its_document(client: TestClient) -> None:
    found = client.get(f"{BASE}/shop").json()
    assert found["status"]["position"] == {"file": "binlog.000042", "position": 19_234_871}
    assert found["status"]["lag"]["transactions"] == 812
    assert found["runs"][0]["why"] == "start"
    assert "tables" not in found["status"], "they are many, and have an address of their own"


def test_tables_come_in_pages_and_can_be_filtered(client: TestClient) -> None:
    found = client.get(f"{BASE}/shop/tables?size=50&page=2").json()
    assert (found["total"], [found["tables"][0]["table"], len(found["tables"])]) == (120, ["shop.table_100", 20])
    found = client.get(f"{BASE}/shop/tables?q=TABLE_11").json()
    assert found["total"] == 10


def test_batches_have_phases_and_points(client: TestClient) -> None:
    found = client.get(f"{BASE}/shop/batches").json()
    assert (len(found["batches"]), len(found["points"])) == (50, 240)
    assert found["batches"][-1]["phases"]["decode"] == 0.21


def test_schemas_have_versions(client: TestClient) -> None:
    found = client.get(f"{BASE}/shop/schemas?table=shop.orders").json()["tables"]
    versions = found.pop("shop.orders")
    assert found == {}
    names = [[column["name"] for column in version["columns"]] for version in versions]
    assert [(version["version"], version["batch"]) for version in versions] == [(1, 0), (2, 7), (3, 9)]
    assert names == [["id", "note"], ["id", "note", "qty"], ["id", "qty"]]
    assert versions[0]["columns"][0] == {"name": "id", "type": "INT", "nullable": False, "key": True, "comment": ""}


def test_errors_have_hints_and_changes_that_were_held_back(client: TestClient) -> None:
    found = client.get(f"{BASE}/shop/errors").json()
    assert found["errors"][0]["hint"] == "start it, or wait"
    assert [change["outcome"] for change in found["schema_changes"]] == ["held-back"]
    assert client.get(f"{BASE}/billing/errors").json()["errors"][0]["message"] == "the disk is full"


def test_a_plan_is_text_and_what_stops_it_an_error(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.yaml").write_text(
        'source: {type: values, path: rows.jsonl}\nsink: {type: values, path: "-"}\npipeline: {name: shop}\n'
    )
    monkeypatch.setattr("cdc.api.plan", lambda pipeline: f"plan of {pipeline.spec.label}")
    assert client.get(f"{BASE}/shop/plan").json() == {"plan": "plan of shop"}

    def refuse(shown: object) -> str:
        raise SinkError("it is gone", where="fe:9030", hint="start with a new --state-dir; `cdc resync FILE shop.a`")

    monkeypatch.setattr(api, "plan_text", refuse)
    answer = client.get(f"{BASE}/shop/plan")
    assert (answer.status_code, answer.json()["error"]["hint"]) == (
        502,
        "start with another pipeline.name (its state is in a folder of that name); `cdc resync shop shop.a`",
    )


def test_the_log(client: TestClient) -> None:
    assert [line["level"] for line in client.get(f"{BASE}/shop/log?last=2").json()["log"]] == ["warning", "info"]


@pytest.mark.parametrize("action", ["start", "stop", "drain", "savepoint"])
def test_actions(client: TestClient, control: FakeControl, action: str) -> None:
    answer = client.post(f"{BASE}/shop/{action}", headers=SENT)
    assert (answer.status_code, answer.json()["done"]) == (200, action)
    assert control.asked == [(action, "shop")]


@pytest.mark.parametrize("action", ["stop", "drain"])
def test_a_stop_of_a_pipeline_without_a_run_is_about_the_next_one(client: TestClient, action: str) -> None:
    answer = client.post(f"{BASE}/nightly/{action}", headers=SENT)
    assert answer.json()["message"] == "No run will begin until it is started."


def test_an_invalid_file_is_shown_with_where_it_is_wrong_and_without_actions_that_it_cannot_have(
    client: TestClient, control: FakeControl, tmp_path: Path
) -> None:
    wrong = str(tmp_path / "shop.yaml:3:1: sink.path: is missing")
    control.put(view("wrong", tmp_path, "invalid", state_dir="", source="", sink="", file_errors=(wrong,)))
    page = client.get("/pipelines/wrong").text
    assert wrong in page
    assert "nothing runs until they are corrected" in page
    assert ('value="start"' in page, 'value="savepoint"' in page, "not running" in page) == (False, False, False)
    assert ">shop.yaml:3:1: sink.path: is missing</span>" in client.get("/").text


def test_the_list_has_the_last_error_also_while_it_is_tried_again(
    client: TestClient, control: FakeControl, tmp_path: Path
) -> None:
    error = ErrorView("SourceUnavailable", "no connection", "db:3306", "is it running?", 1.0, True)
    control.put(view("away", tmp_path, "starting", last_error=error, attention="failed 3 times in a row"))
    page = client.get("/").text
    assert 'title="db:3306: no connection (next step: is it running?)">db:3306: no connection<' in page


def test_small_rates_have_an_axis(client: TestClient, control: FakeControl) -> None:
    now = time.time()
    points = tuple(Point(now - 60 + second, 0.0, 0.25, 0.5) for second in range(60))
    told(control, "shop", status("shop", points=points))
    page = client.get("/pipelines/shop").text
    assert re.findall(r'text-anchor="end">([^<]*)<', page)[4:7] == ["0", "0.25", "0.5"]


def test_a_table_is_re_snapshotted(client: TestClient, control: FakeControl) -> None:
    answer = client.post(f"{BASE}/shop/resync", headers=SENT, json={"table": "shop.orders"})
    assert answer.json()["message"] == "shop.orders will be re-snapshotted."
    assert control.asked == [("resync", "shop", "shop.orders")]


@pytest.mark.parametrize("what", ["pause", "resume"])
def test_a_table_is_paused_and_resumed(client: TestClient, control: FakeControl, what: str) -> None:
    answer = client.post(f"{BASE}/shop/{what}", headers=SENT, json={"table": "shop.orders"})
    assert answer.json()["message"] == f"shop.orders is {what}d."
    assert control.asked == [(what, "shop", "shop.orders")]
    assert client.post(f"{BASE}/shop/{what}", headers=SENT).json()["error"]["message"] == "no table was given"


def test_several_are_started_and_those_that_refuse_are_named(client: TestClient, control: FakeControl) -> None:
    token = form(client.get("/pipelines/nightly").text, "start")["csrf"]
    control.put(replace(control.pipeline("billing"), state="stopped"))
    fields = {"csrf": token, "action": "stop", "name": ["shop", "billing", "gone"]}
    page = client.post("/bulk", data=fields).text
    assert "stop: 1 of 3 pipelines. Not: billing: it is stopped already; gone: there is no such pipeline" in page
    assert control.asked == [("stop", "shop")]
    assert client.post("/bulk", data={"action": "start", "name": "shop"}).status_code == 409, "without the token"
    assert client.post("/bulk", data={**fields, "action": "resync"}).status_code == 400
    assert client.post("/bulk", data={"csrf": token, "action": "start"}).status_code == 400
    assert len(control.asked) == 1


def test_the_page_has_the_file_without_its_secrets_and_totals_over_runs(
    client: TestClient, control: FakeControl
) -> None:
    Path(control.pipeline("shop").file).write_text("source:\n  type: mysql\n  password: hunter2\n")
    control.put(replace(control.pipeline("shop"), totals=RunTotals(1234, 5, 7_000_000, 99)))
    page = client.get("/pipelines/shop").text
    assert ">source:\n  type: mysql\n  password: ********\n" in page, "as it is written"
    assert "hunter2" not in page
    assert '7.0\u00a0M</dd><dd class="about">1,234 runs, 5 failed' in page
    listed = client.get("/").text
    assert re.search(r'data-live="p-shop"[^>]*data-rows="7000000".*?class="n rows">7\.0\u00a0M</td>', listed, re.DOTALL)


def test_times_of_the_log_are_times_of_the_clock() -> None:
    now = datetime(2026, 11, 26, 8, 30, tzinfo=UTC).timestamp()
    assert clock(now - 3, now) == "08:29:57"
    assert clock(datetime(2026, 11, 25, 23, 59, 59, tzinfo=UTC).timestamp(), now) == "Nov 25 23:59:59"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_of_phases_can_be_told_apart(scheme: str) -> None:
    sheet = (Path(web.__file__).parent / "static" / "style.css").read_text()
    light, dark = sheet.split("@media (prefers-color-scheme: dark)")[:2]
    colours = dict(re.findall(r"--p-(\w+): #(\w{6})", light))
    if scheme == "dark":
        colours |= dict(re.findall(r"--p-(\w+): #(\w{6})", dark.partition("}")[0]))
    assert colours.keys() == set(PHASES)
    apart = {(a, b): distance(colours[a], colours[b]) for a, b in combinations(colours, 2)}
    assert {pair: round(far) for pair, far in apart.items() if far < 25} == {}


def distance(one: str, other: str) -> float:
    """CIE76 between two colours: 2.3 can just be seen."""
    return math.dist(lab(one), lab(other))


def lab(colour: str) -> tuple[float, float, float]:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
              for c in (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))]  # fmt: skip
    r, g, b = linear
    x, y, z = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def test_a_schedule_is_shown_with_its_next_time(client: TestClient) -> None:
    page = client.get("/pipelines/nightly").text
    assert "0 2 * * *, next run in" in page
    assert "next run" not in client.get("/pipelines/shop").text


def test_paused_tables_are_shown_with_what_ends_that(client: TestClient, control: FakeControl) -> None:
    assert {each["name"]: each["paused"] for each in client.get(BASE).json()["pipelines"]}["shop"] == ["shop.archive"]
    page = client.get("/pipelines/shop").text
    fields = form(page, "resume")
    assert fields["table"] == "shop.archive"
    client.post("/actions/shop", data=fields)
    assert control.asked == [("resume", "shop", "shop.archive")]
    assert "paused: shop.archive" in client.get("/").text
    assert 'cdc_tables_paused{pipeline="shop"} 1' in client.get("/metrics").text


def test_a_pause_that_the_next_run_takes_in_is_shown_of_one_that_is_stopped(
    client: TestClient, control: FakeControl, tmp_path: Path
) -> None:
    control.put(view("idle", tmp_path, "stopped"))
    told(control, "idle", status("idle", state="ended", paused=()))
    assert client.get(f"{BASE}/idle").json()["status"]["paused"] == []
    requests = Mailbox(LocalStore(Path(control.pipeline("idle").state_dir)))
    requests.add(TableId("shop", "orders"), RequestKind.PAUSE)
    assert client.get(f"{BASE}/idle").json()["status"]["paused"] == ["shop.orders"]
    requests.add(TableId("shop", "orders"), RequestKind.RESUME)
    shown = client.get(f"{BASE}/idle").json()["status"]
    assert (shown["paused"], shown["resumed"]) == ([], ["shop.orders"])


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("nobody/start", "", 404, "no such pipeline"),
        ("shop/resync", "", 400, "no table was given"),
        ("shop/resync", "[1]", 400, "not a JSON object"),
        ("shop/resync", "{", 400, "is not JSON"),
        ("shop/resync", "[" * 30_000, 400, "is not JSON"),
        ("shop/resync", '{"table": "\\ud800.x"}', 400, "is not JSON"),
        ("shop/resync", '{"table": 5}', 400, "must be a text"),
        ("shop/resync", '{"table": "shop.a", "tabel": "x"}', 400, "is unknown"),
        ("shop/start", '{"table": "shop.a"}', 400, "is unknown"),
        ("shop/start?when=now", "", 400, "is unknown"),
        ("shop/resync", '{"table": "shop.nothing"}', 404, "does not capture"),
        ("shop/explode", "", 404, "Not Found"),
        ("shop/plan", "", 405, "Method Not Allowed"),
    ],
)
def test_what_cannot_be_done(client: TestClient, path: str, body: str, status: int, message: str) -> None:
    answer = client.post(f"{BASE}/{path}", headers=SENT, content=body)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/shop/tables?size=0", "'0' is not a whole number from 1 to 1000"),
        ("/shop/tables?size=1001", "from 1 to 1000"),
        ("/shop/tables?page=x", "'x' is not a whole number"),
        ("/shop/tables?page=-1", "'-1' is not a whole number"),
        ("/shop/tables?filter=a", "is unknown"),
        ("/shop/tables?page=1&page=2", "is given twice"),
        ("/shop/log?last=", "'' is not a whole number"),
        ("/shop?full=1", "is unknown"),
        ("?state=failed", "is unknown"),
    ],
)
def test_query_parameters_that_are_wrong_are_refused(client: TestClient, path: str, message: str) -> None:
    answer = client.get(f"{BASE}{path}")
    told = answer.json()["error"]
    assert (answer.status_code, told["type"]) == (400, "BadRequest")
    assert message in told["message"]
    assert told["where"].startswith("query parameter ")


def test_the_openapi_document_has_every_address_with_its_parameters(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    paths = document["paths"]
    routes = {
        (getattr(route, "path", ""), method.lower())
        for route in client.app.routes  # type: ignore[attr-defined]
        for method in getattr(route, "methods", None) or ()
        if getattr(route, "path", "").startswith("/api/") and method != "HEAD"
    }
    assert {(path, method) for path, methods in paths.items() for method in methods} == routes
    size = next(each for each in paths[f"{BASE}/{{name}}/tables"]["get"]["parameters"] if each["name"] == "size")
    assert size["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    body = paths[f"{BASE}/{{name}}/resync"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (body["required"], body["additionalProperties"]) == (["table"], False)
    resync = paths[f"{BASE}/{{name}}/resync"]["post"]["responses"]
    for body, host in ((b"x" * 70_000, "127.0.0.1:8380"), (b"", "elsewhere.example")):
        refused = client.post(f"{BASE}/shop/resync", content=body, headers={**SENT, "host": host})
        assert str(refused.status_code) in {*resync} - {"200", "403"}
    text = client.get("/openapi.json").text
    for name in set(re.findall(r"#/components/schemas/(\w+)", text)):
        assert name in document["components"]["schemas"]


@pytest.mark.slow
def test_any_request_is_answered_as_the_openapi_document_says(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    rng, parts = Random(1), {"components": document["components"]}
    names = ["shop", "nightly", "nobody", quote(HOSTILE, safe=""), "%2e%2e", "%00", "%ff", "shop%2Flake", "n" * 3_000]
    values = ["0", "1", "-1", "", "9" * 30, "%00", "%ff", "shop.orders", "1e3", "%D9%A3", "+1"]
    bodies = ["", "{}", "[]", "null", "NaN", '"x"', "[" * 5_000, '{"table": "%s"}' % ("x" * 60_000)]
    bodies += [
        f'{{"table": {value}}}' for value in ("null", '"shop.orders"', '""', '"."', '"a.b.c"', "{}", '"\\ud800"')
    ]
    asked = [(path, verb, operation) for path, verbs in document["paths"].items() for verb, operation in verbs.items()]
    for path in document["paths"]:
        assert client.request("PUT", path, headers=SENT).status_code in (404, 405)
    for path, verb, operation in asked * 8:
        query = "&".join(
            f"{rng.choice(['q', 'page', 'last', 'x', ''])}={rng.choice(values)}" for _ in range(rng.randrange(3))
        )
        url, body = (
            f"{path.replace('{name}', rng.choice(names))}?{query}",
            rng.choice(bodies) if verb == "post" else None,
        )
        answer = client.request(verb, url, headers=rng.choice([SENT, SENT, {}]), content=body)
        assert str(answer.status_code) in operation["responses"], (verb, url, answer.text)
        shape = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
        wrong = [error.message for error in Draft202012Validator({**shape, **parts}).iter_errors(answer.json())]
        assert not wrong, (verb, url, wrong)


def test_metrics_of_all_pipelines(client: TestClient) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'cdc_lag_seconds{pipeline="shop"} 1.4' in answer.text


def test_what_needs_attention_is_not_up_and_comes_first(
    client: TestClient, control: FakeControl, tmp_path: Path
) -> None:
    control.put(view("flaky", tmp_path, "waiting", attention="failed 4 times in a row"))
    control.put(view("wrong", tmp_path, "invalid", state_dir="", attention="invalid file"))
    told(control, "flaky", status("flaky", state="failed"))
    metrics, page = client.get("/metrics").text, client.get("/").text
    up = dict(re.findall(r'^cdc_up\{pipeline="(\w+)"\} (\d)', metrics, re.MULTILINE))
    assert up == {"shop": "1", "nightly": "1", "billing": "0", "flaky": "0", "wrong": "0"}
    listed = {each["name"]: each["attention"] for each in client.get(BASE).json()["pipelines"]}
    assert {name for name, why in listed.items() if why and name in up} == {"billing", "flaky", "wrong"}
    assert listed["flaky"] == "failed 4 times in a row"
    assert 'cdc_state{pipeline="flaky",state="waiting"} 1' in metrics
    assert 'cdc_state{pipeline="wrong",state="invalid"} 1' in metrics
    assert page.index("flaky") < page.index("nightly")
    assert 'Need attention</dt><dd class="bad">4<' in page


def test_the_page_of_the_documentation_names_every_address(client: TestClient) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "monitoring.md").read_text()
    for part in ("tables", "batches", "schemas", "errors", "plan", "log", "verify"):
        assert f"GET /api/v1/pipelines/NAME/{part}" in page
    for action in ACTIONS:
        assert f"POST /api/v1/pipelines/NAME/{action}" in page


@together("name", ["shop/plan", "shop/stop", "a/b", "\u00e4 b%2Fc?d#e", "shop"])
def test_a_name_with_slashes_or_odd_letters_is_one_name(tmp_path: Path, name: str) -> None:
    control = fake(view("shop", tmp_path), view("other", tmp_path))
    control.put(view(name, tmp_path))
    client = TestClient(create_app(control, WebSettings()), base_url="http://127.0.0.1:8380", follow_redirects=False)
    at = quote(name, safe="")
    assert client.get(f"{BASE}/{at}").json()["name"] == name
    assert client.get(f"{BASE}/{at}/tables").json()["total"] == 0
    assert client.post(f"{BASE}/{at}/stop", headers=SENT).json()["done"] == "stop"
    assert control.asked == [("stop", name)]
    page = client.get(link(name))
    assert page.status_code == 200
    fields = form(page.text, "stop")
    assert client.post(f"/actions/{at}", data=fields).headers["location"].startswith(link(name) + "?said=")
    assert control.asked == [("stop", name)] * 2

"""Who may come in, and what becomes of hostile names and texts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from fake_control import HOSTILE, FakeControl, form, shop, status, told, view
from starlette.types import Message
from web_client import TestClient

from cdc.errors import EngineError
from cdc.web.app import create_app
from cdc.web.guard import API_HEADER
from cdc.web.settings import WebSettings

TOKEN = "a-token-that-nobody-guesses"
OPEN = WebSettings("10.0.0.5", 8380, TOKEN)
LOOPBACK = WebSettings()
HOME = "http://127.0.0.1:8380"
ABROAD = "http://10.0.0.5:8380"
STOP = "/api/v1/pipelines/shop/stop"


@pytest.fixture
def control(tmp_path: Path) -> FakeControl:
    return shop(tmp_path)


def client(control: FakeControl, settings: WebSettings = LOOPBACK, base: str = HOME) -> TestClient:
    return TestClient(create_app(control, settings), base_url=base, follow_redirects=False)


class Tags(HTMLParser):
    """The tags of a page with their attributes, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "::", "warehouse.local"])
def test_nothing_listens_elsewhere_without_a_token(control: FakeControl, host: str) -> None:
    with pytest.raises(EngineError, match="open to everyone") as caught:
        create_app(control, WebSettings(host))
    assert "CDC_WEB_TOKEN" in caught.value.hint


def test_a_token_that_could_be_guessed_is_refused_and_none_is_shown(control: FakeControl) -> None:
    with pytest.raises(EngineError, match="could be guessed"):
        create_app(control, WebSettings("0.0.0.0", token="secret"))
    assert TOKEN not in repr(OPEN)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8380", "", "10.0.0.9"]
)
def test_a_name_of_another_site_that_leads_here_is_refused(control: FakeControl, host: str) -> None:
    assert client(control).get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8380", "127.0.0.1", "[::1]:8380", "LOCALHOST"])
def test_this_machines_own_names_are_known(control: FakeControl, host: str) -> None:
    assert client(control).get("/", headers={"host": host}).status_code == 200


def test_names_of_a_proxy_can_be_added(control: FakeControl) -> None:
    settings = WebSettings("0.0.0.0", 8380, TOKEN, hosts=("cdc.example.com",))
    answer = client(control, settings).get("/healthz", headers={"host": "cdc.example.com"})
    assert answer.status_code == 200
    assert client(control, settings).get("/healthz", headers={"host": "other.example.com"}).status_code == 421


@pytest.mark.parametrize(
    "path", ["/", "/pipelines/shop", "/api/v1/pipelines", "/metrics", "/plan/shop", "/schemas/shop"]
)
def test_without_the_token_nothing_is_shown(control: FakeControl, path: str) -> None:
    visitor = client(control, OPEN, ABROAD)
    assert visitor.get(path).status_code == 401
    answer = visitor.get(path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={quote(path)}")
    assert visitor.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert visitor.get(path, headers={"cookie": "cdc_session_8380=made-up"}).status_code == 401


def test_the_token_opens_the_api_and_needs_no_other_header(control: FakeControl) -> None:
    answer = client(control, OPEN, ABROAD).post(STOP, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert control.asked == [("stop", "shop")]


def test_logging_in_and_out(control: FakeControl) -> None:
    visitor = client(control, OPEN, ABROAD)
    wrong = visitor.post("/login", data={"token": "wrong", "next": "/"})
    assert wrong.status_code == 401
    assert "That is not the token." in wrong.text
    assert "set-cookie" not in wrong.headers
    right = visitor.post("/login", data={"token": TOKEN, "next": "/pipelines/shop"})
    assert (right.status_code, right.headers["location"]) == (303, "/pipelines/shop")
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in right.headers["set-cookie"]
    page = visitor.get("/pipelines/shop")
    assert page.status_code == 200
    assert TOKEN not in page.text
    fields = {"csrf": form(page.text, "stop")["csrf"]}
    assert visitor.post("/logout", data={"csrf": "wrong"}).status_code == 409
    assert visitor.post("/logout", data=fields).status_code == 303
    assert visitor.get("/pipelines/shop").status_code == 401


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "//[", "/\t/["]
)
def test_logging_in_leads_nowhere_else(control: FakeControl, target: str) -> None:
    answer = client(control, OPEN, ABROAD).post("/login", data={"token": TOKEN, "next": target})
    assert answer.headers["location"] == "/"


def test_a_form_does_what_its_button_says_and_says_so_once(control: FakeControl) -> None:
    visitor = client(control)
    fields = form(visitor.get("/pipelines/shop").text, "resync") | {"table": "shop.orders"}
    answer = visitor.post("/actions/shop", data=fields)
    assert answer.status_code == 303
    assert control.asked == [("resync", "shop", "shop.orders")]
    assert "shop.orders will be re-snapshotted." in visitor.get(answer.headers["location"]).text
    assert "shop.orders will be re-snapshotted." not in visitor.get(answer.headers["location"]).text


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"origin": "http://["}, {"sec-fetch-site": "cross-site"}],
)
def test_requests_from_pages_of_other_sites_do_nothing(control: FakeControl, headers: dict[str, str]) -> None:
    visitor = client(control)
    fields = form(visitor.get("/pipelines/shop").text, "stop")
    assert visitor.post("/actions/shop", data=fields, headers=headers).status_code == 403
    assert visitor.post(STOP, headers={API_HEADER: "1", **headers}).status_code == 403
    assert control.asked == []


def test_a_form_without_our_token_and_an_api_request_without_our_header_do_nothing(control: FakeControl) -> None:
    visitor = client(control)
    assert visitor.post("/actions/shop", data={"action": "stop"}).status_code == 409
    assert visitor.post("/actions/shop", data={"action": "stop", "csrf": "0" * 64}).status_code == 409
    assert visitor.post(STOP).status_code == 403
    assert control.asked == []


def test_a_read_only_server_shows_and_does_nothing(control: FakeControl) -> None:
    visitor = client(control, WebSettings(read_only=True))
    page = visitor.get("/pipelines/shop").text
    assert "<form" not in page.replace('<form method="get"', "")
    assert "Stop" not in page
    assert visitor.post(STOP, headers={API_HEADER: "1"}).status_code == 403
    assert visitor.post("/actions/shop", data={"action": "stop"}).status_code == 403
    assert control.asked == []


def test_what_cannot_be_done_is_a_page_with_the_next_step(control: FakeControl, tmp_path: Path) -> None:
    control.put(view("idle", tmp_path, "stopped"))
    visitor = client(control)
    answer = visitor.post("/actions/idle", data=form(visitor.get("/pipelines/shop").text, "stop"))
    assert answer.status_code == 409
    assert "it is stopped already" in answer.text
    assert "start it" in answer.text
    assert visitor.get("/pipelines/nobody").status_code == 404


def paths() -> list[str]:
    name = quote(HOSTILE, safe="")
    return [
        "/",
        f"/pipelines/{name}",
        f"/pipelines/{name}x",
        f"/pipelines/{name}?q={name}",
        "/schemas/shop",
        f"/schemas/shop?q={name}",
        f"/schemas/shop?table={quote(f'shop.{HOSTILE}')}",
        f"/schemas/{name}",
        f"/login?next={name}",
    ]


@pytest.mark.parametrize("path", paths())
def test_hostile_names_and_texts_stay_text(control: FakeControl, path: str) -> None:
    page = client(control).get(path).text
    found = Tags()
    found.feed(page)
    assert [attributes for tag, attributes in found.tags if tag == "script"] == [
        {"src": "/static/page.js", "defer": None}
    ]
    names = {name for _, attributes in found.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name == "style"}
    assert not {tag for tag, _ in found.tags} & {"iframe", "object", "embed", "style", "base"}
    assert "\u202e" not in page, "text is not turned around"


def test_answers_carry_the_policy_and_name_no_other_place(control: FakeControl) -> None:
    visitor = client(control)
    for path in ("/", "/pipelines/shop", "/static/page.js", "/static/style.css", "/api/v1/pipelines"):
        answer = visitor.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        found = set(re.findall(r"""(?:https?:)?//[\w.-]+\.\w+""", answer.text)) - {"http://www.w3.org"}
        assert found == set(), path


@pytest.mark.parametrize("path", ["/actions/shop", "/bulk", "/login", "/logout"])
def test_a_form_with_more_fields_than_any_page_has_is_refused(control: FakeControl, path: str) -> None:
    answer = client(control).post(path, content=b"a=b&" * 3_000)
    assert answer.status_code == 400
    assert "the form cannot be read" in answer.text


def test_what_stopped_a_pipeline_is_the_first_thing_on_its_page(control: FakeControl) -> None:
    control.put(replace(control.pipeline("shop"), state="waiting", attention="failed 4 times in a row"))
    text = client(control).get("/pipelines/shop").text
    assert text.index("failed 4 times in a row") < text.index("no connection") < text.index("Rows per second")
    assert text.count("no connection") == 1


def test_a_hundred_pipelines_of_a_hundred_tables_are_a_small_page(tmp_path: Path) -> None:
    control = FakeControl([])
    for number in range(100):
        name = f"pipeline-with-a-name-{number:03}"
        control.put(view(name, tmp_path))
        told(control, name, status(name, 100))
    answer = client(control).get("/", headers={"accept-encoding": "identity"})
    assert answer.text.count('data-live="p-') == 100
    assert len(answer.content) <= 110_000
    assert len(client(control).get("/pipelines/pipeline-with-a-name-007").content) <= 100_000


@pytest.mark.parametrize("path", ["/login", "/logout", "/actions/shop", STOP])
def test_a_body_without_end_is_not_read_to_its_end(control: FakeControl, path: str) -> None:
    handed = 0

    def endless() -> Iterator[bytes]:
        nonlocal handed
        for _ in range(10_000):
            handed += 1
            yield b"x" * 10_000

    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/x-www-form-urlencoded"}
    app, told = create_app(control, OPEN), list[Message]()
    parts: Iterator[bytes] = endless()

    async def receive() -> Message:
        body = next(parts, None)
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": True}

    async def ended() -> Message:
        raise asyncio.CancelledError

    async def send(message: Message) -> None:
        told.append(message)

    sent = [(name.encode(), value.encode()) for name, value in {"host": "10.0.0.5:8380", **headers}.items()]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
             "headers": sent, "scheme": "http", "server": ("10.0.0.5", 8380), "root_path": ""}  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert told[0]["status"] == 413
    assert handed <= 7
    told.clear()
    asyncio.run(app(scope, ended, send))
    assert told[0]["status"] == 503  # the server's end is none of the log's errors
    told.clear()
    parts = iter([b"x"])
    asyncio.run(app(scope, receive, send))
    assert told == [], "the client is gone"
    assert control.asked == []

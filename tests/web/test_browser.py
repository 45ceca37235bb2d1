"""The page in a real browser: what people see, do and reach by keyboard."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fake_control import HOSTILE, FakeControl, shop, status, told, view
from tiers import crossed

from cdc.status.model import SinkLag
from cdc.web.server import WebServer
from cdc.web.settings import WebSettings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REQUIRED = "chromium" in os.environ.get("CDC_REQUIRE_SERVICES", "").split(",")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="no chromium here: apt-get install chromium"),
]

if TYPE_CHECKING:
    import playwright.sync_api as playwright
else:
    wanted = "playwright.sync_api"
    playwright = __import__(wanted).sync_api if REQUIRED else pytest.importorskip(wanted)


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    assert CHROMIUM is not None, "CDC_REQUIRE_SERVICES names chromium: apt-get install chromium"
    with playwright.sync_playwright() as started:
        playwright.expect.set_options(timeout=60_000)
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def control(tmp_path: Path) -> FakeControl:
    return shop(tmp_path)


@pytest.fixture
def address(control: FakeControl) -> Iterator[str]:
    server = WebServer(control, WebSettings(port=0))
    yield server.start()
    server.stop()


@pytest.fixture
def page(browser: playwright.Browser, address: str) -> Iterator[playwright.Page]:
    """A page on which nothing may go wrong: no error in the console, nothing that the policy blocks.

    It is closed before the server ends.
    """
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if "127.0.0.1" not in request.url else None)
    yield page
    context.close()
    assert wrong == []


def test_the_overview_leads_to_a_pipeline_with_everything_on_its_page(page: playwright.Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="shop", exact=True).click()
    playwright.expect(page.get_by_role("heading", level=1)).to_have_text("shop")
    for name in ("Lag", "Rows per second", "Tables (120)", "Batches", "Schema changes", "Last errors", "Runs", "Log"):
        playwright.expect(page.get_by_role("heading", level=2).filter(has_text=name).first).to_be_visible()
    playwright.expect(page.get_by_role("img", name=re.compile("^From mysql .* to duckdb$"))).to_be_visible()
    shown = "(found) => found.map((each) => each.getBoundingClientRect()).map((box) => [box.x, box.width])"
    boxes = page.locator("svg.path rect").evaluate_all(shown)  # at once: the page is renewed meanwhile
    assert [width > 100 for _, width in boxes] == [True] * 4
    assert [x for x, _ in boxes] == sorted({x for x, _ in boxes}), "from left to right"
    assert [width > 300 for _, width in page.locator("svg.plot polyline").evaluate_all(shown)] == [True] * 3
    playwright.expect(page.get_by_text("Next step: start it, or wait")).to_be_visible()
    page.get_by_role("link", name="Next").click()
    playwright.expect(page.get_by_role("rowheader", name="shop.table_025", exact=True)).to_be_visible()
    page.get_by_label("Filter tables").fill("_119")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("rowheader", name="shop.table_119")).to_be_visible()
    page.get_by_role("link", name="Schemas", exact=True).click()
    page.get_by_role("link", name="shop.orders").click()
    playwright.expect(page.get_by_role("heading", name=re.compile("^Version 2"))).to_be_visible()


def test_a_button_asks_and_does(page: playwright.Page, address: str, control: FakeControl) -> None:
    page.goto(f"{address}pipelines/shop")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Stop", exact=True).click()
    assert control.asked == [], "it was not confirmed"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Stop", exact=True).click()
    playwright.expect(page.get_by_text("The run stops after its running batch.")).to_be_visible()
    assert control.asked == [("stop", "shop")]


def test_the_page_follows_and_leaves_what_one_types(page: playwright.Page, address: str, control: FakeControl) -> None:
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type("shop")
    playwright.expect(page.get_by_role("link", name="nightly")).to_be_hidden()
    told(control, "shop", status("shop", 7, written_per_s=77.0))
    control.put(replace(control.pipeline("shop"), state="stopping"))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="shop", exact=True))
    playwright.expect(row).to_contain_text("stopping")
    playwright.expect(row).to_contain_text("77 rows/s")
    playwright.expect(page.get_by_label("Filter pipelines by name")).to_have_value("shop")
    playwright.expect(page.get_by_label("Filter pipelines by name")).to_be_focused()
    playwright.expect(page.get_by_role("link", name="nightly")).to_be_hidden()


def rows(page: playwright.Page) -> list[str]:
    """The pipelines that the list shows, in its order."""
    found = page.locator("#pipelines tr:not([hidden]) th").all_inner_texts()
    return [name for name in found if "script" not in name]


def test_the_list_is_filtered_and_sorted_and_the_address_keeps_it(
    page: playwright.Page, address: str, control: FakeControl, tmp_path: Path
) -> None:
    for name, lag_s in (("slow", 700.0), ("quick", 0.2)):
        control.put(view(name, tmp_path))
        told(control, name, status(name, 3, lag=SinkLag(lag_s, 1, 1, lag_s)))
    page.goto(address)
    page.get_by_label("Filter pipelines by state").select_option("attention")
    assert rows(page) == ["billing"]
    page.get_by_label("Filter pipelines by state").select_option("running")
    page.get_by_role("button", name="Lag", exact=True).click()
    assert rows(page) == ["slow", "shop", "quick"]
    page.get_by_role("button", name="Lag", exact=True).press("Enter")
    assert rows(page) == ["quick", "shop", "slow"]
    page.get_by_label("Filter by lag").select_option("600")
    assert rows(page) == ["slow"]
    page.reload()
    assert rows(page) == ["slow"]
    playwright.expect(page.get_by_role("columnheader", name="Lag")).to_have_attribute("aria-sort", "ascending")


def test_several_pipelines_are_started_at_once_with_the_keyboard_alone(
    page: playwright.Page, address: str, control: FakeControl
) -> None:
    page.goto(address)
    start = page.get_by_role("group", name="Chosen pipelines").get_by_role("button", name="Start")
    playwright.expect(start).to_be_disabled()
    for name in ("billing", "nightly"):
        page.get_by_label(f"Choose {name}").press("Space")
    told(control, "shop", status("shop", 3, written_per_s=78.0))
    page.get_by_label("Filter pipelines by name").focus()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="shop", exact=True))
    playwright.expect(row).to_contain_text("78 rows/s")
    playwright.expect(page.get_by_text("2 chosen")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    start.press("Enter")
    playwright.expect(page.get_by_text("start: 2 of 2 pipelines.")).to_be_visible()
    assert sorted(control.asked) == [("start", "billing"), ("start", "nightly")]


def test_each_table_has_its_actions_and_a_running_pipeline_no_start(
    page: playwright.Page, address: str, control: FakeControl
) -> None:
    page.goto(f"{address}pipelines/shop")
    playwright.expect(page.get_by_role("button", name="Start", exact=True)).to_have_count(0)
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Resync shop.table_003").click()
    playwright.expect(page.get_by_text("shop.table_003 will be re-snapshotted.")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Pause shop.table_004").press("Enter")
    playwright.expect(page.get_by_text("shop.table_004 is paused.")).to_be_visible()
    assert control.asked == [("resync", "shop", "shop.table_003"), ("pause", "shop", "shop.table_004")]
    page.goto(f"{address}pipelines/billing")
    playwright.expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
    playwright.expect(page.get_by_role("button", name="Drain and stop")).to_have_count(0)


def test_plots_show_values_under_the_pointer_and_by_arrow_keys_over_a_range(
    page: playwright.Page, address: str, control: FakeControl
) -> None:
    now = time.time()
    folder = Path(control.pipeline("shop").state_dir)
    lines = [json.dumps([now - 60 * minute, minute, 10.0, 20.0]) for minute in range(170, 0, -1)]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    page.goto(f"{address}pipelines/shop")
    page.get_by_role("link", name="3 h", exact=True).click()
    playwright.expect(page.get_by_role("link", name="3 h", exact=True)).to_have_attribute("aria-current", "true")
    plot = page.get_by_role("group", name="Lag: arrow keys show values")
    plot.press("ArrowLeft")
    playwright.expect(plot.locator(".tip")).to_contain_text(re.compile(r"^\d\d:\d\d:\d\d UTC: lag (1\.0 s|99\d ms)$"))
    for _ in range(62):
        plot.press("ArrowLeft")
    playwright.expect(plot.locator(".tip")).to_contain_text(re.compile(r": lag 15\d\.\d s$"))
    rates = page.get_by_role("group", name="Rows per second: arrow keys show values")
    rates.hover()  # in its middle; waits where the page is just being renewed
    playwright.expect(rates.locator(".tip")).to_contain_text("read 10 rows/s, written 20 rows/s")


@crossed("width, scheme", [390, 960, 1440], ["light", "dark"])
def test_nothing_is_cut_off_or_wraps_at_any_width(
    page: playwright.Page, address: str, width: int, scheme: str, control: FakeControl
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 844})
    for path in ("", "pipelines/shop", "pipelines/billing", "schemas/shop"):
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        scrolled = "[...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth).length"
        assert width < 960 or page.evaluate(scrolled) == 0, f"{path}: a table is wider than the page"
        wrapped = page.evaluate(
            """[...document.querySelectorAll("button, .button, .badge, thead th, td.n, dd:not(.about), h2, .ranges a")]
            .filter((e) => e.offsetParent && !/script/.test(e.innerText)).filter((e) => {
              const range = document.createRange(); range.selectNodeContents(e);
              const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
              return boxes.some((box) => box.top >= boxes[0].bottom - 1); })
            .map((e) => e.className + ": " + e.innerText.slice(0, 60))"""
        )
        assert width < 960 or wrapped == [], path
        if folder := os.environ.get("CDC_SCREENSHOTS"):
            name = path.replace("/", "-") or "overview"
            page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)


def test_on_a_phone_the_list_is_cards_with_targets_for_a_thumb(page: playwright.Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address)
    card = page.get_by_role("row").filter(has=page.get_by_role("link", name="shop", exact=True))
    playwright.expect(card).to_contain_text("running")
    playwright.expect(card.get_by_role("cell", name="Lag 1.4 s")).to_be_visible()
    box = card.bounding_box()
    assert box is not None
    assert (box["x"] >= 0, box["x"] + box["width"] <= 390) == (True, True)
    page.goto(f"{address}pipelines/shop")
    for name in ("Stop", "Drain and stop", "Savepoint", "Verify"):
        button = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert button is not None
        assert button["height"] >= 36


def test_hostile_names_do_nothing_in_a_browser(page: playwright.Page, address: str) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))  # type: ignore[call-overload]
    page.goto(address)
    with page.expect_response(lambda response: response.url == address):
        pass  # the script has fetched the page again
    page.get_by_role("link", name=HOSTILE[:20]).click()
    playwright.expect(page.get_by_role("heading", level=1)).to_contain_text("alert(1)")
    with page.expect_response(lambda response: "/pipelines/" in response.url):
        pass
    assert dialogs == []


def test_all_of_it_can_be_reached_by_keyboard(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}pipelines/shop")
    reached: list[str] = []
    for _ in range(16):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel"))
    assert reached[0] == "Skip to content"
    buttons = ["Stop", "Drain and stop", "Savepoint", "Verify"]
    assert [name for name in reached if name in buttons] == buttons
    unnamed = page.evaluate(
        """[...document.querySelectorAll("a, button, input:not([type=hidden]), svg[role=img], [tabindex='0']")]
        .filter((e) => !(e.innerText || e.ariaLabel || e.labels?.length || e.querySelector?.("title")))
        .map((e) => e.outerHTML.slice(0, 90))"""
    )
    assert unnamed == [], "these have no name for those who do not see them"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(page: playwright.Page, address: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{address}pipelines/shop")
    ratios = page.evaluate(
        """() => {
        const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const rgb = (colour) => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
          return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
        const light = (c) => rgb(c).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
          .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (e) => { for (; e; e = e.parentElement) {
          const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$|transparent/.test(c)) return c; } };
        return [...document.querySelectorAll("h1, dt, dd, td, th, button, a, .badge, .empty, .legend span")]
          .filter((e) => e.innerText?.trim() && e.offsetParent).map((e) => {
            const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
            return [(a + 0.05) / (b + 0.05), e.className || e.tagName]; }); }"""
    )
    assert len(ratios) > 100
    assert [name for ratio, name in ratios if ratio < 4.5] == [], "too little contrast"


@pytest.mark.parametrize(("server_ms", "every_s"), [(1, 2), (200, 20)])
def test_a_page_that_costs_the_server_much_is_fetched_less_often(
    page: playwright.Page, address: str, server_ms: int, every_s: int
) -> None:
    """In eleven seconds of the page's clock, or more where the machine is slow; one percent of a core is 200 ms of it
    in 20 s."""
    fetched = []

    def costly(route: playwright.Route) -> None:
        answer = route.fetch()
        assert float(answer.headers["server-timing"].removeprefix("page;dur=")) >= 0
        fetched.append(answer)
        route.fulfill(response=answer, headers={**answer.headers, "server-timing": f"page;dur={server_ms}"})

    page.clock.install()
    page.goto(address)
    begun_ms = page.evaluate("Date.now()")
    page.route(address, costly)
    for _ in range(110):
        page.clock.run_for(100)
        page.evaluate("document.title")  # what was fetched is taken in
    page.unroute_all(behavior="ignoreErrors")  # one may be on its way while the page is closed
    passed_s = (page.evaluate("Date.now()") - begun_ms) / 1000
    assert 1 <= len(fetched) <= passed_s / every_s + 1
    assert len(fetched) > 1 or every_s == 20


def test_a_hundred_pipelines_are_there_at_once_and_are_refreshed_with_little(
    page: playwright.Page, address: str, control: FakeControl, tmp_path: Path
) -> None:
    for number in range(100):
        name = f"pipeline-{number:03}"
        control.put(view(name, tmp_path))
        told(control, name, status(name, 100))
    page.goto(address)
    playwright.expect(page.get_by_role("link", name="pipeline-099")).to_be_visible()
    with page.expect_response(lambda response: response.url == address) as refreshed:
        pass
    assert refreshed.value.request.sizes()["responseBodySize"] <= 100_000
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print(f"first paint after {painted:.0f} ms, refresh {refreshed.value.request.sizes()['responseBodySize']:,} bytes")
    if folder := os.environ.get("CDC_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/overview.png")
        page.goto(f"{address}pipelines/shop")
        page.screenshot(path=f"{folder}/pipeline.png", full_page=True)
        page.emulate_media(color_scheme="dark")
        page.screenshot(path=f"{folder}/pipeline-dark.png")
        page.set_viewport_size({"width": 400, "height": 800})
        page.screenshot(path=f"{folder}/pipeline-narrow.png")

"""Measurement l: the first paint of the page of all pipelines, with few and with many of them, in a real browser."""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from readers import Bench
from spend import OtherLoad

sys.path.append(str(Path(__file__).resolve().parents[1] / "web"))

from fake_control import fake, status, told, view

from cdc.web.server import WebServer
from cdc.web.settings import WebSettings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PIPELINES = (10, 200)
TABLES = 100
TIMES = 9
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def first_paint(bench: Bench) -> dict[str, Any]:
    """Median ms from asking for the page to its first paint, nothing cached, and KB of it; all in turn."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {"skipped": "playwright is not installed"}
    if CHROMIUM is None:
        return {"skipped": "no chromium here"}
    servers = {
        count: WebServer(_pipelines(bench.folder / f"page-{count}", count), WebSettings(port=0)) for count in PIPELINES
    }
    addresses = {count: server.start() for count, server in servers.items()}
    painted: dict[int, list[float]] = {count: [] for count in PIPELINES}
    sizes: dict[int, int] = {}
    load = OtherLoad([bench.server_pid])
    try:
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            for number in range(TIMES + 1):
                bench.say(f"page: round {number} of {TIMES}")
                for count, address in addresses.items():
                    page = browser.new_context().new_page()
                    answer = page.goto(address)
                    while not (shown_ms := page.evaluate(_PAINTED)):
                        page.wait_for_timeout(10)  # the policy of the page lets no function be waited for
                    sizes[count] = 0 if answer is None else len(answer.body())
                    painted[count] += [shown_ms] if number else []  # the first round warms up
                    page.context.close()
            browser.close()
    finally:
        for server in servers.values():
            server.stop()
    few, many = (statistics.median(painted[count]) for count in PIPELINES)
    return {
        "few": PIPELINES[0], "many": PIPELINES[1], "few_ms": round(few), "many_ms": round(many),
        "ratio": round(many / few, 2), "few_kb": round(sizes[PIPELINES[0]] / 1000),
        "many_kb": round(sizes[PIPELINES[1]] / 1000), "other_cores": load.cores(0.0),
        "all_ms": {str(count): [round(each) for each in taken] for count, taken in painted.items()},
    }  # fmt: skip


def _pipelines(folder: Path, count: int) -> Any:
    folder.mkdir(parents=True)
    names = [f"pipeline-{number:03}" for number in range(count)]
    control = fake(*(view(name, folder) for name in names))
    for name in names:
        told(control, name, status(name, TABLES))
    return control

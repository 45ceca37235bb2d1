"""What somebody is told of a pipeline, and when; and that it arrives, at a real HTTP server and a real command."""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cdc_process import wait_for
from http_server import QuietHandler

from cdc.process.pids import start_time
from cdc.spec.notify import EVENTS, NotifyOptions
from cdc.status.model import Error, SchemaEvent
from cdc.status.notifications import Notification, Observation, PipelineNotifications
from cdc.status.notify import NotificationTarget, Notifier, body_for, run_command

ERROR = Error(90.0, "SinkUnavailable", "no connection", "fe:9030", "start it, or wait", True)
GOOD = Observation("shop", lag_s=1.0, run_s=50.0)
BAD = replace(GOOD, attention="failed 3 times in a row", error=ERROR)
NOTE = Notification("failing", "shop", "shop: needs attention: failed", 1_000.0, ERROR)


def watched(*events: str, lag_s: float = 60.0, repeat_s: float = 600.0) -> PipelineNotifications:
    return PipelineNotifications(frozenset(events or EVENTS), lag_s, repeat_s)


def told(watched: PipelineNotifications, *looks: tuple[float, Observation]) -> list[tuple[float, str]]:
    return [(at_s, each.event) for at_s, look in looks for each in watched.observe(look, at_s)]


def test_a_failure_is_told_once_again_after_the_interval_and_its_end_once() -> None:
    looks = [(0.0, GOOD), (5.0, BAD), (10.0, BAD), (604.0, BAD), (605.0, BAD), (700.0, GOOD), (705.0, GOOD)]
    assert told(watched(), *looks) == [(5.0, "failing"), (605.0, "failing"), (700.0, "recovered")]
    assert told(watched(repeat_s=0), *looks) == [(5.0, "failing"), (700.0, "recovered")]
    set_back = [(9e9, BAD), (5.0, BAD), (10.0, BAD)]
    assert told(watched(), *set_back) == [(9e9, "failing"), (5.0, "failing")]


def test_a_failure_says_what_where_and_the_next_step() -> None:
    (found,) = watched().observe(BAD, 5.0)
    assert found.text == (
        "shop: needs attention: failed 3 times in a row. SinkUnavailable: fe:9030: no connection "
        "(next step: start it, or wait)"
    )
    assert found.error == ERROR


def test_one_that_was_stopped_by_hand_has_not_recovered_and_its_next_failure_is_told() -> None:
    looks = [(0.0, BAD), (5.0, replace(GOOD, stopped=True)), (10.0, GOOD), (15.0, BAD)]
    assert told(watched(), *looks) == [(0.0, "failing"), (15.0, "failing")]


def test_a_lag_is_told_when_two_looks_see_it_and_its_end() -> None:
    late = replace(GOOD, lag_s=61.0)
    looks = [(0.0, late), (5.0, GOOD), (10.0, late), (15.0, late), (20.0, late), (25.0, GOOD), (30.0, GOOD)]
    assert told(watched(), *looks) == [(15.0, "lag"), (25.0, "recovered")]
    unknown = replace(GOOD, lag_s=None)
    assert told(watched(), (0.0, late), (5.0, late), (10.0, unknown), (15.0, late)) == [(5.0, "lag")]


def test_dead_letters_are_told_at_once_then_summed_up_over_restarts() -> None:
    watch = watched()
    looks = [(0.0, replace(GOOD, dead_letters=7)), (5.0, replace(GOOD, dead_letters=9))]
    assert [each.text for at_s, look in looks for each in watch.observe(look, at_s)] == [
        "shop: 2 rows written to dead letters"
    ]
    assert watch.observe(replace(GOOD, dead_letters=10), 10.0) == []
    assert watch.observe(replace(GOOD, dead_letters=3, run_s=70.0), 15.0) == []
    (found,) = watch.observe(replace(GOOD, dead_letters=3, run_s=70.0), 606.0)
    assert found.text == "shop: 4 rows written to dead letters"


def test_schema_changes_that_are_not_applied_are_told_those_from_before_are_not() -> None:
    old = SchemaEvent(1.0, 1, "shop.a", "drop.column x", "held-back")
    applied, new = replace(old, at_s=2.0, outcome="applied"), replace(old, at_s=2.0, table="shop.b")
    watch = watched()
    assert watch.observe(replace(GOOD, changes=(old,)), 0.0) == []
    (found,) = watch.observe(replace(GOOD, changes=(old, applied, new)), 5.0)
    assert found.text == "shop: a schema change was not applied: shop.b: drop.column x (held-back)"
    assert watch.observe(replace(GOOD, changes=(applied, new)), 10.0) == []


def test_only_events_that_are_wanted_are_told() -> None:
    late = replace(BAD, lag_s=100.0)
    assert told(watched("lag"), (0.0, late), (5.0, late), (10.0, GOOD)) == [(5.0, "lag")]


class Hook:
    """A webhook's server: answers with `codes`, one after the other, then 200."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.got: queue.Queue[Any] = queue.Queue()
        outer = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.got.put((self.path, self.headers["content-type"], body))
                self.send_response(outer.codes.pop(0) if outer.codes else 200)
                self.send_header("location", "http://127.0.0.1:1/")
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/secret-part"


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


def sent(hook: Hook, *, close: bool = True, pauses_s: tuple[float, ...] = (0.0, 0.0)) -> list[str]:
    """What was warned of while a failure was sent."""
    warned: list[str] = []
    notifier = Notifier(warned.append, pauses_s)
    notifier.observe(BAD, NotificationTarget(hook.url, events=frozenset(EVENTS)), 5.0)
    notifier.observe(GOOD, NotificationTarget(hook.url, events=frozenset(EVENTS)), 10.0)
    wait_for("both", lambda: hook.got.qsize() >= 2)
    notifier.close()
    return warned


def test_a_webhook_gets_text_and_what_programs_need(hook: Hook) -> None:
    assert sent(hook) == []
    path, kind, body = hook.got.get()
    assert (path, kind) == ("/services/secret-part", "application/json")
    assert body["text"].startswith("shop: needs attention: failed 3 times in a row. SinkUnavailable")
    assert (body["event"], body["pipeline"], body["time"]) == ("failing", "shop", "1970-01-01T00:00:05+00:00")
    assert body["error"]["hint"] == "start it, or wait"
    assert hook.got.get()[2]["event"] == "recovered"


def test_a_webhook_that_cannot_now_is_tried_again_and_keeps_the_order(hook: Hook) -> None:
    hook.codes = [503, 429]
    warned: list[str] = []
    notifier = Notifier(warned.append, (0.0, 0.0))
    notifier.observe(BAD, NotificationTarget(hook.url, events=frozenset(EVENTS)), 5.0)
    notifier.observe(GOOD, NotificationTarget(hook.url, events=frozenset(EVENTS)), 10.0)
    events = [hook.got.get(timeout=60)[2]["event"] for _ in range(4)]
    notifier.close()
    assert (events, warned) == (["failing"] * 3 + ["recovered"], [])


@pytest.mark.parametrize("code", [404, 307])
def test_a_webhook_that_refuses_is_warned_of_without_its_address(hook: Hook, code: int) -> None:
    hook.codes = [code]
    (warned,) = sent(hook)
    assert f"127.0.0.1 answers {code}" in warned
    assert "secret-part" not in warned


def test_a_webhook_that_is_away_is_given_up_and_its_address_is_secret() -> None:
    warned: list[str] = []
    notifier = Notifier(warned.append, ())
    notifier.observe(BAD, NotificationTarget("http://127.0.0.1:1/secret-part", events=frozenset(EVENTS)), 5.0)
    notifier.close()
    assert "Connection refused" in warned[0]
    assert "secret-part" not in str(warned)
    assert "secret-part" not in repr(NotificationTarget("http://127.0.0.1:1/secret-part"))


def test_a_command_gets_it_as_its_input_and_its_end_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(
        "import json, os, sys\ntold = json.load(sys.stdin)\n"
        "open(sys.argv[1], 'w').write(told['text'] + os.environ['CDC_NOTIFY_EVENT'])\n"
    )
    assert run_command(f"{sys.executable} {tmp_path}/told.py {tmp_path}/out", NOTE) == ""
    assert (tmp_path / "out").read_text() == "shop: needs attention: failedfailing"
    assert "ended with 3: no" in run_command(
        f"{sys.executable} -c \"import sys; print('no', file=sys.stderr); sys.exit(3)\"", NOTE
    )
    assert "FileNotFoundError" in run_command("/no/such/program", NOTE)


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    child = tmp_path / "child"

    def ended() -> bool:
        wrong = run_command(f"sh -c 'sleep 1000 & echo $! > {child}; wait'", NOTE, 1.0)
        assert "took longer than 1 s" in wrong
        return child.exists() and child.read_text().endswith("\n")  # a slow machine has not come so far

    wait_for("a command that has started another", ended)
    wait_for("the end of both", lambda: not start_time(int(child.read_text())))


def test_a_receiver_that_hangs_delays_no_other(hook: Hook) -> None:
    notifier = Notifier(list[str]().append)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hangs = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        for url in (hangs, hangs + "another", hook.url):
            notifier.observe(BAD, NotificationTarget(url, events=frozenset(EVENTS)), 5.0)
        assert hook.got.get(timeout=60)[2]["event"] == "failing"
    notifier.close(0.0)


def test_slack_and_teams_get_their_own_bodies() -> None:
    assert body_for("https://hooks.slack.com/services/x", NOTE) == {"text": NOTE.text}
    body = body_for("https://prod-1.westeurope.logic.azure.com/workflows/x", NOTE)
    assert body["attachments"][0]["content"]["body"][0]["text"] == NOTE.text
    hostile = replace(NOTE, text="a\x1b[31m\u202eb")
    assert "\x1b" not in body_for("https://example.com/x", hostile)["text"]


@pytest.mark.parametrize(
    ("given", "key", "told"),
    [
        ({"notify.webhook": "example.com"}, "notify.webhook", "is not a URL"),
        ({"notify.on": "lag"}, "notify.on", "has no effect"),
    ],
)
def test_options_that_lead_nowhere_are_told(given: dict[str, str], key: str, told: str) -> None:
    (problem,) = NotifyOptions.model_validate(given).problems()
    assert (problem.key, told in problem.message) == (key, True)

"""Sends notifications to a webhook or by running a command, in separate threads so that nothing waits for it.

| webhook | body |
|---|---|
| `hooks.slack.com` | `{"text": ...}`, https://api.slack.com/messaging/webhooks |
| Teams (`*.webhook.office.com`, `*.logic.azure.com`, `*.powerplatform.com`) | a message with an Adaptive Card, \
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook |
| any other | `{"text": ..., "event", "pipeline", "time", "error"}`; Mattermost and Rocket.Chat show `text` |
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from cdc.printable import printable
from cdc.spec.notify import NotifyOptions, events_of
from cdc.status.notifications import Notification, Observation, PipelineNotifications

LONGEST = 3_000
"""Maximum characters of a text: Slack and Teams cut or refuse longer ones."""
TIMEOUT_S = 10.0
COMMAND_S = 30.0
PAUSES_S = (1.0, 5.0, 30.0)
"""Pauses before retries of a webhook that does not respond or returns a transient error (408, 429, 5xx)."""
_WAITING = 100
_TEAMS = (".webhook.office.com", ".logic.azure.com", ".powerplatform.com")
_LATER = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class NotificationTarget:
    """The receiver of notifications of one or all pipelines, and its events."""

    webhook: str = field(default="", repr=False)
    command: str = ""
    events: frozenset[str] = frozenset()
    lag_s: float = 300.0
    repeat_s: float = 3600.0

    @classmethod
    def of(cls, options: NotifyOptions) -> NotificationTarget | None:
        """Return the receivers named in a file, None without any."""
        if options.notify_webhook is None and options.notify_command is None:
            return None
        webhook = options.notify_webhook.get_secret_value() if options.notify_webhook is not None else ""
        events = frozenset(events_of(options.notify_on))
        return cls(webhook, options.notify_command or "", events, options.notify_lag_s, options.notify_repeat_s)


class Notifier:
    """Observes pipelines and sends their notifications. `look` is called by one thread.

    Args:
        warn: called with a line, without secrets, for each notification that could not be sent.
        pauses_s: pauses before retries of a webhook.
    """

    def __init__(self, warn: Callable[[str], None], pauses_s: tuple[float, ...] = PAUSES_S) -> None:
        self._warn, self._pauses_s = warn, pauses_s
        self._watched: dict[tuple[str, NotificationTarget], PipelineNotifications] = {}
        self._ending = threading.Event()
        self._senders: dict[tuple[str, str], _ReceiverThread] = {}

    def observe(self, now: Observation, target: NotificationTarget, at_s: float) -> None:
        """Process an observation of a pipeline for one target. Never blocks."""
        key = (now.name, target)
        if key not in self._watched:
            self._watched[key] = PipelineNotifications(target.events, target.lag_s, target.repeat_s)
        for each in self._watched[key].observe(now, at_s):
            for sender in self._senders_of(target):
                sender.put(each)

    def forget(self, names: set[str]) -> None:
        """Drop the state of all pipelines except these."""
        self._watched = {key: watched for key, watched in self._watched.items() if key[0] in names}

    def close(self, wait_s: float = 15.0) -> None:
        """Send pending notifications, for at most `wait_s`."""
        self._ending.set()
        until_s = time.monotonic() + wait_s
        for sender in self._senders.values():
            sender.end()
        for sender in self._senders.values():
            sender.join(max(0.0, until_s - time.monotonic()))

    def _senders_of(self, target: NotificationTarget) -> Iterator[_ReceiverThread]:
        for key, send in (
            (("webhook", target.webhook), partial(self._post, target.webhook)),
            (("command", target.command), partial(run_command, target.command)),
        ):
            if key[1]:
                if key not in self._senders:
                    self._senders[key] = _ReceiverThread(send, self._warn)
                yield self._senders[key]

    def _post(self, webhook: str, notification: Notification) -> str:
        """Send with a few retries; return the error, empty for none."""
        body = json.dumps(body_for(webhook, notification)).encode()
        for pause_s in (*self._pauses_s, None):
            problem, later = _try_post(webhook, body)
            if not problem or not later or pause_s is None or self._ending.wait(pause_s):
                break
        return problem


class _ReceiverThread:
    """A thread that sends to one receiver, in order, so that an unavailable receiver does not affect others."""

    def __init__(self, send: Callable[[Notification], str], warn: Callable[[str], None]) -> None:
        self._send, self._warn = send, warn
        self._waiting: queue.SimpleQueue[Notification | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
        self._thread.start()

    def put(self, notification: Notification) -> None:
        """Queue a notification. Never blocks."""
        if self._waiting.qsize() >= _WAITING:
            self._warn(f"a notification is lost, as {_WAITING} others wait to be sent: {notification.text}")
        else:
            self._waiting.put(notification)

    def end(self) -> None:
        """End the thread once pending notifications are sent."""
        self._waiting.put(None)

    def join(self, wait_s: float) -> None:
        """Wait for the end of the thread, at most `wait_s`."""
        self._thread.join(wait_s)

    def _work(self) -> None:
        while (notification := self._waiting.get()) is not None:
            if problem := self._send(notification):
                self._warn(f"a notification could not be sent: {problem}: {notification.text}")


def body_for(webhook: str, notification: Notification) -> dict[str, Any]:
    """Return the request body for a webhook, by its host."""
    host, text = urlsplit(webhook).hostname or "", printable(notification.text, longest=LONGEST)
    if host == "hooks.slack.com":
        return {"text": text}
    if not host.endswith(_TEAMS):
        return {**notification.to_json(), "text": text}
    block = {"type": "TextBlock", "text": text, "wrap": True}
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
    return {
        "type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}],
    }


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they lead to another address than the configured one."""

    def redirect_request(self, *args: Any) -> None:
        """Return None, which makes a redirect an error."""
        return


def _try_post(webhook: str, body: bytes) -> tuple[str, bool]:
    """Return the error, empty for none, and whether a retry may help. Names only the host: the rest of the address is
    secret."""
    request = urllib.request.Request(webhook, body, {"content-type": "application/json", "user-agent": "cdc"})
    host = urlsplit(webhook).hostname
    try:
        with urllib.request.build_opener(_NoRedirect()).open(request, timeout=TIMEOUT_S):
            return "", False
    except urllib.error.HTTPError as error:
        error.close()
        return f"{host} answers {error.code}", error.code >= 500 or error.code in _LATER
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return f"{host}: {type(error).__name__}: {str(reason)[:200]}".replace(webhook, "..."), isinstance(
            error, OSError
        )


def run_command(command: str, notification: Notification, longest_s: float = COMMAND_S) -> str:
    """Run a command with the notification as its standard input; return the error, empty for none.

    A command that takes too long is killed with all its child processes.
    """
    fields = notification.to_json()
    about = {f"CDC_NOTIFY_{name.upper()}": str(fields[name]) for name in ("event", "pipeline", "text", "time")}
    arguments = shlex.split(command)
    try:
        with subprocess.Popen(
            arguments, env={**os.environ, **about}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                _, errors = process.communicate(json.dumps(fields).encode(), longest_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"{arguments[0]} took longer than {longest_s:g} s"
    except OSError as error:
        return f"{arguments[0]}: {type(error).__name__}: {error.strerror}"
    last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f"{arguments[0]} ended with {process.returncode}: {' '.join(last)[:200]}" if process.returncode else ""

"""Sends notifications: to a webhook, or by running a command. A thread of its own, so that nothing waits for it.

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
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from cdc.printed import printed
from cdc.spec.notify import NotifyOptions, events_of
from cdc.status.notifications import Look, Notification, Watched

LONGEST = 3_000
"""Characters of a text: Slack and Teams cut or refuse longer ones."""
TIMEOUT_S = 10.0
COMMAND_S = 30.0
PAUSES_S = (1.0, 5.0, 30.0)
"""Between tries of a webhook that does not answer, or says that it cannot now (408, 429, 5xx)."""
_WAITING = 100
_TEAMS = (".webhook.office.com", ".logic.azure.com", ".powerplatform.com")
_LATER = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class NotificationTarget:
    """Where notifications of a pipeline, or of all, go, and which."""

    webhook: str = field(default="", repr=False)
    command: str = ""
    events: frozenset[str] = frozenset()
    lag_s: float = 300.0
    repeat_s: float = 3600.0

    @classmethod
    def of(cls, options: NotifyOptions) -> NotificationTarget | None:
        """The receivers that a file names; None when it names none."""
        if options.notify_webhook is None and options.notify_command is None:
            return None
        webhook = options.notify_webhook.get_secret_value() if options.notify_webhook is not None else ""
        events = frozenset(events_of(options.notify_on))
        return cls(webhook, options.notify_command or "", events, options.notify_lag_s, options.notify_repeat_s)


class Notifier:
    """Looks at pipelines, and sends what is to be told of them. `look` is called by one thread.

    Args:
        warn: gets a line for each notification that could not be sent; holds no secret.
        pauses_s: between tries of a webhook.
    """

    def __init__(self, warn: Callable[[str], None], pauses_s: tuple[float, ...] = PAUSES_S) -> None:
        self._warn, self._pauses_s = warn, pauses_s
        self._watched: dict[tuple[str, NotificationTarget], Watched] = {}
        self._queue: queue.Queue[tuple[NotificationTarget, Notification] | None] = queue.Queue(_WAITING)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
        self._thread.start()

    def look(self, now: Look, target: NotificationTarget, at_s: float) -> None:
        """One look at a pipeline for one target. Never waits."""
        key = (now.name, target)
        if key not in self._watched:
            self._watched[key] = Watched(target.events, target.lag_s, target.repeat_s)
        for each in self._watched[key].look(now, at_s):
            try:
                self._queue.put_nowait((target, each))
            except queue.Full:
                self._warn(f"a notification is lost, as {_WAITING} others wait to be sent: {each.text}")

    def forget(self, names: set[str]) -> None:
        """Keep what is known of these pipelines alone."""
        self._watched = {key: watched for key, watched in self._watched.items() if key[0] in names}

    def close(self, wait_s: float = 15.0) -> None:
        """Send what waits, for so long at most."""
        self._ending.set()
        self._queue.put(None)
        self._thread.join(wait_s)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            target, notification = work
            for send, given in ((self._post, target.webhook), (run_command, target.command)):
                wrong = send(given, notification) if given else ""
                if wrong:
                    self._warn(f"a notification is not sent: {wrong}: {notification.text}")

    def _post(self, webhook: str, notification: Notification) -> str:
        """Send with a few tries; why it was not taken, empty when it was."""
        body = json.dumps(body_for(webhook, notification)).encode()
        for pause_s in (*self._pauses_s, None):
            wrong, later = _posted(webhook, body)
            if not wrong or not later or pause_s is None or self._ending.wait(pause_s):
                break
        return wrong


def body_for(webhook: str, notification: Notification) -> dict[str, Any]:
    """The body for a webhook, by its host."""
    host, text = urlsplit(webhook).hostname or "", printed(notification.text, longest=LONGEST)
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
    """Another address is not the one that was named."""

    def redirect_request(self, *args: Any) -> None:
        """None: the answer is an error."""
        return


def _posted(webhook: str, body: bytes) -> tuple[str, bool]:
    """Why the webhook did not take it, empty when it did, and whether another try may help. Names the host alone: the
    rest of the address is a secret."""
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


def run_command(command: str, notification: Notification, environment: Mapping[str, str] | None = None) -> str:
    """Run a command with the notification as its standard input; why it failed, empty when it did not."""
    fields = notification.to_json()
    about = {f"CDC_NOTIFY_{name.upper()}": str(fields[name]) for name in ("event", "pipeline", "text", "time")}
    words = shlex.split(command)
    try:
        done = subprocess.run(
            words, input=json.dumps(fields).encode(), env={**(environment or os.environ), **about}, timeout=COMMAND_S,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"{words[0]}: {type(error).__name__}: {getattr(error, 'strerror', None) or 'took too long'}"
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f"{words[0]} ended with {done.returncode}: {' '.join(last)[:200]}" if done.returncode else ""

"""Options of `pipeline` for notifications: their events and where they are sent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from cdc.options import AtLeast, Block, Duration, Field, Line, OptionError, Remark, SecretStr

EVENTS = ("failing", "recovered", "schema-change", "dead-letters", "lag")
"""Events of notifications, see `cdc.status.notifications`."""


def _check_events(text: str) -> str:
    unknown = [each for each in events_of(text) if each not in EVENTS]
    if unknown or not events_of(text):
        raise OptionError(f"{', '.join(unknown) or 'nothing'} is not an event; known: {', '.join(EVENTS)}")
    return text


def events_of(text: str) -> tuple[str, ...]:
    """Split a list of events such as `failing, lag`."""
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def _check_command(text: str) -> str:
    try:
        arguments = shlex.split(text)
    except ValueError as error:
        raise OptionError(f"cannot be split into words: {error}") from error
    if not arguments:
        raise OptionError("is empty")
    return text


class NotifyOptions(Block):
    """Options for notifications."""

    notify_webhook: SecretStr | None = Field(
        None,
        alias="notify.webhook",
        description="Webhook that gets a POST with JSON for each notification: Slack, Teams, Mattermost, or any other.",
    )
    notify_command: Annotated[Line, AfterValidator(_check_command)] | None = Field(
        None,
        alias="notify.command",
        description="Program with arguments to run for each notification, without a shell; its standard input is the "
        "notification as JSON.",
    )
    notify_on: Annotated[str, AfterValidator(_check_events)] = Field(
        ", ".join(EVENTS), alias="notify.on", description="Events to notify of, separated by commas."
    )
    notify_lag_s: Annotated[Duration, AtLeast("1 s")] = Field(
        300.0, alias="notify.lag", description="The lag limit for the event `lag`."
    )
    notify_repeat_s: Annotated[Duration, AtLeast("0 s")] = Field(
        3600.0,
        alias="notify.repeat",
        description="How often a notification is repeated while its cause lasts; 0: never. Dead letters are summed "
        "up over this time.",
    )

    def problems(self) -> Iterator[Remark]:
        """Yield problems of an invalid URL, and of settings without a destination."""
        yield from super().problems()
        if self.notify_webhook is not None:
            parts = urlsplit(self.notify_webhook.get_secret_value())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                yield Remark("notify.webhook", "is not a URL", "write one such as https://hooks.example.com/services/x")
        if self.notify_webhook is None and self.notify_command is None:
            for name in ("notify_on", "notify_lag_s", "notify_repeat_s"):
                if name in self.model_fields_set:
                    message = "has no effect without notify.webhook or notify.command"
                    yield Remark(str(type(self).model_fields[name].alias), message, "add one of them, or remove it")

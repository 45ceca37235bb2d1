"""The command that runs the pipelines of a folder: serve."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli.root import EXIT_CODES, app

if TYPE_CHECKING:
    from cdc.status.notify import NotificationTarget


@app.command(epilog=EXIT_CODES)
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the pipeline files.")],
    state_root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder with a state directory for each pipeline.")
    ] = None,
    state_store: Annotated[
        str, typer.Option(metavar="URL", help="Store states below s3://, gs:// or abfss://bucket/prefix instead.")
    ] = "",
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master for all pipelines. Default: local[*].")
    ] = None,
    starts_at_once: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of pipelines that start at a time.")
    ] = 4,
    port: Annotated[int, typer.Option(metavar="PORT", help="Port of the web page and the REST API.")] = 8380,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on; another one needs a token in CDC_WEB_TOKEN.")
    ] = "127.0.0.1",
    host_name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A further name of this server, behind a proxy.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token, instead of CDC_WEB_TOKEN.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no actions on the web page.")] = False,
    no_web: Annotated[bool, typer.Option("--no-web", help="Do not serve the web page.")] = False,
    notify_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Run this for each notification of any pipeline.")
    ] = None,
    notify_on: Annotated[
        str | None, typer.Option(metavar="EVENTS", help="Events to notify about, separated by commas. Default: all.")
    ] = None,
    notify_lag: Annotated[str | None, typer.Option(metavar="TIME", help="The lag above which to notify.")] = None,
    notify_repeat: Annotated[
        str | None, typer.Option(metavar="TIME", help="How often to repeat lasting events; 0 s for once.")
    ] = None,
) -> None:
    """Keep the pipelines of a folder running, or run them on their schedule, until Ctrl-C or SIGTERM.

    CDC_NOTIFY_WEBHOOK in the environment is a URL that gets the notifications of all pipelines.
    """
    from cdc.job.state_location import root_of_states, store_url
    from cdc.process.signals import Signals
    from cdc.serve.log_file import quiet_libraries
    from cdc.serve.server import Server, ServerSettings
    from cdc.web.settings import WebSettings

    if not folder.is_dir():
        raise typer.BadParameter("is not a folder", param_hint="DIR")
    root = folder / ".cdc" if state_root is None else root_of_states(state_root)
    store = store_url(state_store) if state_store else ""
    web = None if no_web else WebSettings(host, port, _token(token_file), read_only, tuple(host_name or ()))
    given = {"command": notify_command, "on": notify_on, "lag": notify_lag, "repeat": notify_repeat}
    notify = _notify({f"notify.{name}": text for name, text in given.items() if text is not None})
    server = Server(ServerSettings(folder.absolute(), root.absolute(), master, web, store, starts_at_once, notify))
    quiet_libraries()
    Signals(on_stop=server.close).install()
    server.run()


def _notify(given: dict[str, str]) -> NotificationTarget | None:
    """Return the target for notifications of all pipelines, None for none."""
    from pydantic import ValidationError

    from cdc.spec.notify import NotifyOptions
    from cdc.status.notify import NotificationTarget

    webhook = os.environ.pop("CDC_NOTIFY_WEBHOOK", "")
    try:
        options = NotifyOptions.model_validate({**given, **({"notify.webhook": webhook} if webhook else {})})
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = "--" + str(first["loc"][0]).replace(".", "-")
        raise typer.BadParameter(str(first["msg"]), param_hint=name) from None
    for problem in options.problems():
        hint = "CDC_NOTIFY_WEBHOOK" if problem.key == "notify.webhook" else "--" + problem.key.replace(".", "-")
        raise typer.BadParameter(problem.message, param_hint=hint)
    return NotificationTarget.of(options)


def _token(file: Path | None) -> str:
    """Return the token for the web page, empty for none. Only its owner may have access to the file."""
    given = os.environ.pop("CDC_WEB_TOKEN", "")  # child processes do not need it
    if file is None:
        return given
    try:
        if file.stat().st_mode & 0o077:
            raise typer.BadParameter(f"others may read it: chmod 600 {file}", param_hint="--token-file")
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(str(error), param_hint="--token-file") from error

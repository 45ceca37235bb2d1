"""The control port: `POST /name` with JSON arguments is a command, answered `{"result": ...}` or `{"error": ...}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cdc_standins.clock import Clock
from cdc_standins.context import Command
from cdc_standins.faults import Faults
from cdc_standins.http_server import HttpServer, Request, Response, json_response


def control_server(commands: Mapping[str, Command], port: int) -> HttpServer:
    """The server of the control port, not started."""

    def handle(request: Request) -> Response:
        name = request.path.strip("/")
        command = commands.get(name)
        if command is None:
            return json_response({"error": f"no command {name!r}: there are {', '.join(sorted(commands))}"}, 404)
        try:
            return json_response({"result": command(json.loads(request.body.read() or b"{}"))})
        except (ValueError, KeyError, TypeError) as error:
            return json_response({"error": f"{type(error).__name__}: {error}"}, 400)

    return HttpServer("control", handle, port)


def common_commands(faults: Faults, clock: Clock, be_http: HttpServer) -> dict[str, Command]:
    """The commands that every stand-in has: faults, time, and the back end's port."""

    def arm(arguments: dict[str, Any]) -> None:
        faults.arm(arguments.pop("point"), int(arguments.pop("times", 1)), **arguments)

    def be_up(_: dict[str, Any]) -> None:
        be_http.start()

    def be_down(_: dict[str, Any]) -> None:
        be_http.stop()

    faults.on_be_down = be_http.stop
    return {
        "fault": arm,
        "faults": lambda _: {"armed": faults.armed(), "met": faults.met},
        "clear": lambda _: faults.clear(),
        "release": lambda arguments: faults.release(arguments["point"]),
        "advance": lambda arguments: clock.advance(float(arguments["seconds"])),
        "be_up": be_up,
        "be_down": be_down,
    }

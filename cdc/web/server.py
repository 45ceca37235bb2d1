"""Serves the page and the API over HTTP, in a thread of the server's process."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import uvicorn

from cdc.errors import EngineError
from cdc.serve.control import Control
from cdc.web.app import create_app
from cdc.web.settings import WebSettings

_BACKLOG = 64
_STOP_S = 5.0


class WebServer:
    """The web server of `cdc serve`. `start` and `stop` are called once each, from any thread."""

    def __init__(self, control: Control, settings: WebSettings) -> None:
        settings.check()
        self._control, self._settings = control, settings
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Listen and return the address for people. Raises EngineError when that fails."""
        wanted = self._settings
        listening = self._listen(wanted)
        settings = replace(wanted, port=listening.getsockname()[1])
        config = uvicorn.Config(
            create_app(self._control, settings), log_config=None, access_log=False, server_header=False, lifespan="off",
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        server = self._server = uvicorn.Server(config)
        run = {"sockets": [listening]}
        self._thread = threading.Thread(target=server.run, kwargs=run, name="web", daemon=True)
        self._thread.start()
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        return f"http://{shown}:{settings.port}/"

    def _listen(self, settings: WebSettings) -> socket.socket:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.socket(family)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((settings.host, settings.port))
            listening.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            listening.close()
            reason = f"the web page cannot be served at {settings.host}:{settings.port}: {error}"
            raise EngineError(reason, hint="choose another port or address") from error
        return listening

    def stop(self) -> None:
        """Complete pending requests, and stop listening."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_STOP_S)

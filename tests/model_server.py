"""A server of AI models on this machine, in a thread: it answers by rule, counts, and fails when it is told to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from http_server import QuietHandler


@dataclass
class ModelServer:
    """What it was asked, and what it is to answer.

    Attributes:
        requests: path, `Authorization` and body of each request.
        failures: statuses of the next answers, 0 for bytes that are no JSON; then it answers well.
        dripping: an answer never ends, a byte of it comes now and then.
        refused: texts that it answers 400 to.
        answering: it answers nothing while this is not set.
        content: what it answers each chat with, when it is set.
        most: the most requests at a time.
    """

    port: int = 0
    requests: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    answering: threading.Event = field(default_factory=threading.Event)
    content: str = ""
    dripping: bool = False
    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def texts(self) -> list[str]:
        """What was asked for, in order of their text."""
        return sorted(text for _, _, body in self.requests for text in asked(body))


def asked(body: dict[str, Any]) -> list[str]:
    """The texts of a request."""
    return list(body["input"]) if "input" in body else [str(body["messages"][-1]["content"])]


@contextmanager
def model_server(identity: Path | None = None) -> Iterator[ModelServer]:
    """A server that runs as long as the block, behind TLS with the key and certificate of a PEM file."""
    state = ModelServer()
    state.answering.set()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with state.lock:
                state.requests.append((self.path, self.headers["Authorization"], body))
                state.now += 1
                state.most = max(state.most, state.now)
                status = state.failures.pop(0) if state.failures else 200
                number = len(state.requests)
            state.answering.wait(20)
            if state.dripping:
                self._drip()
                return
            if status == 0:
                self._send(200, b"\x80\x81 no JSON")
                return
            if state.refused & set(asked(body)):
                status = 400
            self._answer(
                status,
                answer(self.path, body, number, state.content)
                if status == 200
                else {"error": self.headers["Authorization"]},
            )
            with state.lock:
                state.now -= 1

        def _drip(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while state.dripping:
                    self.wfile.write(b" ")
                    threading.Event().wait(0.02)
            except OSError:  # who asked has gone
                self.close_connection = True

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            self._send(status, json.dumps(content).encode())

        def _send(self, status: int, data: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # who asked has gone
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        state.answering.set()
        state.dripping = False
        server.shutdown()
        server.server_close()
        thread.join()


def answer(path: str, body: dict[str, Any], number: int, content: str = "") -> dict[str, Any]:
    """The text in capitals with the number of the request, or its length as a vector."""
    if path.endswith("/embeddings"):
        data = [{"index": n, "embedding": [len(text), 0.5]} for n, text in enumerate(body["input"])]
        return {"data": data[::-1]}
    return {"choices": [{"message": {"role": "assistant", "content": content or f"{asked(body)[0].upper()} {number}"}}]}

"""A Schema Registry on loopback that answers as Confluent's documentation says, and to nothing else."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from http_server import QuietHandler

Answer = tuple[int, Any]


class SchemaRegistry:
    """Holds schemas by number and subject. `fail` answers for the next requests, one each; `asked` are their lines."""

    def __init__(self, login: str = "") -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.refuses: set[str] = set()
        self.fail: list[Answer] = []
        self.asked: list[str] = []
        self._login = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, schema: Any, number: int | None = None, **more: Any) -> int:
        """Hold a schema under a number; the number."""
        number = number or len(self.schemas) + 1
        self.schemas[number] = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        return number

    def _get(self, parts: list[str]) -> Answer:
        match parts:
            case ["subjects"]:
                return 200, sorted(self.subjects)
            case ["schemas", "ids", number] if number.isdigit():
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403, "message": f"Schema {number} not found"})
            case ["subjects", subject, "versions", version] if version.isdigit():
                numbers = self.subjects.get(subject)
                if numbers is None:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                if not 0 < int(version) <= len(numbers):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found."}
                number = numbers[int(version) - 1]
                return 200, {"subject": subject, "version": int(version), "id": number, **self.schemas[number]}
        return 404, {"error": "HTTP 404 Not Found"}

    def _post(self, parts: list[str], given: Any) -> Answer:
        match parts:
            case ["subjects", subject, "versions"]:
                for number in self.subjects.get(subject, []):
                    if self.schemas[number]["schema"] == given["schema"]:
                        return 200, {"id": number}
                if subject in self.refuses:
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                number = self.add(given["schema"])
                self.subjects.setdefault(subject, []).append(number)
                return 200, {"id": number}
        return 404, {"error": "HTTP 404 Not Found"}

    def _answer(self, request: BaseHTTPRequestHandler, given: Any) -> Answer:
        if self._login and request.headers.get("Authorization") != self._login:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.fail:
            return self.fail.pop(0)
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        return self._get(parts) if given is None else self._post(parts, given)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                self.do_GET(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_GET(self, given: Any = None) -> None:
                registry.asked.append(self.path)
                status, answer = registry._answer(self, given)
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

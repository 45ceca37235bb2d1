"""Client of a running `cdc serve` in another process: finds it and calls its REST API. For the commands."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cdc.errors import EngineError, StateError, from_json
from cdc.process.pids import start_time
from cdc.state.store import LocalStore

FILE_NAME = "serve.json"
"""File in the state root, readable by this user only: where the server listens, and its token."""
_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Served:
    """The address of a server; `token` is empty where it requires none."""

    url: str
    pid: int
    token: str = field(default="", repr=False)
    started: str = ""
    """Start time of the process: its id alone may have been reused."""

    def write(self, state_root: Path) -> None:
        """Write the file for the commands. Raises StateError."""
        LocalStore(state_root).write_json(FILE_NAME, asdict(self))

    def get(self, path: str) -> dict[str, Any]:
        """Return the API's response below `/api/v1/`. Raises the CdcError in the response."""
        return self._request("GET", path, None)

    def one(self, name: str) -> dict[str, Any]:
        """Return the API's document of one pipeline. Raises the CdcError in the response."""
        return self.get(_path(name))

    def post(self, name: str, action: str, **fields: str) -> str:
        """Request an action on a pipeline and return the server's message. Raises the CdcError in the response."""
        return str(self._request("POST", f"{_path(name)}/{action}", fields)["message"])

    def _request(self, method: str, path: str, fields: Mapping[str, str] | None) -> dict[str, Any]:
        headers = {"x-cdc-request": "cdc", "content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if fields is None else json.dumps(fields).encode()
        url = f"{self.url.rstrip('/')}/api/v1/{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise _error(error) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise EngineError(
                f"the server does not answer: {error}", where=self.url, hint="look at the log of `cdc serve`"
            ) from error


def _path(name: str) -> str:
    return f"pipelines/{urllib.parse.quote(name, safe='')}"


def find_server(state_root: Path) -> Served | None:
    """Return the running server of this state root, None without one. Raises StateError for an unreadable file."""
    fields = LocalStore(state_root).read_json(FILE_NAME)
    if fields is None:
        return None
    try:
        found = Served(**fields)
    except TypeError as error:
        where = str(state_root / FILE_NAME)
        raise StateError(f"cannot be read: {error}", where=where, hint="remove it, and restart the server") from error
    return found if _is_alive(found) else None


@contextmanager
def announced(url: str, token: str, state_root: Path) -> Iterator[None]:
    """Let the commands find this process's server while the block runs. Raises StateError."""
    Served(url, os.getpid(), token, start_time(os.getpid())).write(state_root)
    try:
        yield
    finally:
        forget(state_root)


def forget(state_root: Path) -> None:
    """Remove the file when the server ends. Raises StateError."""
    LocalStore(state_root).remove(FILE_NAME)


def _is_alive(server: Served) -> bool:
    try:
        os.kill(server.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's process
    return not server.started or start_time(server.pid) == server.started


def _error(error: urllib.error.HTTPError) -> Exception:
    try:
        answer = json.load(error)["error"]
        answer = {"error": answer["type"], **{key: str(answer[key]) for key in ("message", "where", "hint")}}
    except (ValueError, KeyError, TypeError):
        return EngineError(f"the server answers {error.code} {error.reason}", where=error.url)
    return from_json(json.dumps(answer))

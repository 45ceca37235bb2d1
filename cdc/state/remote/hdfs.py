"""State in HDFS: files instead of objects, and renames instead of conditional puts.

A file is written below `<url>/new/` under a unique name, synced, closed, and then renamed: the name node refuses to
rename onto an existing name, and a rename is atomic. Files that a killed process has left there are removed by a run
that starts a day later or more.

The lease, the only object that is replaced, is a folder of versions: the newest version is valid, only one process can
create the next number, and older versions are removed. A process that was suspended meanwhile may create a number that
was removed; it notices that its version is not the newest.

Users, name services and Kerberos are configured by `HADOOP_CONF_DIR`, `HADOOP_USER_NAME` and `KRB5CCNAME`.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from cdc.errors import StateError, StateUnavailable
from cdc.state.remote.bucket import Bucket

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

P = ParamSpec("P")
T = TypeVar("T")

_PUT_OVER = frozenset({"lock"})
_NEW = "new"
_LEFT_S = 86_400.0
_AT_ONCE = 16
_LOOKS = 5
_REQUEST_S = 20.0
"""Timeout per request: the library itself waits forever for a name node that does not answer."""
_PART = 4 << 20
_SETTINGS = {
    "dfs.client.failover.max.attempts": "4", "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
}  # fmt: skip
"""Retries by the library itself; further ones are up to the retry policy."""
_REFUSED = re.compile(r'RPCError\("([\w.$]+)", "(.*)', re.DOTALL)
_NOBODY = re.compile(r"SASL|GSSAPI|Kerberos|InvalidToken", re.IGNORECASE)
_UNKNOWN = re.compile(r"No NameNode hosts found|No host for name service|InvalidArgument|UrlParseError")


class HdfsBucket(Bucket):
    """The files below one URL, `hdfs://HOST:PORT/path` or `hdfs://NAMESERVICE/path`. As `Bucket` in all else."""

    def check(self) -> None:
        """Check that the name node can be reached, and create the folder. Errors are not retried.

        Raises StateError.
        """
        super().check()
        self._retried(self._begin, "", "written")

    def get_tagged(self, name: str) -> tuple[bytes, str] | None:
        """The content of a file and the number of its version; None if it does not exist."""
        return self._retried(lambda: self._tagged(name), name, "read")

    def get_dated(self, name: str) -> tuple[bytes, float] | None:
        """The content of a file and when it was written (epoch seconds, name node's clock); None if missing."""

        def dated() -> tuple[bytes, float] | None:
            try:
                info = _soon(self._client.get_file_info, self._path(name))
                return self._read(name), info.modification_time / 1000
            except FileNotFoundError:
                return None

        return self._retried(dated, name, "read")

    def put(self, name: str, data: bytes | Path) -> None:
        """Write or replace a file."""
        self._retried(lambda: self._put(name, data, overwrite=True), name, "written")

    def download(self, name: str, path: Path) -> None:
        """Download a file into a new local one. Raises StateError, also if it does not exist; OSError."""

        def copy() -> None:
            reader = _soon(self._client.read, self._path(name))
            with open(path, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
                while part := _soon(reader.read, _PART):
                    file.write(part)

        self._retried(copy, name, "read")

    def names(self, folder: str) -> list[str]:
        """The names of all files below a folder, including the folder's name, sorted."""
        return self._retried(lambda: self._names(folder), folder, "listed")

    def _delete(self, names: list[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda name: _soon(self._client.delete, self._path(name)), names))
        folders = {parent for name in names for parent in PurePosixPath(name).parents if len(parent.parts) > 1}
        for folder in sorted(folders, key=lambda each: -len(each.parts)):
            with suppress(RuntimeError, FileNotFoundError):  # it has other files
                _soon(self._client.delete, self._path(str(folder)))

    def _put_if(self, name: str, data: bytes, condition: str) -> str | None:
        put = self._next_version if name in _PUT_OVER else self._only_new
        return self._retried(lambda: put(name, data, condition), name, "written")

    def _only_new(self, name: str, data: bytes, condition: str) -> str | None:
        if condition != "create":
            raise StateError("is put once", where=f"{self.url}/{name}")
        return "" if self._put(name, data, overwrite=False) else None

    def _next_version(self, name: str, data: bytes, condition: str) -> str | None:
        versions = self._versions(name)
        number = 0 if condition == "create" else int(condition) + 1
        if versions[-1:] != ([] if condition == "create" else [number - 1]):
            return None
        if not self._put(_version(name, number), data, overwrite=False):
            return None
        versions = self._versions(name)
        if versions[-1:] != [number]:
            return None
        for older in versions[:-1]:
            _soon(self._client.delete, self._path(_version(name, older)))
        return str(number)

    def _versions(self, name: str) -> list[int]:
        return sorted(int(each.rpartition("/")[2]) for each in self._names(name))

    def _tagged(self, name: str) -> tuple[bytes, str] | None:
        if name not in _PUT_OVER:
            with suppress(FileNotFoundError):
                return self._read(name), ""
            return None
        while versions := self._versions(name):
            with suppress(FileNotFoundError):  # the next one has come meanwhile
                return self._read(_version(name, versions[-1])), str(versions[-1])
        return None

    def _read(self, name: str) -> bytes:
        reader = _soon(self._client.read, self._path(name))
        parts = []
        while part := _soon(reader.read, _PART):
            parts.append(part)
        return b"".join(parts)

    def _names(self, folder: str) -> list[str]:
        """The names in a folder; empty if it does not exist. A file removed meanwhile does not hide others."""
        root = len(self._path(""))
        for _ in range(_LOOKS):
            try:
                return sorted(each.path[root:] for each in _soon(self._listed, folder, True) if not each.isdir)
            except FileNotFoundError:
                try:
                    _soon(self._client.get_file_info, self._path(folder))
                except FileNotFoundError:
                    return []
        raise RuntimeError("folders were removed while they were listed")

    def _put(self, name: str, data: bytes | Path, *, overwrite: bool) -> bool:
        """Rename without replacing; False if the name is taken, also after a rename whose response was lost."""
        path, temporary = self._path(name), self._path(f"{_NEW}/{secrets.token_hex(16)}")
        self._write(temporary, data)
        try:
            try:
                _soon(self._client.rename, temporary, path, overwrite)
            except FileNotFoundError:
                self._make(path.rpartition("/")[0])
                _soon(self._client.rename, temporary, path, overwrite)
        except FileExistsError:
            _soon(self._client.delete, temporary)
            if overwrite:
                raise  # a folder has the name
            return False
        return True

    def _write(self, path: str, data: bytes | Path) -> None:
        from hdfs_native import WriteOptions

        # The size of a block is left to the cluster; whole objects are small, staged rows are not.
        writer = _soon(self._client.create, path, WriteOptions(permission=0o600))
        if isinstance(data, bytes):
            for at in range(0, len(data), _PART):
                _soon(writer.write, data[at : at + _PART])
        else:
            with data.open("rb") as file:
                while part := file.read(_PART):
                    _soon(writer.write, part)
        try:
            _soon(writer.hsync)
        except RuntimeError as error:
            if type(error) is RuntimeError:  # else it says that files with erasure codes can only be closed
                raise
        _soon(writer.close)

    def _listed(self, folder: str, recursive: bool) -> list[FileStatus]:
        return list(self._client.list_status(self._path(folder), recursive))

    def _begin(self) -> None:
        self._make(self._path(_NEW))
        now_s = time.time()
        for each in _soon(self._listed, _NEW, False):
            if now_s - each.modification_time / 1000 > _LEFT_S:
                _soon(self._client.delete, each.path)

    def _make(self, folder: str) -> None:
        _soon(self._client.mkdirs, folder, 0o700, True)

    def _path(self, name: str) -> str:
        return f"/{self.url.split('/', 3)[3]}/{name}"

    @property
    def _client(self) -> Client:
        return _open_client("/".join(self.url.split("/", 3)[:3]), os.getpid())

    def _retried(self, attempt: Callable[[], T], name: str, verb: str) -> T:
        def once() -> T:
            try:
                return attempt()
            except (OSError, RuntimeError, ValueError) as error:
                raise refusal(self.url, name, verb, error) from error

        return self._retry.call(once, f"state in {self.url}")


def refusal(url: str, name: str, verb: str, error: Exception) -> StateError:
    """An error of a name node or data node as a StateError."""
    where = f"{url}/{name}".removesuffix("/")
    if isinstance(error, OSError) and error.errno is not None:  # of this machine's disk: the library's have none
        return StateError(f"the state cannot be {verb}: {error.strerror}", where=str(error.filename or where))
    found = _REFUSED.search(str(error))
    kind, text = (found[1].rpartition(".")[2], found[2]) if found else (type(error).__name__, str(error))
    text = re.split(r'\n|\\n|"\)$', text)[0].replace('\\"', '"')[:300] or "no answer"
    if kind in ("AccessControlException", "AuthorizationException"):
        path = f"/{url.split('/', 3)[3]}"
        hint = (
            f"have the folder made for that user (hdfs dfs -mkdir -p {path}; hdfs dfs -chown USER {path}), "
            "or set HADOOP_USER_NAME"
        )
        return StateError(f"the state cannot be {verb}: access denied: {text}", where=where, hint=hint)
    if _UNKNOWN.search(text):
        hint = "write hdfs://host:8020/folder, or set HADOOP_CONF_DIR to the folder of the cluster's hdfs-site.xml"
        return StateError("there is no such name service", where=url, hint=hint)
    if _NOBODY.search(f"{kind} {text}"):
        hint = "log in with kinit, or set KRB5CCNAME or KRB5_CLIENT_KTNAME; see docs/state.md"
        return StateUnavailable(f"the state cannot be {verb}: no credentials: {text}", where=where, hint=hint)
    hint = "check the name node, its port for clients (often 8020), and the network; nothing was lost"
    return StateUnavailable(f"the state cannot be {verb}: {text}", where=where, hint=hint)


def _soon(request: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The result of a request. Raises TimeoutError after the timeout; the request may still be executed then."""
    answer = Future[T]()

    def send_request() -> None:
        try:
            answer.set_result(request(*arguments, **named))
        except Exception as error:  # noqa: BLE001, it is raised where it was asked
            answer.set_exception(error)
        except BaseException as error:  # noqa: BLE001, a panic of the library is no Exception
            answer.set_exception(RuntimeError(repr(error)))

    threading.Thread(target=send_request, name="state-hdfs", daemon=True).start()
    return answer.result(_REQUEST_S)


def _version(name: str, number: int) -> str:
    return f"{name}/{number:012}"


@cache
def _open_client(cluster: str, process: int) -> Client:
    """The client for a cluster, one per process: its threads do not survive a fork."""
    try:
        from hdfs_native import Client
    except ImportError as error:
        hint = "pip install 'cdc-pipelines[hdfs]'"
        raise StateError("state in HDFS needs a package that is not installed", where=cluster, hint=hint) from error
    return Client(cluster, _SETTINGS)

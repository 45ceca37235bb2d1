"""Access to an object store: whole objects by name, and the translation of its errors.

Credentials, region and endpoint come from the environment variables that the store's own tools use
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_KEY`, ...).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cdc.errors import StateError, StateUnavailable
from cdc.retry import RetryPolicy

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
_FIRST = "lock"
_REQUEST_S = 20
_TRIES = 2
"""Retries by the library itself, close together; further ones are up to the retry policy."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_RIGHTS = "the state needs the rights to read, write, delete and list objects there (docs/state.md)"
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+?)(?:Context)?\b")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist", re.IGNORECASE)
_DENIED = re.compile(r"\b(401 Unauthorized|403 Forbidden|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch)\b")
_NO_ACCOUNT = re.compile(
    r"credential provider|no credentials|//169\.254\.|//metadata\.google|token request", re.IGNORECASE
)


class Bucket:
    """The objects below one URL. Cheap to create; the client is created on first use. Not for forked children.

    Every method retries transient errors as long as `retry` says, and then raises StateUnavailable; StateError is
    raised at once for permanent ones. Threads may share an object.
    """

    def __init__(self, url: str, retry: RetryPolicy | None = None) -> None:
        self.url, self._retry = url, retry or RetryPolicy()

    def check(self) -> None:
        """Check that the bucket exists and is accessible. Missing credentials are not retried.

        Raises StateError.
        """
        try:
            type(self)(self.url, replace(self._retry, timeout_s=0.0)).names(_FIRST)
        except StateUnavailable as error:
            if _NO_ACCOUNT.search(error.message):
                raise StateError(error.message, where=error.where, hint=error.hint) from error
            self.names(_FIRST)

    def get(self, name: str) -> bytes | None:
        """The content of an object; None if it does not exist."""
        found = self.get_tagged(name)
        return None if found is None else found[0]

    def get_tagged(self, name: str) -> tuple[bytes, str] | None:
        """The content of an object and the tag of its version; None if it does not exist."""
        return self._get(name, lambda meta: _tag(meta["e_tag"], meta["version"]))

    def get_dated(self, name: str) -> tuple[bytes, float] | None:
        """The content of an object and when it was written (epoch seconds, store's clock); None if missing."""
        return self._get(name, lambda meta: meta["last_modified"].timestamp())

    def _get(self, name: str, of: Callable[[ObjectMeta], T]) -> tuple[bytes, T] | None:
        """The content of an object and a value from its metadata; None if it does not exist."""
        import obstore

        def attempt() -> tuple[bytes, T] | None:
            try:
                found = obstore.get(self._store, name)
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise
                return None
            return bytes(found.bytes()), of(found.meta)

        return self._retried(attempt, name, "read")

    def put_new(self, name: str, data: bytes) -> bool:
        """Create an object; False if it exists, perhaps from an earlier request whose response was lost."""
        return self._put_if(name, data, "create") is not None

    def put_if_match(self, name: str, data: bytes, tag: str) -> str | None:
        """Replace the version of an object with this tag; return the new tag, None if there is another version."""
        return self._put_if(name, data, tag)

    def put(self, name: str, data: bytes | Path) -> None:
        """Write or replace an object, from bytes or a file."""
        import obstore

        self._retried(lambda: obstore.put(self._store, name, data), name, "written")

    def download(self, name: str, path: Path) -> None:
        """Download an object into a new file. Raises StateError, also if it does not exist; OSError."""
        import obstore

        def attempt() -> None:
            with open(path, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
                for part in obstore.get(self._store, name):
                    file.write(part)

        self._retried(attempt, name, "read")

    def names(self, folder: str) -> list[str]:
        """The names of all objects below a folder, including the folder's name, sorted."""
        import obstore

        def attempt() -> list[str]:
            return sorted(str(each["path"]) for part in obstore.list(self._store, folder) for each in part)

        return self._retried(attempt, folder, "listed")

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects, as far as they exist."""
        for part in _parts(sorted(names)):
            self._retried(lambda part=part: self._delete(part), part[0], "removed")  # type: ignore[misc]

    def _delete(self, names: list[str]) -> None:
        """Remove objects at once, or one by one if some do not exist, which Azure and Google refuse (S3 does not)."""
        import obstore

        try:
            obstore.delete(self._store, names)
        except FileNotFoundError as error:
            if _NO_BUCKET.search(str(error)):
                raise
            if len(names) > 1:
                for name in names:
                    self._delete([name])

    def _put_if(self, name: str, data: bytes, condition: str) -> str | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        def attempt() -> str | None:
            mode = "create" if condition == "create" else _version(condition)
            try:
                done = obstore.put(self._store, name, data, mode=mode, use_multipart=False)  # type: ignore[arg-type]
            except (AlreadyExistsError, PreconditionError):
                return None
            return _tag(done["e_tag"], done["version"])

        return self._retried(attempt, name, "written")

    @property
    def _store(self) -> ObjectStore:
        return _open_store(self.url, os.getpid())

    def _retried(self, attempt: Callable[[], T], name: str, verb: str) -> T:
        from obstore.exceptions import BaseError

        def once() -> T:
            try:
                return attempt()
            except (BaseError, OSError) as error:
                raise refusal(self.url, name, verb, error) from error

        return self._retry.call(once, f"state in {self.url}")


def refusal(url: str, name: str, verb: str, error: Exception) -> StateError:
    """An error of an object store as a StateError. Its text is cut so that it contains no secret."""
    text, where = _without_secrets(str(error)), f"{url}/{name}"
    kind = type(error).__name__
    if _NO_BUCKET.search(str(error)):
        hint = "create it, or correct --state-dir"
        return StateError("there is no such bucket", where=url, hint=hint)
    if _NO_ACCOUNT.search(text):
        hint = "give them in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; see docs/state.md"
        return StateUnavailable(f"the state cannot be {verb}: no credentials: {text}", where=where, hint=hint)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or _DENIED.search(text):
        return StateError(f"the state cannot be {verb}: access denied: {text}", where=where, hint=_RIGHTS)
    if kind == "NotSupportedError" or "501 Not Implemented" in text:
        hint = "the store has to support conditional puts (If-None-Match and If-Match)"
        return StateError(f"the state cannot be {verb}: {text}", where=where, hint=hint)
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return StateError(f"the state cannot be {verb}: {error.strerror or error}", where=str(error.filename or where))
    hint = "check the store and the network; nothing was lost"
    if found := _CERTIFICATE.search(str(error)):
        text = f"no TLS connection: the certificate of the store is refused: {found[1]}"
        hint = "renew it; SSL_CERT_FILE names a file with an authority that is not the system's"
    return StateUnavailable(f"the state cannot be {verb}: {text}", where=where, hint=hint)


def _without_secrets(text: str) -> str:
    """The first line of the library's message, without the query parts of URLs, which may contain signatures."""
    line = text.split("\n")[0]
    return re.sub(r"\?[^\s)\"']*", "", line)[:300].strip()


@cache
def _open_store(url: str, process: int) -> ObjectStore:
    """The client for a URL, one per process: its threads do not survive a fork."""
    from obstore.store import from_url

    plain = any(_endpoint(name).startswith("http://") for name in _ENDPOINTS)
    options = {"timeout": timedelta(seconds=_REQUEST_S), **({"allow_http": True} if plain else {})}
    retry = {"max_retries": _TRIES, "retry_timeout": timedelta(seconds=_REQUEST_S)}
    config = {"endpoint": _endpoint("AWS_ENDPOINT_URL_S3")} if _endpoint("AWS_ENDPOINT_URL_S3") else {}
    try:
        return from_url(url, config=config or None, client_options=options, retry_config=retry)  # type: ignore[call-overload,no-any-return]
    except Exception as error:
        hint = "write s3://bucket/prefix, gs://bucket/prefix or abfss://container@account.dfs.core.windows.net/prefix"
        raise StateError(f"cannot keep state there: {_without_secrets(str(error))}", where=url, hint=hint) from error


def _endpoint(name: str) -> str:
    return os.environ.get(name, "")


def _tag(tag: str | None, version: str | None) -> str:
    """The ETag and the version of an object: stores differ in which of them they check."""
    return f"{tag or ''}\n{version or ''}"


def _version(tag: str) -> dict[str, str]:
    e_tag, _, version = tag.partition("\n")
    return {key: value for key, value in (("e_tag", e_tag), ("version", version)) if value}


def _parts(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), 500):
        yield names[start : start + 500]

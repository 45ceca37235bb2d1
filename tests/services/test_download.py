"""Downloads: resumed, checked, and what vouches for them."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest
from http_server import QuietHandler

from cdc_services import suite
from cdc_services.download import fetch

BODY = bytes(range(256)) * 40
SHA256 = hashlib.sha256(BODY).hexdigest()


class Mirror(HTTPServer):
    """Answers every path with BODY, from where the client asks if `ranges`; remembers the Range headers."""

    ranges = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.deb"


class Handler(QuietHandler):
    server: Mirror

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        self.send_response(206 if start else 200)
        self.end_headers()
        self.wfile.write(BODY[start:])


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_finished_file_is_not_asked_for_again(mirror: Mirror, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch(mirror.url, tmp_path / "f", size=len(BODY), sha256=SHA256).read_bytes() == BODY
    assert mirror.asked == [None]


@pytest.mark.parametrize("ranges", [True, False])
def test_half_a_file_is_continued(mirror: Mirror, tmp_path: Path, ranges: bool) -> None:
    mirror.ranges = ranges
    (tmp_path / "f.part").write_bytes(BODY[:1000])
    assert fetch(mirror.url, tmp_path / "f", size=len(BODY), sha256=SHA256).read_bytes() == BODY
    assert mirror.asked == ["bytes=1000-"]


def test_wrong_bytes_are_refused_and_not_kept(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checksum is wrong"):
        fetch(mirror.url, tmp_path / "f", size=len(BODY), sha256="00" * 32)
    assert list(tmp_path.iterdir()) == []


def test_the_release_lists_the_index_checksum() -> None:
    release = "Origin: D\nMD5Sum:\n 11 5 main/x\nSHA256:\n aa 10 main/binary-amd64/Packages.xz\n bb 11 main/y\n"
    assert suite.listed_sha256(release, "main/binary-amd64/Packages.xz") == "aa"
    with pytest.raises(ValueError, match="lists no main/x"):
        suite.listed_sha256(release, "main/x")


def test_without_a_keyring_the_trust_is_stated_as_it_is(tmp_path: Path) -> None:
    text, trust = suite.verified(b"Origin: D\n", tmp_path / "no-keyring.gpg")
    assert text == "Origin: D\n"
    assert "could not be checked" in trust


@pytest.mark.skipif(
    shutil.which("gpgv") is None or not suite.KEYRING.is_file(), reason="this machine has no gpgv or no Debian keyring"
)
def test_a_release_without_a_good_signature_is_refused() -> None:
    with pytest.raises(ValueError, match="signature"):
        suite.verified(b"Origin: D\n")

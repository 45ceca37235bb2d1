"""TLS: a server has to prove who it is before it gets a word of ours, the password least of all."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cdc.errors import SinkError, SinkUnavailable
from connectors.elasticsearch.client import Login, SearchClient
from connectors.shared.servers.address import Account, Address, TimeLimits, Tls
from connectors.shared.servers.tls import is_tls_refusal
from connectors.shared.streamload.http import HttpClient, Servers

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMITS = TimeLimits(connect_s=5, continue_s=5, send_s=5, answer_s=5)


def certificate(folder: Path, host: str, valid_h: int = 24) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key, as PEM files; it expires in that many hours."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(hours=valid_h))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir()
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return folder / "cert.pem", folder / "key.pem"


class TlsServer:
    """Answers one request after the other; `heads` are those that came through."""

    def __init__(self, cert: Path, key: Path, answer: bytes = OK) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self._context, self._answer = context, answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1], secure=True)
        self.heads: list[bytes] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            try:
                with self._context.wrap_socket(plain, server_side=True) as secured, secured.makefile("rb") as file:
                    self.heads.append(b"".join(iter(file.readline, b"\r\n")))
                    secured.sendall(self._answer)
            except OSError:
                plain.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TlsServer]:
    made = TlsServer(*certificate(tmp_path / "own", "127.0.0.1"))
    yield made
    made.close()


def client(server: TlsServer, tls: Tls) -> HttpClient:
    return HttpClient(Servers((server.address,), Account("me", "a-secret"), (), tls, LIMITS))


def test_a_server_that_nobody_vouches_for_gets_nothing(server: TlsServer) -> None:
    with pytest.raises(SinkError, match=r"(?i)certificate") as caught:
        client(server, Tls()).request("GET", "/x")
    assert not caught.value.retryable
    assert "sink.tls.ca" in caught.value.hint
    assert server.heads == []
    with pytest.raises(SinkError, match=r"(?i)certificate") as caught:
        SearchClient((str(server.address),), Login()).request("GET", "/x")
    assert not caught.value.retryable


def test_the_own_authority_vouches_for_it(server: TlsServer, tmp_path: Path) -> None:
    tls = Tls(ca=str(tmp_path / "own" / "cert.pem"))
    assert client(server, tls).request("GET", "/x").text == "ok"
    assert b"Authorization: Basic" in server.heads[0]


def test_a_server_that_goes_away_in_the_handshake_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def cut() -> None:
            for _ in range(2):
                with listening.accept()[0] as taken:
                    taken.recv(1)
                    taken.shutdown(socket.SHUT_RDWR)

        server = threading.Thread(target=cut)
        server.start()
        address = Address("127.0.0.1", listening.getsockname()[1], secure=True)
        with pytest.raises(SinkUnavailable):
            HttpClient(Servers((address,), Account("me", "a-secret"), (), Tls(), LIMITS)).request("GET", "/x")
        with pytest.raises(SinkUnavailable):
            SearchClient((str(address),), Login()).request("GET", "/x", wait=False)
        server.join()
    damaged = ssl.SSLError(1, "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC]")
    damaged.reason = "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
    assert not is_tls_refusal(damaged)


def test_a_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path / "other", "127.0.0.9")
    server = TlsServer(cert, key)
    with pytest.raises(SinkError, match=r"(?i)certificate"):
        client(server, Tls(ca=str(cert))).request("GET", "/x")
    assert server.heads == []
    server.close()


def test_a_certificate_that_has_expired_is_to_be_renewed(tmp_path: Path) -> None:
    """The authority is known, which the hint told to name."""
    cert, key = certificate(tmp_path / "old", "127.0.0.1", valid_h=-1)
    server = TlsServer(cert, key)
    with pytest.raises(SinkError, match=r"certificate has expired \(renew the server's certificate"):
        client(server, Tls(ca=str(cert))).request("GET", "/x")
    with pytest.raises(SinkError, match=r"certificate has expired \(renew the server's certificate"):
        SearchClient((str(server.address),), Login(), ca=str(cert)).request("GET", "/x")
    server.close()


def test_verification_can_be_switched_off(server: TlsServer) -> None:
    assert client(server, Tls(verify=False)).request("GET", "/x").text == "ok"


def test_a_front_end_with_tls_cannot_send_the_password_to_a_plain_back_end(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path / "own", "127.0.0.1")
    moved = b"HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:9/api/d/t/_stream_load\r\nContent-Length: 0\r\n\r\n"
    server = TlsServer(cert, key, moved)
    with pytest.raises(SinkError, match="plain address"):
        client(server, Tls(ca=str(cert))).request("GET", "/x")
    server.close()


def test_a_new_authority_in_the_same_file_is_used(server: TlsServer, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    other, _ = certificate(tmp_path / "other", "127.0.0.1")
    bundle.write_bytes(other.read_bytes())
    os.utime(bundle, (0, 0))  # the file system's clock may not have moved on by the next write
    tls = Tls(ca=str(bundle))
    with pytest.raises(SinkError):
        client(server, tls).request("GET", "/x")
    bundle.write_bytes((tmp_path / "own" / "cert.pem").read_bytes())
    assert client(server, tls).request("GET", "/x").text == "ok"


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_an_authority_that_cannot_be_read(server: TlsServer, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SinkError, match="TLS file") as caught:
        client(server, Tls(ca=str(path))).request("GET", "/x")
    assert caught.value.where == str(path)

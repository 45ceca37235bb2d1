"""Messages between an executor and the driver: a JSON object, and bytes after it, over TLS. Either side."""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_HEAD = struct.Struct("!IQ")
"""The lengths of the object and of the bytes after it."""
_LONGEST = 64 << 20
"""The most bytes of an object; a longer one is not a valid message."""
_QUIET_S, _PROBES = 30, 4
PIECE, BUFFER = 1 << 20, 1 << 18


@dataclass(frozen=True, slots=True)
class StateEndpoint:
    """The address of one run's driver, and the credentials of both sides. Contains a secret; sent with the tasks.

    `where` is the place of the state for messages. Requests are retried for `timeout_s`: Spark soon ends an executor
    whose driver is gone.
    """

    host: str
    port: int
    token: str
    certificate: str
    where: str
    timeout_s: float = 15.0

    def __repr__(self) -> str:
        return f"StateEndpoint({self.host}:{self.port})"


def send(file: IO[bytes], fields: Mapping[str, Any], data: bytes = b"") -> None:
    """Send one message. Raises OSError."""
    begin(file, fields, len(data))
    file.write(data)
    file.flush()


def begin(file: IO[bytes], fields: Mapping[str, Any], size: int) -> None:
    """Send the object of a message followed by this many bytes, which the caller writes. Raises OSError."""
    text = json.dumps(fields).encode()
    file.write(_HEAD.pack(len(text), size) + text)


def receive(file: IO[bytes]) -> tuple[dict[str, Any], int] | None:
    """The object of the next message, and the number of bytes after it; None if the other side has closed.

    Raises OSError.
    """
    head = file.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise ConnectionError("the connection has ended in the middle of a message")
    length, size = _HEAD.unpack(head)
    if length > _LONGEST:
        raise ConnectionError("that is not a message of cdc")
    fields = json.loads(read_exactly(file, length))
    if not isinstance(fields, dict):
        raise ConnectionError("that is not a message of cdc")
    return fields, size


def read_exactly(file: IO[bytes], size: int) -> bytes:
    """The next `size` bytes. Raises OSError if the other side closes before."""
    data = file.read(size)
    if len(data) < size:
        raise ConnectionError("the connection has ended in the middle of a message")
    return data


def read_pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes, in pieces of at most a megabyte. Raises OSError if the other side closes before."""
    while size:
        piece = read_exactly(file, min(size, PIECE))
        size -= len(piece)
        yield piece


def enable_keepalive(connection: socket.socket) -> None:
    """Enable TCP keep-alive to detect a dead machine: responses may take long, and there is no timeout."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _QUIET_S), ("TCP_KEEPINTVL", _QUIET_S // 2), ("TCP_KEEPCNT", _PROBES)):
        with contextlib.suppress(AttributeError):  # not every system has all three
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def new_certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """A private key of this process only, and the certificate with which executors authenticate the driver.

    The key is in a file of `folder` for a moment, as Python's TLS takes it from nowhere else.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cdc driver")])
    utc = datetime.UTC
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        # machines' clocks differ, and it is gone with the process
        .not_valid_before(datetime.datetime(2000, 1, 1, tzinfo=utc))
        .not_valid_after(datetime.datetime(2200, 1, 1, tzinfo=utc))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate = builder.public_bytes(encoding)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _private_file(folder, secret + certificate) as path:
        context.load_cert_chain(path)
    return context, certificate.decode()


@contextlib.contextmanager
def _private_file(folder: Path, data: bytes) -> Iterator[Path]:
    from cdc.state.durable import new_file

    path = folder / f".certificate-{id(data)}.tmp"
    try:
        with new_file(path) as file:
            file.write(data)
        yield path
    finally:
        path.unlink(missing_ok=True)


def client_context(certificate: str) -> ssl.SSLContext:
    """The TLS context of an executor, which trusts only this certificate, under any host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context

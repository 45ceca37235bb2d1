"""What a hostile or broken server gets, at any point of the login: no password, no endless wait, no internal error."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from hostile_mysql import HostileServer, Visit, hostile
from together import together

from cdc.errors import SinkError, SinkUnavailable, SourceError, SourceUnavailable
from connectors.mysql.server import connection as mysql_connection
from connectors.mysql.server.connection import ConnectionOptions, connect
from connectors.shared.login.mysql import LoginRules, UnsafeLogin, log_in
from connectors.shared.servers.address import Account, Address, TimeLimits, Tls
from connectors.shared.sql.client import SqlClient, SqlServers

PASSWORD = "S3cret-never-shown"
CLEAR = ("mysql_clear_password", "dialog")


def source(server: HostileServer, *, connect_timeout_s: float = 30.0, **changes: object) -> ConnectionOptions:
    return ConnectionOptions(
        hostname="127.0.0.1", port=server.port, username="u", password=PASSWORD, max_retries=0,
        connect_timeout_s=connect_timeout_s, **changes,
    )  # type: ignore[arg-type]  # fmt: skip


def sink(server: HostileServer, *, connect_s: float = 30.0) -> SqlClient:
    limits = TimeLimits(connect_s=connect_s)
    return SqlClient(SqlServers((Address("127.0.0.1", server.port),), Account("u", PASSWORD), limits=limits))


def try_both(server: HostileServer, time_limit_s: float = 30.0) -> tuple[SourceError, SinkError]:
    """The errors of a source and of a sink that meet this server."""
    with pytest.raises(SourceError) as of_source:
        connect(source(server, connect_timeout_s=time_limit_s))
    with pytest.raises(SinkError) as of_sink, sink(server, connect_s=time_limit_s).session(wait=False) as session:
        session.rows("SELECT 1")
    assert f"127.0.0.1:{server.port}" in str(of_source.value)
    assert f"127.0.0.1:{server.port}" in str(of_sink.value)
    assert PASSWORD not in f"{of_source.value}{of_sink.value}"
    return of_source.value, of_sink.value


@together("plugin, greeting", [*((plugin, ()) for plugin in CLEAR), (CLEAR[0], (CLEAR[0],))])
def test_a_password_is_not_sent_in_clear_text_when_the_server_asks_for_it(
    plugin: str, greeting: tuple[str, ...]
) -> None:
    def script(visit: Visit) -> None:
        visit.greet(*greeting)
        visit.receive()
        visit.switch(plugin)
        visit.wait_for_the_end()

    with hostile(script) as server:
        of_source, of_sink = try_both(server)
    assert "clear text" in str(of_source)
    assert "verify-identity" in of_source.hint
    assert "clear text" in str(of_sink)
    assert "sink.tls.sql" in of_sink.hint
    assert PASSWORD.encode() not in b"".join(server.sent)


def caching_sha2_with_a_key(visit: Visit) -> None:
    visit.greet("caching_sha2_password")
    visit.receive()
    visit.send(2, b"\x01\x04")  # full authentication
    visit.receive()
    visit.send(4, b"\x01" + KEY)
    visit.wait_for_the_end()


def sha256_with_a_key(visit: Visit) -> None:
    visit.greet("sha256_password")
    visit.receive()
    visit.send(2, b"\x01" + KEY)
    visit.wait_for_the_end()


def switched_to_sha256_with_a_key(visit: Visit) -> None:
    visit.greet()
    visit.receive()
    visit.switch("sha256_password")
    visit.receive()
    visit.send(4, b"\x01" + KEY)
    visit.wait_for_the_end()


KEY = b"""-----BEGIN PUBLIC KEY-----
MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBALyl5oWsBT1jHuAR3qPFbjAIFFjJnUdd
VttK2Yw1lVLSUINO7EZKCPRO7jDFMBKjDtqgZIR8yhW6KqSN9WLWpHcCAwEAAQ==
-----END PUBLIC KEY-----
"""


@together("script", [caching_sha2_with_a_key, sha256_with_a_key, switched_to_sha256_with_a_key])
def test_a_key_that_a_server_sends_is_not_believed_unless_allowed(script: Callable[[Visit], None]) -> None:
    rules = LoginRules(verified=False, key_retrieval=False, within_s=30)
    with hostile(script) as server, pytest.raises(UnsafeLogin, match="public key"):
        log_in(rules, "127.0.0.1", server.port, user="u", password=PASSWORD.encode(), ssl_disabled=True)
    assert all(len(sent) < 64 for sent in server.sent[1:])  # an encrypted password is as long as the key


def test_a_public_key_is_believed_with_the_option_only() -> None:
    """This machine's address may be a forwarded port, and somebody between its ends."""
    for hostname, allowed in (("127.0.0.1", False), ("localhost", False), ("db.example", False), ("db.example", True)):
        options = ConnectionOptions(hostname=hostname, username="u", key_retrieval=allowed)
        assert options.rules.key_retrieval is allowed
        assert not options.rules.verified


def http(visit: Visit) -> None:
    visit.line.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def ssh(visit: Visit) -> None:
    visit.line.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")


def zeros(visit: Visit) -> None:
    visit.line.sendall(bytes(4096))


def no_version(visit: Visit) -> None:
    visit.send(0, b"\x0aabc\0" + bytes(60))


def short_greeting(visit: Visit) -> None:
    visit.send(0, b"\x0a9.7")


def short_error(visit: Visit) -> None:
    visit.send(0, b"\xff")


def huge_packet(visit: Visit) -> None:
    visit.line.sendall(b"\xff\xff\xff\x00")
    visit.line.sendall(bytes(1 << 16))


def nonsense_after_login(visit: Visit) -> None:
    visit.greet()
    visit.receive()
    visit.send(2, b"\x17\x2a")


def plugin_name_that_is_no_text(visit: Visit) -> None:
    visit.greet()
    visit.receive()
    visit.send(2, b"\xfe\xff\xfe\xfd\0" + bytes(21))


def key_that_is_none(visit: Visit) -> None:
    visit.greet("caching_sha2_password")
    visit.receive()
    visit.send(2, b"\x01\x04")
    visit.receive()
    visit.send(4, b"\x01not a key")
    visit.wait_for_the_end()


def ok_with_nothing_in_it(visit: Visit) -> None:
    visit.greet()
    visit.receive()
    visit.send(2, bytes(7))
    visit.receive()
    visit.send(1, b"\0")


def a_file_is_wanted(visit: Visit) -> None:
    visit.greet()
    visit.receive()
    visit.send(2, bytes(7))
    visit.receive()
    visit.send(1, b"\xfb/etc/passwd")


@together(
    "script",
    [
        http, ssh, zeros, no_version, short_greeting, short_error, huge_packet, nonsense_after_login,
        plugin_name_that_is_no_text, key_that_is_none, ok_with_nothing_in_it, a_file_is_wanted,
    ],
)  # fmt: skip
def test_nonsense_is_an_error_of_the_source_or_the_sink(script: Callable[[Visit], None]) -> None:
    with hostile(script) as server:
        of_source, of_sink = try_both(server)
    assert of_source.hint
    assert of_sink.hint


def silent(visit: Visit) -> None:
    visit.wait_for_the_end()


def silent_after_greeting(visit: Visit) -> None:
    visit.greet()
    visit.wait_for_the_end()


def silent_in_tls(visit: Visit) -> None:
    visit.greet(capabilities=0x0800)
    visit.wait_for_the_end()


def silent_after_login(visit: Visit) -> None:
    visit.greet()
    visit.receive()
    visit.send(2, bytes(7))
    visit.wait_for_the_end()


def byte_by_byte(visit: Visit) -> None:
    pause = threading.Event()
    visit.line.sendall(b"\x50\x00\x00\x00")
    for _ in range(0x50):
        visit.line.sendall(b"\x0a")
        pause.wait(0.03)


@together(
    "script",
    [silent, silent_after_greeting, silent_in_tls, silent_after_login, byte_by_byte],
)
def test_a_login_that_does_not_go_on_ends_with_the_time_for_it(script: Callable[[Visit], None]) -> None:
    with hostile(script) as server:
        of_source, of_sink = try_both(server, 0.1)
    assert isinstance(of_source, SourceUnavailable)
    assert "within 0.1 s" in str(of_source)
    assert "connect.timeout" in of_source.hint
    assert isinstance(of_sink, SinkUnavailable)


def too_many(visit: Visit) -> None:
    visit.send(0, b"\xff" + struct.pack("<H", 1040) + b"#08004Too many connections")


def test_each_address_of_a_host_gets_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall that drops what goes to an IPv6 address used up all of it, and the IPv4 address had none."""
    given, connect_to = list[float](), socket.create_connection

    def create_connection(address: tuple[str, int], timeout: float) -> socket.socket:
        given.append(timeout)
        return connect_to(address, timeout)

    with hostile(too_many) as server:
        addresses = [("127.0.0.2", server.port), ("127.0.0.1", server.port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(socket, "create_connection", create_connection)
        with pytest.raises(SourceUnavailable, match="Too many connections"):
            connect(replace(source(server), hostname="db.example"))
    assert given == [15.0]


def test_what_a_server_says_before_the_login_is_told() -> None:
    with hostile(too_many) as server:
        of_source, _ = try_both(server)
    assert isinstance(of_source, SourceUnavailable)
    assert "Too many connections" in str(of_source)


def test_tls_that_was_offered_and_vanishes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    seen = mysql_connection._Preferred()
    options = ConnectionOptions(hostname="db.example", username="u", tls_mode="preferred")
    with caplog.at_level(logging.WARNING):
        seen.look(options, encrypted=True)
        assert caplog.messages == []
        seen.look(options, encrypted=False)
        assert ["db.example:3306 offered TLS before" in message for message in caplog.messages] == [True]
        seen.look(options, encrypted=False)
    assert len(caplog.messages) == 1


def test_a_plain_connection_to_another_machine_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = mysql_connection._Preferred()
    with caplog.at_level(logging.WARNING):
        for hostname in ("db.example", "db.example", "127.0.0.1"):
            seen.look(ConnectionOptions(hostname=hostname, username="u"), encrypted=False)
    assert len(caplog.messages) == 1
    assert "db.example:3306 offers no TLS" in caplog.messages[0]


def test_a_server_that_tls_refuses_is_not_waited_for() -> None:
    def no_tls(visit: Visit) -> None:
        visit.greet(capabilities=0x0800)
        visit.receive()
        http(visit)

    with hostile(no_tls) as server:
        client = sink(server)
        with pytest.raises(SinkError, match="no TLS connection: WRONG_VERSION_NUMBER") as caught:
            SqlClient(replace(client.servers, tls=Tls())).retry_query(lambda session: session.rows("SELECT 1"))
    assert not caught.value.retryable


@pytest.mark.parametrize("mode", ["preferred", "required"])
def test_authorities_that_nothing_is_verified_with_are_not_loaded(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda self, purpose: loaded.append("authorities"))

    def script(visit: Visit) -> None:
        visit.greet()

    with hostile(script) as server, pytest.raises(SourceError):
        connect(source(server, tls_mode=mode))
    assert loaded == []

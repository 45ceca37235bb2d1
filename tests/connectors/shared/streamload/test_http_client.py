"""The client against servers that do exactly one thing, each on a port of its own."""

import base64
import pickle
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from together import together

from cdc.errors import CdcError, CommitUnknown, SinkError, SinkUnavailable
from connectors.shared.servers.address import Account, Address, TimeLimits, Tls, parse_list
from connectors.shared.streamload.http import HttpClient, Servers, check_status
from connectors.shared.streamload.http_connection import Answer

PASSWORD = "p@ss/w:rd?#"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMITS = TimeLimits(connect_s=5, continue_s=5, send_s=5, answer_s=5)
Script = Callable[["Talk"], None]


class Talk:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.file = connection, connection.makefile("rb")
        self.head = b""

    def read_head(self) -> str:
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            line = self.file.readline()
            if not line:
                raise ValueError("the client closed the connection in the head")
            self.head += line
        return self.head.decode()

    def read_chunks(self) -> bytes:
        body = b""
        while size := int(self.file.readline(), 16):
            body += self.file.read(size)
            assert self.file.read(2) == b"\r\n"
        assert self.file.readline() == b"\r\n"
        return body

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)


class Server:
    def __init__(self, script: Script) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.heads: list[str] = []
        self._script = script
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            talk = Talk(connection)
            try:
                talk.read_head()
                self.heads.append(talk.head.decode())
                self._script(talk)
            except (OSError, ValueError):
                pass
            finally:
                talk.file.close()
                connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Server]]:
    servers: list[Server] = []

    def start(script: Script) -> Server:
        servers.append(Server(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def client(
    *frontends: Address, backends: tuple[Address, ...] = (), tls: Tls | None = None, limits: TimeLimits = LIMITS
) -> HttpClient:
    return HttpClient(Servers(frontends, Account("me", PASSWORD), backends, tls or Tls(), limits))


def redirect(address: Address, *, user: str = "") -> bytes:
    location = f"http://{user}127.0.0.1:{address.port}/api/d/t/_stream_load?"
    return f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


def closed_port() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


def take(bodies: list[bytes]) -> Script:
    def script(talk: Talk) -> None:
        talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        bodies.append(talk.read_chunks())
        talk.send(OK)

    return script


def no_secret(error: CdcError) -> bool:
    return not any(part in f"{error} {error!r} {error.to_json()}" for part in (PASSWORD, "p%40ss", "me:p"))


def test_rows_go_to_the_back_end_that_the_front_end_names(serve: Callable[[Script], Server]) -> None:
    bodies: list[bytes] = []
    backend = serve(take(bodies))
    frontend = serve(lambda talk: talk.send(redirect(backend.address, user=f"me:{PASSWORD}@")))
    upload = client(frontend.address).upload("/api/d/t/_stream_load", {"label": "x"})
    for part in (b"a", memoryview(b"b" * 3_000_000), b""):
        assert upload.write(part)
    assert upload.finish().text == "ok"
    assert bodies == [b"a" + b"b" * 3_000_000]
    authorization = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    for head in (frontend.heads[0], backend.heads[0]):
        assert head.startswith("PUT /api/d/t/_stream_load")
        assert f"Authorization: Basic {authorization}\r\n" in head
        assert "Expect: 100-continue\r\n" in head
        assert "Transfer-Encoding: chunked\r\n" in head
        assert "Content-Length" not in head


def test_an_answer_before_the_body(serve: Callable[[Script], Server]) -> None:
    backend = serve(lambda talk: talk.send(OK))
    frontend = serve(lambda talk: talk.send(redirect(backend.address)))
    upload = client(frontend.address).upload("/x", {})
    assert upload.early is not None
    assert upload.early.text == "ok"
    assert not upload.write(b"rows")
    assert upload.finish().text == "ok"


def test_an_answer_in_the_middle_of_the_body(serve: Callable[[Script], Server]) -> None:
    def script(talk: Talk) -> None:
        talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        talk.file.readline()
        talk.send(OK)

    upload = client(serve(script).address).upload("/x", {})
    while upload.write(b"x" * 1000):
        pass
    assert upload.finish().text == "ok"


def test_a_connection_that_breaks_in_the_body_leaves_nothing(serve: Callable[[Script], Server]) -> None:
    def script(talk: Talk) -> None:
        talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        talk.file.readline()

    upload = client(serve(script).address).upload("/x", {})

    def write_on() -> None:
        while True:
            upload.write(b"x" * 100_000)

    with pytest.raises(SinkUnavailable, match="connection"):
        write_on()


def test_no_answer_to_a_whole_load_is_not_guessed(serve: Callable[[Script], Server]) -> None:
    def script(talk: Talk) -> None:
        talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        talk.read_chunks()

    upload = client(serve(script).address).upload("/x", {})
    upload.write(b"rows")
    with pytest.raises(CommitUnknown, match="4 bytes") as caught:
        upload.finish()
    assert no_secret(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 404",
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127",
    ],
)
def test_half_an_answer_is_no_answer(serve: Callable[[Script], Server], answer: bytes) -> None:
    server = serve(lambda talk: talk.send(answer))
    with pytest.raises(CommitUnknown, match=r"middle|before a whole"):
        client(server.address).request("PUT", "/x")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nTrailer: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd",
        b"HTTP/1.0 200 OK\r\n\r\nabcd",
    ],
)
def test_answers_of_every_framing(serve: Callable[[Script], Server], answer: bytes) -> None:
    assert client(serve(lambda talk: talk.send(answer)).address).request("GET", "/x").body == b"abcd"


def test_the_next_front_end_is_asked_when_one_is_down(serve: Callable[[Script], Server]) -> None:
    server = serve(lambda talk: talk.send(OK))
    assert client(closed_port(), server.address).request("GET", "/x").text == "ok"


def test_no_front_end_at_all() -> None:
    with pytest.raises(SinkUnavailable, match="cannot be reached") as caught:
        client(closed_port(), closed_port()).request("GET", "/x")
    assert no_secret(caught.value)


def test_a_back_end_that_is_gone_is_another_one_next_time(serve: Callable[[Script], Server]) -> None:
    bodies: list[bytes] = []
    alive, dead = serve(take(bodies)), closed_port()
    named = iter([dead, alive.address])
    frontend = serve(lambda talk: talk.send(redirect(next(named))))
    loading = client(frontend.address)
    with pytest.raises(SinkUnavailable, match="cannot be reached"):
        loading.upload("/x", {})
    upload = loading.upload("/x", {})
    upload.write(b"rows")
    upload.finish()
    assert bodies == [b"rows"]


def test_back_ends_of_the_options_take_turns(serve: Callable[[Script], Server]) -> None:
    bodies: list[bytes] = []
    backends = tuple(serve(take(bodies)).address for _ in range(2))
    asking = client(closed_port(), backends=backends)
    for rows in (b"1", b"2", b"3"):
        upload = asking.upload("/x", {})
        upload.write(rows)
        upload.finish()
    assert sorted(bodies) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_lost_answer_is_asked_for_again_only_when_that_changes_nothing(
    serve: Callable[[Script], Server], repeatable: bool
) -> None:
    mute, other = serve(lambda talk: talk.send(b"")), serve(lambda talk: talk.send(OK))
    if repeatable:
        assert client(mute.address, other.address).request("GET", "/x", repeatable=True).text == "ok"
    else:
        with pytest.raises(CommitUnknown):
            client(mute.address, other.address).request("PUT", "/x")


def test_the_front_end_that_answered_is_asked_first_by_whoever_comes_next(
    serve: Callable[[Script], Server],
) -> None:
    asked: list[str] = []

    def script(name: str, answer: bytes) -> Script:
        def talk_to(talk: Talk) -> None:
            asked.append(name)
            talk.send(answer)

        return talk_to

    mute, other = serve(script("mute", b"")), serve(script("other", OK))
    for _ in range(3):
        # Another object each time, as every task has its own.
        client(mute.address, other.address).request("GET", "/x", repeatable=True)
    assert asked == ["mute", "other", "other", "other"]


def test_redirects_without_an_end(serve: Callable[[Script], Server]) -> None:
    def script(talk: Talk) -> None:
        talk.send(redirect(server.address))

    server = serve(script)
    with pytest.raises(SinkError, match="endless redirects"):
        client(server.address).request("GET", "/x")


def test_a_location_that_is_no_address_is_not_shown(serve: Callable[[Script], Server]) -> None:
    answer = f"HTTP/1.1 307 x\r\nLocation: ftp://me:{PASSWORD}@be/api/x\r\nContent-Length: 0\r\n\r\n".encode()
    with pytest.raises(SinkError, match="an invalid address") as caught:
        client(serve(lambda talk: talk.send(answer)).address).request("GET", "/x")
    assert no_secret(caught.value)


@pytest.mark.slow  # both ends wait for the other until a time limit
def test_a_server_without_tls_where_tls_is_asked_for(serve: Callable[[Script], Server]) -> None:
    """Its server waits for the end of a head, the client for a word of TLS: the client gives up."""
    server = serve(lambda talk: talk.send(OK))
    limits = TimeLimits(connect_s=0.2, continue_s=0.2, send_s=0.2, answer_s=0.2)
    with pytest.raises(SinkError):
        client(Address("127.0.0.1", server.address.port, secure=True), limits=limits).request("GET", "/x")


def test_headers_cannot_break_out_of_their_line(serve: Callable[[Script], Server]) -> None:
    with pytest.raises(ValueError, match="line end"):
        client(serve(lambda talk: talk.send(OK)).address).request("GET", "/x", {"label": "a\r\nX: y"})


def test_the_client_travels_to_executors(serve: Callable[[Script], Server]) -> None:
    server = serve(lambda talk: talk.send(OK))
    assert pickle.loads(pickle.dumps(client(server.address))).request("GET", "/x").text == "ok"


@together("status, kind", [(401, SinkError), (404, SinkError), (500, SinkUnavailable), (503, SinkUnavailable)])
def test_http_statuses(status: int, kind: type[SinkError]) -> None:
    with pytest.raises(kind, match=str(status)) as caught:
        check_status(Answer(status, {}, b"no", "http://fe:8030"))
    assert type(caught.value) is kind


def test_a_password_shows_nowhere() -> None:
    assert PASSWORD not in repr(Servers((closed_port(),), Account("me", PASSWORD)))


@together(
    "text, expected",
    [
        ("fe", [("fe", 8030, False)]),
        ("fe1:1,fe2:2;https://fe3", [("fe1", 1, False), ("fe2", 2, False), ("fe3", 8030, True)]),
        ("http://[::1]:8/", [("::1", 8, False)]),
    ],
)
def test_addresses(text: str, expected: list[tuple[str, int, bool]]) -> None:
    found = [(address.host, address.port, address.secure) for address in parse_list(text, default_port=8030)]
    assert found == expected


@together("text", ["", " , ", "fe:x", "fe:0", "fe:99999", "ftp://fe", "me:pw@fe:1", "fe/path", ":80"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_list(text, default_port=1)
    assert "pw" not in str(caught.value)

"""Results in pieces, with errors in their middle, with rows of more than one packet; no server is needed."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from result_bytes import END, LONGEST, Server, answers, column, error, packets, row, sized
from together import together

from cdc.errors import SourceError, SourceUnavailable
from connectors.mysql.rows import table_map as codes
from connectors.mysql.snapshot.read.result_stream import BUFFER_BYTES, DefinitionChanged, ResultStream
from connectors.mysql.snapshot.read.warm import warm_snapshot_kernels

_COLUMNS = [column("id", codes.LONG), column("note", codes.VAR_STRING)]


def _row(number: int, text: bytes) -> bytes:
    return row([struct.pack("<i", number), sized(text)])


@contextmanager
def _answering(data: bytes, *, hang_up: bool = False, seed: int = 1, most: int = 1 << 16) -> Iterator[Server]:
    server = Server(seed=seed, most=most)

    def send() -> None:
        with suppress(OSError):  # the reader may hang up first
            server.socket.sendall(data)
        if hang_up:
            server.socket.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def _payloads(server: Server) -> list[bytes]:
    stream, found = ResultStream(server.connection, "SELECT 1", "shop.orders"), []
    while (rows := stream.read()) is not None:
        found += [rows.buffer[rows.starts[n] : rows.ends[n]].tobytes() for n in range(rows.count)]
    return found


@pytest.mark.parametrize("most", [1, 7, 1000, 1 << 20])
def test_rows_come_whole_however_the_bytes_arrive(most: int) -> None:
    rng = random.Random(most)
    sizes = [rng.choice([0, 1, 63, 64, 65, 250, 251, 300]) for _ in range(12 if most == 1 else 400)]
    rows = [_row(number, rng.randbytes(size)) for number, size in enumerate(sizes)]
    with _answering(answers(_COLUMNS, [*rows, END]), most=most) as server:
        assert _payloads(server) == rows


def test_rows_bigger_than_the_buffer() -> None:
    rows = [_row(number, bytes(size)) for number, size in enumerate([5, 3 * BUFFER_BYTES, 7, BUFFER_BYTES, 0])]
    with _answering(answers(_COLUMNS, [*rows, END])) as server:
        assert _payloads(server) == rows


@pytest.mark.parametrize("size", [LONGEST - 1, LONGEST, 2 * LONGEST + 5])
@pytest.mark.slow
def test_rows_of_several_packets_are_joined(size: int) -> None:
    rng = random.Random(size)
    head = len(_row(1, b"")) - 1 + (9 if size > LONGEST + 9 else 4)
    long = _row(1, rng.randbytes(1 << 20) * 40)
    rows = [_row(0, b"before"), row([struct.pack("<i", 1), sized(long[20 : 20 + size - head])]), _row(2, b"after")]
    with _answering(answers(_COLUMNS, [*rows, END]), most=1 << 22) as server:
        found = _payloads(server)
    assert [len(payload) for payload in found] == [len(payload) for payload in rows]
    assert found == rows


def test_the_columns_are_those_that_the_server_names() -> None:
    with _answering(answers([column("a", codes.LONGLONG, flags=32), column("ä", codes.JSON)], [END])) as server:
        stream = ResultStream(server.connection, "SELECT 1", "t")
        assert [(found.name, found.type, found.unsigned) for found in stream.columns] == [
            ("a", codes.LONGLONG, True),
            ("ä", codes.JSON, False),
        ]
        assert stream.read() is None


@together(
    "code, kind, text",
    [
        (1317, SourceUnavailable, "the connection was lost"),
        (3024, SourceUnavailable, "the statement was ended"),
        (1969, SourceUnavailable, "the statement was ended"),
        (1053, SourceUnavailable, "the connection was lost"),
        (1205, SourceUnavailable, "a lock was not released"),
        (1412, DefinitionChanged, "trouble"),
        (1146, DefinitionChanged, "trouble"),
        (1366, SourceError, "error 1366"),
    ],
)
def test_an_error_inside_a_result(code: int, kind: type[Exception], text: str) -> None:
    rows = [_row(1, b"one"), _row(2, b"two"), error(code)]
    with _answering(answers(_COLUMNS, rows)) as server, pytest.raises(kind, match=text) as caught:
        _payloads(server)
    if kind is not DefinitionChanged:
        assert "shop.orders on cdc@server:3306" in str(caught.value)


def test_rows_before_an_error_are_given_out() -> None:
    with _answering(answers(_COLUMNS, [_row(1, b"one"), error(1317)])) as server:
        stream = ResultStream(server.connection, "SELECT 1", "t")
        rows = stream.read()
        assert rows is not None
        assert rows.count == 1
        with pytest.raises(SourceUnavailable):
            stream.read()


def test_a_statement_that_is_refused() -> None:
    with _answering(packets([error(1461, "Can't create more")], 1)) as server:
        with pytest.raises(SourceError, match="no prepared statement is left") as caught:
            ResultStream(server.connection, "SELECT 1", "t")
        assert "max_prepared_stmt_count" in caught.value.hint


def test_a_question_mark_is_no_statement_to_run() -> None:
    with (
        _answering(packets([b"\0\1\0\0\0" + b"\1\0" + b"\1\0" + bytes(3)], 1)) as server,
        pytest.raises(SourceError, match="1 parameters"),
    ):
        ResultStream(server.connection, "SELECT ?", "t")


@together("cut", [1, 3, 4, 9, 15])
def test_a_connection_that_ends_inside_a_row(cut: int) -> None:
    data = answers(_COLUMNS, [_row(1, b"one"), _row(2, b"two")])[:-cut]
    with (
        _answering(data, hang_up=True) as server,
        pytest.raises(SourceUnavailable, match="closed the connection inside"),
    ):
        _payloads(server)


def test_silence_is_not_waited_out_for_ever() -> None:
    with _answering(answers(_COLUMNS, [_row(1, b"one")])) as server:
        stream_timeout: float = 0.05
        server.connection._read_timeout = stream_timeout  # type: ignore[attr-defined]
        with pytest.raises(SourceUnavailable, match="no row in time"):
            _payloads(server)


@pytest.mark.parametrize(
    "bad",
    [
        packets([_row(2, b"two")], 99),
        packets([b"\1 an OK packet"], 7),
        packets([b"\xfe looks like the end and is too long"], 7),
        b"\0\0\0\7",
    ],
)
def test_bytes_that_are_no_result(bad: bytes) -> None:
    data = answers(_COLUMNS, [_row(1, b"one"), _row(1, b"one")])
    with _answering(data + bad) as server, pytest.raises(SourceError, match="not the result of a statement"):
        _payloads(server)


def test_parts_of_a_row_out_of_order() -> None:
    data = answers(_COLUMNS, [])
    parts = LONGEST.to_bytes(3, "little") + b"\5" + bytes(LONGEST) + b"\1\0\0\7" + b"\0"
    with _answering(data + parts) as server, pytest.raises(SourceError, match="not the result of a statement"):
        _payloads(server)


def test_the_kernels_can_be_loaded_beforehand() -> None:
    assert warm_snapshot_kernels() == 2

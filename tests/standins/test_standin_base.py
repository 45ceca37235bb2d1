"""The parts that both stand-ins are made of: HTTP, SQL, journal, faults, data, text of SQL."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pymysql
import pytest

from cdc_standins import StandIn, start
from cdc_standins.clock import Clock
from cdc_standins.data import DELETE, Data, Publication, StoredColumn
from cdc_standins.faults import Answer, Faults
from cdc_standins.http_server import ClientGone, Cut, HttpServer, Request, Response
from cdc_standins.journal import Journal
from cdc_standins.process import StandInError
from cdc_standins.sql_server import LONGLONG, VAR_STRING, Result, SqlError, SqlServer
from cdc_standins.sql_text import Parser, Unparsable, to_duckdb


@contextmanager
def serving(handler: Callable[[Request], Response]) -> Iterator[HttpServer]:
    server = HttpServer("test", handler)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def raw(server: HttpServer, text: bytes) -> bytes:
    """All that comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(text)
        found = b""
        while block := connection.recv(65536):
            found += block
        return found


def echo(request: Request) -> Response:
    return Response(200, request.body.read())


def test_a_client_that_expects_continue_gets_it_when_the_body_is_wanted() -> None:
    head = b"PUT /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    with serving(echo) as server:
        assert raw(server, head + b"ab").startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    with serving(lambda _: Response(307, headers={"Location": "/y"})) as server:
        answer = raw(server, head)
        assert answer.startswith(b"HTTP/1.1 307 ")
        assert b"Connection: close" in answer


def test_bodies_come_by_length_and_in_chunks_and_connections_go_on() -> None:
    with serving(echo) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("PUT", "/a", b"x" * 3_000_000)
        assert connection.getresponse().read() == b"x" * 3_000_000
        connection.request("PUT", "/a", iter([b"ab", b"c" * 70_000]), {}, encode_chunked=True)
        assert connection.getresponse().read() == b"ab" + b"c" * 70_000
        connection.request("GET", "/a")
        assert connection.getresponse().read() == b""
        connection.close()


def test_a_body_that_was_not_read_ends_the_connection() -> None:
    with serving(lambda _: Response(200, b"no")) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("PUT", "/", b"x" * 1_000_000)
        response = connection.getresponse()
        assert (response.read(), response.headers["Connection"]) == (b"no", "close")
        connection.close()


def test_cut_answers_nothing_and_half_bodies_are_noticed() -> None:
    gone = threading.Event()

    def cut(request: Request) -> Response:
        raise Cut

    def read(request: Request) -> Response:
        try:
            return echo(request)
        except ClientGone:
            gone.set()
            raise

    with serving(cut) as server:
        assert raw(server, b"GET / HTTP/1.1\r\n\r\n") == b""
    with serving(read) as server:
        with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
            connection.sendall(b"PUT / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")
        assert gone.wait(120)


def test_stopping_refuses_and_starting_again_serves_on_the_same_port() -> None:
    with serving(echo) as server:
        idle = socket.create_connection(("127.0.0.1", server.port), 30)
        idle.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
        server.stop()
        assert idle.recv(1) == b""
        idle.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), 30)
        server.start()
        assert raw(server, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_request_is_taken_apart() -> None:
    seen: list[Request] = []

    def keep(request: Request) -> Response:
        seen.append(request)
        return Response()

    with serving(keep) as server:
        head = b"GET /a%20b/c?x=1&y= HTTP/1.1\r\nAuthorization: Basic dTpwOnE=\r\nLabel:  \xc3\xa9 \r\n"
        raw(server, head + b"Connection: close\r\n\r\n")
        assert raw(server, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert (seen[0].parts, seen[0].query) == (["a b", "c"], {"x": "1", "y": ""})
    assert (seen[0].basic(), seen[0].headers["label"]) == (("u", "p:q"), "é")


class Accounts:
    """One user `u` with the password `p`; queries answer themselves."""

    def __init__(self) -> None:
        self.database = ""

    def password(self, user: str) -> str | None:
        return {"u": "p", "open": ""}.get(user)

    def session(self, user: str) -> Accounts:
        return self

    def use(self, database: str) -> None:
        if database == "none":
            raise SqlError("Unknown database 'none'", 1049, "42000")
        self.database = database

    def query(self, sql: str) -> Result | int:
        if sql.startswith("SELECT"):
            rows = [(b"1", "é".encode()), (None, b"x" * 70_000), (b"3", b"y" * (1 << 24))]
            return Result((("n", LONGLONG), ("t", VAR_STRING)), rows)
        if sql == "CUT":
            raise Cut
        if sql == "FAIL":
            raise SqlError("no", 1105)
        return 5


def test_mysql_clients_connect_with_the_right_password_only() -> None:
    server = SqlServer("test", Accounts())
    server.start()
    try:
        with pytest.raises(pymysql.OperationalError) as caught:
            pymysql.connect(host="127.0.0.1", port=server.port, user="u", password="wrong")
        assert caught.value.args[0] == 1045
        for user in ("no one", "open"):
            with pytest.raises(pymysql.OperationalError):
                pymysql.connect(host="127.0.0.1", port=server.port, user=user, password="p")
        pymysql.connect(host="127.0.0.1", port=server.port, user="open", password="").close()
        with pytest.raises(pymysql.OperationalError, match="none"):
            pymysql.connect(host="127.0.0.1", port=server.port, user="u", password="p", database="none")
    finally:
        server.stop()


def test_mysql_clients_get_rows_counts_and_errors() -> None:
    accounts = Accounts()
    server = SqlServer("test", accounts)
    server.start()
    try:
        client = pymysql.connect(host="127.0.0.1", port=server.port, user="u", password="p", database="d")
        assert accounts.database == "d"
        client.select_db("e")
        client.ping()
        assert accounts.database == "e"
        cursor = client.cursor()
        assert cursor.execute("SELECT") == 3
        assert [(row[0], len(row[1])) for row in cursor.fetchall()] == [(1, 1), (None, 70_000), (3, 1 << 24)]
        assert cursor.execute("UPDATE") == 5
        with pytest.raises(pymysql.MySQLError) as caught:
            cursor.execute("FAIL")
        assert caught.value.args == (1105, "no")
        with pytest.raises(pymysql.OperationalError):
            cursor.execute("CUT")
        client.close()
    finally:
        server.stop()


def test_the_journal_keeps_what_a_killed_process_wrote(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from cdc_standins.journal import Journal\n"
        "journal = Journal(pathlib.Path(sys.argv[1]))\n"
        "journal.put('a', 1, {'x': 'é'}); journal.put('a', 2, []); journal.remove('a', 2)\n"
        "with journal.together():\n"
        "    journal.put('b', 1, 1); journal.put('b', 2, 2)\n"
        "journal.next_number('n', 7)\n"
        "group = journal.together(); group.__enter__(); journal.put('b', 3, 3)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "j")], check=False)
    journal = Journal(tmp_path / "j")
    assert journal.all("a") == {"1": {"x": "é"}}
    assert journal.all("b") == {"1": 1, "2": 2}
    assert (journal.next_number("n"), journal.get("a", 5)) == (8, None)
    Clock(journal).advance(3600)
    assert Clock(journal).now_ms() - Clock(Journal(tmp_path / "other")).now_ms() == pytest.approx(3_600_000, abs=60_000)
    journal.close()


def test_a_group_of_writes_is_all_or_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")

    def fails() -> None:
        with journal.together():
            journal.put("a", 1, 1)
            with journal.together():
                journal.put("a", 2, 2)
            raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert journal.all("a") == {}
    journal.close()


def test_faults_are_met_as_often_as_armed_and_where_they_fit() -> None:
    faults = Faults({"here": "", "there": ""})
    faults.arm("here", 2, match={"label": "a"})
    faults.arm("there", action="status", code=500)
    faults.arm("here", action="refuse", message="no", after_bytes=10)
    faults.meet("here", label="b", bytes=5)
    for _ in range(2):
        with pytest.raises(Cut):
            faults.meet("here", label="a")
    faults.meet("here", label="a")
    refuse = faults.meet("here", bytes=10)
    assert refuse is not None
    assert refuse.args["message"] == "no"
    with pytest.raises(Answer) as caught:
        faults.meet("there")
    assert caught.value.response.status == 500
    assert (faults.armed(), faults.met) == ([], {"here": 3, "there": 1})
    with pytest.raises(ValueError, match="no point"):
        faults.arm("nowhere")
    with pytest.raises(ValueError, match="no action"):
        faults.arm("here", action="explode")


def test_what_is_held_is_let_go() -> None:
    faults = Faults({"here": ""})
    faults.arm("here", action="hold")
    passed = threading.Event()

    def come_by() -> None:
        faults.meet("here")
        passed.set()

    thread = threading.Thread(target=come_by)
    thread.start()
    while not faults.met:
        os.sched_yield()
    assert not passed.is_set()
    faults.release("here")
    assert passed.wait(120)
    thread.join()


def test_rows_are_published_once_and_in_order(tmp_path: Path) -> None:
    data = Data(tmp_path)
    data.create("t", [StoredColumn("k", "INTEGER"), StoredColumn("v", "VARCHAR"), StoredColumn("z", "INTEGER")])
    data.stage(1, pa.table({"k": [1, 2, None], "v": ["a", "b", "n"], DELETE: [0, 0, 0]}))
    data.stage(2, pa.table({"k": [1, None, 3], "v": ["A", None, "c"], DELETE: [0, 1, 0]}))
    publications = [Publication(1, "t", ("k",)), Publication(2, "t", ("k",))]
    data.publish(publications, {"t": {"z": "CAST('7' AS INTEGER)"}})
    data.publish(publications, {})
    assert data.query("SELECT * FROM t ORDER BY k", "main")[1] == [(1, "A", 7), (2, "b", 7), (3, "c", 7)]
    assert (data.staged_numbers(), data.tables_in('SELECT * FROM "d"."t" JOIN u ON true')) == ({1, 2}, {"d.t", "u"})
    data.close()


def test_queries_in_duckdb_s_spelling() -> None:
    sql = "SELECT `a\"b`, \"it's\", 'x\\'y' -- end\nFROM `d`.t WHERE a <=> NULL;"
    assert to_duckdb(sql) == "SELECT \"a\"\"b\", 'it''s', 'x''y' FROM \"d\".t WHERE a IS NOT DISTINCT FROM NULL"
    with pytest.raises(Unparsable):
        to_duckdb("SELECT 'open")


def test_the_cursor_over_tokens() -> None:
    parser = Parser("create table `a b`.c (x, y) properties ('k' = \"v\");")
    parser.need("CREATE", "TABLE")
    assert (parser.dotted(), parser.names()) == (("a b", "c"), ["x", "y"])
    assert parser.take("PROPERTIES")
    assert parser.properties() == {"k": "v"}
    parser.end()
    with pytest.raises(Unparsable, match="line 2: expected a quoted string, found 'x'"):
        Parser("\nx").string()


@pytest.mark.slow
def test_a_folder_has_one_stand_in_and_options_are_checked(doris_standin: object, tmp_path: Path) -> None:
    standin: StandIn = doris_standin.own  # type: ignore[attr-defined]
    with pytest.raises(StandInError, match="is in use by another stand-in"):
        start("doris", standin.folder)
    with pytest.raises(StandInError, match="no option 'colour'"):
        start("doris", tmp_path, colour="red")
    with pytest.raises(StandInError, match="no command 'dance'"):
        standin.command("dance")
    with pytest.raises(StandInError, match="no point 'x'"):
        standin.fault("x")

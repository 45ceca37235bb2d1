"""The fixtures themselves, on real servers."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from servers import missing, own_servers, shared_server

from cdc_services.installation import find
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql


def test_a_shared_server_logs_rows(any_server: MySqlServer) -> None:
    assert any_server.execute("SELECT @@binlog_format, @@log_bin") == (("ROW", 1),)
    assert any_server.version in any_server.execute("SELECT VERSION()")[0][0]


def test_each_new_database_is_another(any_server: MySqlServer) -> None:
    first, second = any_server.new_database(), any_server.new_database()
    assert first != second
    any_server.execute("CREATE TABLE a (i INT)", "INSERT INTO a VALUES (1), (2)", database=first)
    assert any_server.execute(f"SELECT i FROM `{first}`.a ORDER BY i") == ((1,), (2,))
    assert any_server.execute("SHOW TABLES", database=second) == ()


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_an_own_server_keeps_committed_rows_through_a_crash(server_factory, flavor: str) -> None:
    server = server_factory(flavor, extra_args=["--max-connections=77", "--innodb-flush-log-at-trx-commit=1"])
    assert server.execute("SELECT @@max_connections") == ((77,),)
    database, port = server.new_database(), server.port
    server.execute("CREATE TABLE a (i INT)", "INSERT INTO a VALUES (5)", database=database)
    server.kill9()
    server.start("--max-connections=78")
    assert server.port == port
    assert server.execute(f"SELECT i, @@max_connections FROM `{database}`.a") == ((5, 78),)
    server.restart()
    assert server.execute("SELECT @@max_connections") == ((77,),)


def test_a_server_dies_with_the_process_that_started_it() -> None:
    if find("mariadb") is None:
        missing("mariadb")
    program = """
        import os
        from cdc_services.installation import find
        from cdc_services.server import StartedServer
        server = StartedServer(find("mariadb"))
        print(server.pid, flush=True)
        input()
        os._exit(9)  # no clean-up, as in a killed test run
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        server = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.stdin.write("\n")
            parent.stdin.flush()
            ended, _, _ = select.select([server], [], [], 60)
        finally:
            os.close(server)
        assert ended == [server]
        assert parent.wait() == 9


def test_an_option_the_server_refuses_is_shown_with_its_own_words(server_factory) -> None:
    with pytest.raises(RuntimeError, match="no-such-option"):
        server_factory("mariadb", extra_args=["--no-such-option"])


def test_an_address_in_the_environment_wins(
    any_server: MySqlServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flavor = any_server.flavor
    url = f"mysql://{any_server.user}:{any_server.password}@{any_server.host}:{any_server.port}"
    monkeypatch.setenv(f"CDC_TEST_{flavor.upper()}_URL", url)
    monkeypatch.setenv("CDC_SERVICES_DIR", str(tmp_path))
    with shared_server(flavor) as server:
        assert (server.port, server.version) == (any_server.port, any_server.version)
        assert server.execute("SELECT 1") == ((1,),)


def test_an_address_of_the_other_kind_of_server_fails(
    mariadb_server: MySqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"mysql://{mariadb_server.user}:{mariadb_server.password}@{mariadb_server.host}:{mariadb_server.port}"
    monkeypatch.setenv("CDC_TEST_MYSQL_URL", url)
    with pytest.raises(pytest.fail.Exception, match="not mysql"), shared_server("mysql"):
        raise AssertionError("a MariaDB server was taken for MySQL")


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("x, mysql", pytest.fail.Exception)])
def test_a_missing_server_is_skipped_or_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.delenv("CDC_TEST_MYSQL_URL", raising=False)
    monkeypatch.setenv("CDC_SERVICES_DIR", str(tmp_path))
    monkeypatch.setenv("CDC_REQUIRE_SERVICES", required)
    with pytest.raises(outcome, match=r"CDC_TEST_MYSQL_URL.*Docker.*make services"), own_servers() as make:
        make("mysql")

"""`cdc dev mysql`: the quickstart's commands, as they are written there, against the server that it brings up.

`test_docs_commands.py` has the same commands against another server.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from cdc_process import wait_for

from cdc_services.installation import find

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8").partition("## 2.")[2].partition("## 3.")[0]
CDC = f"{sys.executable} -m cdc"


def documented(pattern: str) -> str:
    """The one indented line of the quickstart that matches, with the commands of this environment."""
    (line,) = re.findall(rf"^ {{4}}({pattern}.*?)(?: +#.*)?$", SECTION, re.MULTILINE)
    return re.sub(r"^\.venv/bin/python", sys.executable, re.sub(r"^\.venv/bin/cdc", CDC, str(line)))


@contextmanager
def dev(flavor: str, *arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    command = [*CDC.split(), "dev", flavor, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def greeting(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            return "".join(lines)
    raise AssertionError("".join(lines) + process.communicate()[1])


def ordered(database: Path) -> int:
    """How many orders the mirror holds; 0 while it cannot be read."""
    try:
        with duckdb.connect(str(database), read_only=True) as connection:
            return int(connection.execute("SELECT max(id) FROM shop.orders").fetchall()[0][0] or 0)
    except (duckdb.IOException, duckdb.CatalogException):
        return 0


@pytest.mark.exhaustive
@pytest.mark.mysql
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(find("mysql") is None, reason="no MySQL on this machine: run `make services`")
def test_the_quickstart_with_a_live_server(tmp_path: Path) -> None:
    assert documented(r"\.venv/bin/cdc dev mysql") == f"{CDC} dev mysql"
    with dev("mysql", "--port", "0", "--writes", "20") as server:
        said = greeting(server)
        port = re.search(r"port: (\d+)", said)
        assert port is not None
        (yaml,) = re.findall(r"^```yaml\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
        assert yaml.replace("3306", port[1]) in said
        (tmp_path / "shop.yaml").write_text(yaml.replace("3306", port[1]))
        name, _, password = documented("export ").removeprefix("export ").partition("=")
        env = {**os.environ, name: password}
        for command in ("validate", "plan"):
            line = documented(rf"\.venv/bin/cdc {command} shop\.yaml")
            done = subprocess.run(line.split(), cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        assert "shop.order_items -> shop.order_items" in done.stdout
        line = documented(r"\.venv/bin/cdc run shop\.yaml")
        with (tmp_path / "log").open("w") as log:
            run = subprocess.Popen(line.split(), cwd=tmp_path, env=env, stdout=log, stderr=log)
        try:
            wait_for("orders that were written after the copy", lambda: ordered(tmp_path / "mirror.duckdb") > 1_050)
            run.send_signal(signal.SIGINT)
            assert run.wait(120) == 0, (tmp_path / "log").read_text()[-4000:]
        finally:
            run.kill()
            run.wait()
        done = subprocess.run(
            ["sh", "-c", documented(r"\.venv/bin/python -c")], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "customer_id" in done.stdout) == (0, True), done.stderr
        server.send_signal(signal.SIGINT)
        rest, errors = server.communicate(timeout=300)
        assert (server.returncode, errors) == (0, "")
        assert "transactions were written; the server and its data are gone" in rest
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(port[1]))) != 0


@pytest.mark.mysql
@pytest.mark.slow
@pytest.mark.skipif(find("mariadb") is None, reason="no MariaDB on this machine: run `make services`")
def test_a_port_in_use_is_said_and_a_mariadb_ends_on_sigterm() -> None:
    with dev("mariadb", "--port", "0", "--writes", "0") as server:
        said = greeting(server)
        assert "nobody writes to it" in said
        port = said.partition("port: ")[2].split()[0]
        with dev("mariadb", "--port", port) as second:
            _, errors = second.communicate(timeout=300)
        assert (second.returncode, errors) == (
            3, f"cdc: port {port} is in use (choose another --port; 0 takes a free one)\n"
        )  # fmt: skip
        server.send_signal(signal.SIGTERM)
        rest, _ = server.communicate(timeout=300)
        assert (server.returncode, "0 transactions were written" in rest) == (0, True)


def test_a_machine_without_packages_is_told_what_else_there_is(tmp_path: Path) -> None:
    with dev("mysql", CDC_SERVICES_DIR=str(tmp_path), CDC_DEBIAN_MIRROR="http://127.0.0.1:1") as process:
        said, errors = process.communicate(timeout=300)
    assert process.returncode == 3
    assert said.startswith("MySQL is not here yet: Debian's packages are unpacked into")
    assert errors.startswith("cdc: MySQL cannot be installed on this machine: ")
    assert errors.endswith("(take a server of your own, or Docker: docker compose up -d --wait mysql)\n")

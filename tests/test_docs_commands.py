"""The commands of the pages that people follow first work as they are written, or are listed here with the reason."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_services.server import MySqlServer

ROOT = Path(__file__).resolve().parent.parent
FOLLOWED = ("README.md", "docs/quickstart.md", "docs/cli.md", "docs/snapshot.md")
COMMAND = re.compile(r"^ {4}((?:[\w./-]*bin/)?(?:cdc|python|make|git|docker|export|pip)\b.*)$", re.MULTILINE)

NOT_RUN = {
    "cd ": "goes where the commands are run",
    "git clone": "copies this repository from where the reader has it",
    "make demo": "makes an environment of its own; tests/test_demo.py runs its pipeline",
    "make ": "tests/test_docs.py checks that the target exists",
    "docker compose up": "needs Docker; the server that the test brings takes its place",
    "export ": "is the environment of the commands after it",
    "cdc dev": "serves until it is ended; tests/standins and tests/services start them",
    "cdc plan FILE": "a synopsis",
    "cdc run FILE": "a synopsis",
    "cdc serve DIR": "a synopsis",
    "cdc list": "asks a server that runs; tests/serve starts one",
    "cdc start NAME": "a synopsis",
    "cdc stop NAME": "a synopsis",
    "cdc savepoint NAME": "a synopsis",
    "cdc logs NAME": "a synopsis",
    "cdc test FILE": "a synopsis",
    "cdc resync NAME": "a synopsis",
    "cdc pause NAME": "a synopsis",
    "cdc resume NAME": "a synopsis",
    "cdc status NAME": "a synopsis",
    "cdc verify FILE": "a synopsis",
    "cdc compact FILE": "a synopsis",
    "cdc doctor FILE": "a synopsis",
    "cdc import FILE": "a synopsis",
    "cdc init URL": "a synopsis",
    "cdc init mysql://": "asks a server that only the reader has; tests/verify/test_init.py runs it",
    "cdc validate FILE": "a synopsis",
}


def commands(page: str) -> Iterator[str]:
    """The commands in the indented blocks of a page, without comments and the path of the environment."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for line in COMMAND.findall(text):
        for part in line.partition("   ")[0].split(" && "):
            yield part.strip().removeprefix(".venv/bin/")


def reason(command: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


def executable(command: str) -> list[str]:
    """The command with this environment's Python."""
    name, *arguments = shlex.split(command)
    return [sys.executable, *(["-m", "cdc"] if name == "cdc" else []), *arguments]


def test_pages_have_commands_and_every_reason_is_needed() -> None:
    found = [command for page in FOLLOWED for command in commands(page)]
    assert {"cdc validate shop.yaml", "cdc plan shop.yaml", "cdc run shop.yaml", "cdc schema"} <= set(found)
    for start in NOT_RUN:
        assert any(command.startswith(start) for command in found), f"no page has {start}"


@pytest.mark.slow
def test_commands_of_the_pages_without_a_server() -> None:
    for page in ("README.md", "docs/cli.md", "docs/snapshot.md"):
        for command in commands(page):
            if reason(command) is None:
                done = run(executable(command.replace("cdc run pipelines/", "cdc validate pipelines/")), ROOT)
                assert done.returncode == 0, f"{page}: {command}: {done.stderr}"


def run(command: list[str], folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    secrets = {f"{system}_PASSWORD": "pw" for system in ("MYSQL", "DORIS", "STARROCKS")}
    env = {**os.environ, "PYTHONPATH": str(ROOT), **secrets, **changes}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=500, check=False)


@pytest.mark.slow
@pytest.mark.mysql
@pytest.mark.timeout(1200)
def test_the_quickstart_from_its_first_command_to_its_last(mysql_server: MySqlServer, tmp_path: Path) -> None:
    page = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
    database = mysql_server.new_database("quick")
    mysql_server.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))", "INSERT INTO orders VALUES (1, 'a')",
        database=database,
    )  # fmt: skip
    shown = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0]
    changed = (
        shown.replace("3306", str(mysql_server.port))
        .replace("root", mysql_server.user)
        .replace("shop.", f"{database}.")
    )
    (tmp_path / "shop.yaml").write_text(changed, encoding="utf-8")
    ran = []
    for command in commands("docs/quickstart.md"):
        if reason(command) is not None:
            continue
        full = [part.replace("shop.", f"{database}.") if "duckdb" in part else part for part in executable(command)]
        if command.startswith("cdc run"):
            full.append("--until-caught-up")  # the page ends it with Ctrl-C
        done = run(full, tmp_path, MYSQL_PASSWORD=mysql_server.password)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        ran.append(done.stdout)
    assert "ok" in ran[0]
    assert f"{database}.orders" in ran[1]
    assert "1 change" in ran[2]
    assert "note" in ran[-1]

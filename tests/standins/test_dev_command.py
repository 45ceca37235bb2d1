"""`cdc dev doris`: starts, says how to connect, ends on Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    ports = ["--port", "0", "--be-port", "0", "--sql-port", "0"]
    command = [sys.executable, "-m", "cdc", "dev", "doris", "--dir", str(folder), *ports, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    text = ""
    while "Ctrl-C stops it." not in text:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        text += line
    return text


@pytest.mark.slow
def test_a_stand_in_by_hand(tmp_path: Path) -> None:
    with start(tmp_path / "dev", "--count-only") as process:
        text = said(process)
        port = int(re.search(r"mysql -h 127\.0\.0\.1 -P (\d+) -u root", text)[1])  # type: ignore[index]
        client = pymysql.connect(host="127.0.0.1", port=port, user="root", password="", autocommit=True)
        with client, client.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
        assert re.search(r"fenodes: 127\.0\.0\.1:\d+", text)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert "counted: 0 rows, 0 bytes, 0 loads" in rest
    with start(tmp_path / "dev") as process:
        said(process)
        again = subprocess.run(
            [sys.executable, "-m", "cdc", "dev", "doris", "--dir", str(tmp_path / "dev")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (again.returncode, "is in use by another stand-in" in again.stderr) == (4, True)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert process.returncode == 0

"""`cdc dev oceanbase`: says how to connect, takes what its sink says, and ends on Ctrl-C with exit code 0."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pymysql
import pytest

pytestmark = pytest.mark.slow


def test_the_engine_answers_where_the_greeting_says_until_ctrl_c() -> None:
    command = [sys.executable, "-m", "cdc", "dev", "oceanbase", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = "".join(iter(process.stdout.readline, "Ctrl-C stops the server and removes its data.\n"))
            url = re.search(r"url: jdbc:mysql://([\d.]+):(\d+)$", said, re.MULTILINE)
            assert url is not None, said
            connection = pymysql.connect(host=url[1], port=int(url[2]), user="root", password="")
            with connection, connection.cursor() as cursor:
                cursor.execute("SELECT VERSION()")
                assert "OceanBase" in str(cursor.fetchone())
            process.send_signal(signal.SIGINT)
            assert "gone" in process.communicate()[0]
        finally:
            process.kill()
    assert process.returncode == 0

"""`cdc init` against real servers: the file it writes is one that a pipeline runs with, and holds no secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from command_runner import CliRunner
from together import together

from cdc.cli import app
from cdc.draft import Draft, Key
from cdc.finding import error
from cdc.init.run import parse_url, pipeline_text, scalar
from cdc.registry import options
from cdc.spec.check import check_file
from cdc_services.server import MySqlServer


def written(*arguments: str, **environment: str) -> Any:
    return CliRunner().invoke(app, ["init", *arguments], env={"DB_PASSWORD": "", **environment})


@pytest.mark.mysql
def test_the_file_validates_names_tables_and_settings_and_holds_no_secret(
    any_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = any_server.new_database("init")
    any_server.execute(
        "CREATE TABLE big (id INT PRIMARY KEY, t TEXT)", "CREATE TABLE `odd sink: #1` (x INT)", database=database
    )
    any_server.execute(
        "CREATE USER IF NOT EXISTS 'starter'@'localhost' IDENTIFIED BY 'open-sesame'",
        "GRANT SELECT, REPLICATION CLIENT ON *.* TO 'starter'@'localhost'",
    )
    url = f"mysql://starter@127.0.0.1:{any_server.port}/{database}"
    file = tmp_path / "shop.yaml"
    done = written(url, "--sink", "duckdb", "-o", str(file), DB_PASSWORD="open-sesame")
    assert done.exit_code == 0, done.output
    text = file.read_text()
    assert "open-sesame" not in text
    assert f"{database}.big" in text
    assert "no primary key" in text
    assert "GRANT" in text
    assert "To be done before the first run" in text
    monkeypatch.setenv("DB_PASSWORD", "open-sesame")
    spec = check_file(str(file)).spec
    assert (spec.name, spec.source.type, spec.sink.type) == ("shop", "mysql", "duckdb")
    assert spec.source.password.get_secret_value() == "open-sesame"  # type: ignore[attr-defined]
    pattern = spec.source.pattern  # type: ignore[attr-defined]
    assert [table for table in (f"{database}.big", "elsewhere.big") if pattern.matches(_id(table))] == [
        f"{database}.big"
    ]
    again = written(url, "--sink", "duckdb", "-o", str(file), DB_PASSWORD="open-sesame")
    assert again.exit_code == 2
    assert file.read_text() == text


def _id(text: str) -> Any:
    from cdc.schema import TableId

    return TableId.parse(text)


@pytest.mark.parametrize("sink", ["duckdb", "doris", "starrocks", "kafka", "values"])
def test_every_sink_gets_a_block_that_validates(sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (
        Key("hostname", "db.example"), Key("port", "3306"), Key("username", "yes: #it is"),
        Key("password", "${DB_PASSWORD}"), Key("tables", "shop.\\.*", ("shop.orders\n  evil: key",)),
    )  # fmt: skip
    findings = (error("privileges", "not\nallowed", "GRANT x"),)
    draft = Draft("MySQL 9 at\nsink: nowhere", keys, findings, ("shop",))
    text = pipeline_text("on", "mysql", draft, sink, options("sink", sink))
    (tmp_path / "p.yaml").write_text(text)
    for name in ("DB_PASSWORD", "DORIS_PASSWORD", "STARROCKS_PASSWORD"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("KAFKA_PROPERTIES_BOOTSTRAP_SERVERS", "broker:9092")
    spec = check_file(str(tmp_path / "p.yaml")).spec
    assert (spec.name, spec.sink.type) == ("on", sink)
    assert spec.source.username == "yes: #it is"  # type: ignore[attr-defined]


ODD = (
    "yes", "a: b", "# c", "- d", "*x", "1.5", "", " a", "x\ny", "{a}", "[b", "a #b", "'", '"', "null", "0x1f", "~",
    "a\x85b", "a\u2028b", "a\x7fb", "\ufeffa", "\xa0 \U0001f600", "\u202ea",
)  # fmt: skip


@together("text", ODD)
def test_a_scalar_is_read_as_the_text_it_was(text: str) -> None:
    assert yaml.safe_load(f"key: {scalar(text)}")["key"] == text


def test_names_on_a_server_take_nothing_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "secret")
    keys = (Key("hostname", "db"), Key("username", "u"), Key("password", "${DB_PASSWORD}"), Key("tables", "a.b"))
    draft = Draft("MySQL 9", keys, (), ("x${DB_PASSWORD}",))
    text = pipeline_text(draft.databases[0], "mysql", draft, "duckdb", options("sink", "duckdb"))
    (tmp_path / "p.yaml").write_text(text)
    spec = check_file(str(tmp_path / "p.yaml")).spec
    assert spec.name == "x${DB_PASSWORD}"
    assert "x${DB_PASSWORD}" in str(spec.sink.path)  # type: ignore[attr-defined]


@together(
    "url, told",
    [
        ("shop", "names no host"),
        ("mysql://h:port/x", "the port is not a number"),
        ("mysql://h/x?tls=1", "text after ?"),
        ("postgres://h/x", "no source has URLs that begin with postgres://"),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, told: str) -> None:
    done = written(url, "--sink", "duckdb", DB_PASSWORD="x")
    assert done.exit_code != 0
    assert told in f"{done.output}{done.exception}"


def test_a_url_is_taken_apart() -> None:
    server = parse_url("mysql://us%40er:p%2Fw@db.example:3307/shop")
    assert (server.username, server.password, server.hostname, server.port, server.database) == (
        "us@er", "p/w", "db.example", 3307, "shop",
    )  # fmt: skip
    assert "p/w" not in f"{server} {server!r}"


@pytest.mark.parametrize("place", ["missing/shop.yaml", "file/shop.yaml"])
def test_a_file_that_cannot_be_written_is_a_mistake_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr("cdc.init.run.init_text", lambda *_: "source: {}\n")
    (tmp_path / "file").touch()
    done = written("mysql://u@h/shop", "--sink", "duckdb", "-o", str(tmp_path / place), DB_PASSWORD="word")
    assert done.exit_code == 2
    assert "cannot be" in done.output
    assert "written" in done.output


def test_every_variable_of_the_file_is_named_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "source:\n  password: ${DB_PASSWORD}\n  # or ${NAME}\nsink:\n  path: $${no}\n  hosts: ${SINK_HOSTS}\n"
    monkeypatch.setattr("cdc.init.run.init_text", lambda *_: text)
    done = written("mysql://u@h/shop", "--sink", "duckdb", "-o", str(tmp_path / "p.yaml"), DB_PASSWORD="word")
    assert "export DB_PASSWORD, SINK_HOSTS, then run `cdc plan" in done.output.replace("\n", " ")


def test_what_is_written_to_a_terminal_is_a_pipeline_file_whatever_its_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc.init.run.init_text", lambda *_: "source: caf\u00e9\n")
    done = CliRunner(charset="ascii").invoke(
        app, ["init", "mysql://u@h/shop", "--sink", "duckdb"], env={"DB_PASSWORD": "word"}
    )
    assert done.stdout_bytes == "source: caf\u00e9\n".encode()

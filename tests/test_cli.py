"""The command as a user runs it: its output and its exit code, in a process of its own unless no more than the command
line is looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from command_runner import CliRunner
from together import together

from cdc import __version__, api
from cdc.cli import app, entry
from cdc.errors import NotNow, SinkError, SpecError
from cdc.planning.plan import Plan
from cdc.spec.model import PipelineSpec

ROOT = Path(__file__).resolve().parents[1]
FIVE = ROOT / "tests" / "golden" / "spec" / "five_mistakes.yaml"
DEMO = ROOT / "pipelines" / "demo.yaml"

Here = Callable[..., subprocess.CompletedProcess[str]]


def cdc(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("CDC_", "MYSQL_"))}
    return subprocess.run(
        [sys.executable, "-m", "cdc", *map(str, arguments)],
        capture_output=True, text=True, env={**clean, **env}, timeout=500, check=False,
    )  # fmt: skip


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """As `cdc`, from the entry point to the exit code, but in this process."""

    def run(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        for name in os.environ:
            if name.startswith(("CDC_", "MYSQL_")):
                monkeypatch.delenv(name)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["cdc", *map(str, arguments)])
        monkeypatch.setattr(entry, "exit_on_signal", lambda arguments: None)
        monkeypatch.setattr(entry, "_leave", sys.exit)
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            entry.main()
        assert isinstance(left.value.code, int)
        return subprocess.CompletedProcess(arguments, left.value.code, *capfd.readouterr())

    return run


def line(*arguments: str) -> Result:
    """A command line that does not get beyond its own reading, in this process."""
    return CliRunner().invoke(app, arguments)


def test_version() -> None:
    done = cdc("--version")
    assert (done.returncode, done.stdout) == (0, f"cdc {__version__}\n")


_SIGNALLED = """
import os, signal, sys
class Signal:
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Signal())
from cdc.__main__ import main; main()
"""


@together("command, number, code", [("serve", 15, 0), ("serve", 2, 0), ("verify", 2, 130)])
def test_a_signal_while_modules_are_imported_leaves_no_trace(command: str, number: int, code: int) -> None:
    program = _SIGNALLED.format(number=number)
    done = subprocess.run([sys.executable, "-c", program, command, "."], capture_output=True, text=True, check=False)
    said = "cdc: stopped before anything was read\n" if command == "serve" else ""
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


@together("command", [[], ["validate"], ["plan"], ["run"], ["schema"]])
def test_help_names_the_exit_codes(command: list[str]) -> None:
    done = line(*command, "--help")
    assert done.exit_code == 0
    codes = (
        "Exit codes: 0 done; 1 a test of `cdc test` failed, or `cdc verify` has not found all tables equal; "
        "2 the pipeline file or the command line is wrong; 3 the"
    )
    assert codes in " ".join(done.stdout.split())


def test_help_has_a_short_flag_too() -> None:
    assert line("run", "-h").stdout == line("run", "--help").stdout != ""


def test_a_shell_completes_commands_and_flags() -> None:
    program = "import sys; sys.argv[0] = 'cdc'; from cdc.cli import main; main()"
    asked = {"_CDC_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    for words, expected in (("cdc va", "validate"), ("cdc run --until", "--until-caught-up")):
        env = {**os.environ, **asked, "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
        assert (done.returncode, done.stdout.split()) == (0, [expected]), done.stderr


def test_five_mistakes_are_printed_and_the_exit_code_is_2(here: Here) -> None:
    done = here("validate", FIVE, MYSQL_PASSWORD="hunter2")
    assert done.returncode == 2
    expected = FIVE.with_suffix(".txt").read_text().replace(FIVE.name, str(FIVE))
    assert done.stderr == expected
    assert done.stdout == ""


def test_all_files_are_checked_although_one_is_wrong(here: Here) -> None:
    done = here("validate", FIVE, DEMO, "none.yaml", MYSQL_PASSWORD="x")
    assert done.returncode == 2
    assert done.stdout == f"{DEMO}: ok\n"
    assert "none.yaml:1:1: cannot be read: no such file or directory (check the path)" in done.stderr


def test_a_sound_file_is_ok_and_warnings_go_to_stderr(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("source:\n  type: values\n  rows: []\nsink:\n  type: values\npipeline:\n  operator.uid.prefix: x\n")
    done = here("validate", file)
    assert (done.returncode, done.stdout) == (0, f"{file}: ok\n")
    assert done.stderr.startswith(f"{file}:7:3: warning: pipeline.operator.uid.prefix: Flink-only option")


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_wrong_file_is_not_run(here: Here, command: str) -> None:
    done = here(command, FIVE, MYSQL_PASSWORD="hunter2")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 5
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


@together(
    "arguments",
    [["validate"], ["explode"], ["run", "--speed", "9", "x.yaml"], ["run", str(DEMO), "--log-format", "xml"],
     ["schema", "--connector", "orcale"], ["dev", "doris", "--sql-port", "65536"],
     ["plan", str(DEMO), "--state-dir", ""], ["plan", str(DEMO), "--state-dir="], ["list", "--state-root", " "]],
)  # fmt: skip
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    done = line(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_folder_has_no_tests() -> None:
    assert isinstance(line("test", "/").exception, SpecError)


def test_the_schema_is_one_json_document() -> None:
    done = line("schema")
    assert done.exit_code == 0
    assert set(json.loads(done.stdout)["properties"]) == {"source", "sink", "route", "transform", "pipeline"}


def test_the_schema_of_one_connector() -> None:
    done = line("schema", "--connector", "source/mysql")
    assert json.loads(done.stdout) == json.loads((ROOT / "schemas" / "sources" / "mysql.json").read_text())


REFUSING = """source:
  type: mysql
  hostname: 127.0.0.1
  port: 1
  username: app
  password: hunter2
  tables: a.b
  scan.startup.mode: latest-offset
  connect.max-retries: 0
sink:
  type: duckdb
  path: out.duckdb
pipeline:
  schema.change.behavior: evolve
"""


def test_a_source_that_cannot_be_reached_ends_with_3(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(REFUSING)
    done = here("plan", file)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.slow
def test_debug_shows_where_an_error_came_from() -> None:
    done = cdc("plan", FIVE, CDC_DEBUG="1", MYSQL_PASSWORD="x")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_what_is_wrong_comes_as_json_lines_when_that_is_the_format_of_the_log(here: Here) -> None:
    done = here("run", FIVE, "--log-format", "json", MYSQL_PASSWORD="hunter2")
    assert (done.returncode, done.stdout) == (2, "")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    expected = FIVE.with_suffix(".txt").read_text().replace(FIVE.name, str(FIVE))
    assert [line["message"] for line in lines] == expected.splitlines()
    assert {line["level"] for line in lines} == {"error"}


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        ("> /dev/full", 5, "cdc: cannot write the output: No space left on device (check where it is redirected to)\n"),
    ],
)
@pytest.mark.slow
def test_output_that_nobody_can_read_is_no_internal_error(redirected: str, code: int, said: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m cdc validate "$1" {redirected}', sys.executable, DEMO],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.lstrip("\n")) == (code, "", said)


@pytest.mark.parametrize("arguments", [("schema",), ("--version",), ("validate", DEMO)])
def test_output_that_its_reader_has_closed_ends_a_command_as_the_signal_for_it_would(
    arguments: tuple[str | Path, ...],
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cdc", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_exit_code_tells_of_mistakes_that_cannot_be_printed() -> None:
    done = subprocess.run(["sh", "-c", '"$0" -m cdc validate "$1" 2>&-', sys.executable, FIVE], check=False)
    assert done.returncode == 2


@pytest.mark.slow
def test_names_that_a_terminal_has_no_letters_for_are_printed_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "caf\u00e9.yaml"
    file.write_text("source:\n  type: values\n  rows: []\nsink:\n  type: values\n")
    for more, shown in (((), b"caf\\xe9.yaml: ok"), (("--json",), b"caf\\u00e9.yaml")):
        done = subprocess.run(
            [sys.executable, "-m", "cdc", "validate", file, *more], capture_output=True, check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )  # fmt: skip
        assert (done.returncode, shown in done.stdout) == (0, True), done


@pytest.mark.slow
def test_a_working_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    command = 'mkdir gone && cd gone && rmdir ../gone && PYTHONPATH="$2" "$0" -m cdc plan "../$1"'
    (tmp_path / "demo.yaml").write_text(DEMO.read_text())
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, "demo.yaml", str(ROOT)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == "cdc: the working folder no longer exists (change to an existing one)\n"


LAKES = """source: {type: values, rows: []}
sink:
  - {name: lake, type: values, path: a.jsonl}
  - {name: duck, type: duckdb, path: a.duckdb}
"""


def test_files_are_compacted_in_each_sink_or_in_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.yaml").write_text(LAKES)
    done: list[str] = []

    def compacted(spec: PipelineSpec, *given: object, named: bool) -> int:
        done.append(spec.label)
        return 2 if spec.sink_name == "lake" else 0

    monkeypatch.setattr("cdc.cli.runs._compact", compacted)
    assert line("compact", str(tmp_path / "p.yaml")).exit_code == 0
    assert done == ["p/lake", "p/duck"]
    found = line("compact", str(tmp_path / "p.yaml"), "--sink", "duck")
    assert isinstance(found.exception, SinkError)
    assert "there is nothing to compact" in str(found.exception)
    assert done[2:] == ["p/duck"]


def test_each_sink_of_a_list_is_compared_whatever_becomes_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(LAKES)
    found = line("verify", str(tmp_path / "p.yaml"), "--json")
    assert found.exit_code == 5
    documents = json.loads(found.stdout)
    assert [(each["sink"], each["error"]["error"]) for each in documents] == [
        ("lake", "NotNow"),
        ("duck", "NotNow"),
    ]
    assert isinstance(line("verify", str(tmp_path / "p.yaml"), "--sink", "duck").exception, NotNow)


def test_each_sink_of_a_list_has_its_plan_whatever_becomes_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.yaml").write_text(LAKES)
    plan = api.plan

    def planned(pipeline: api.Pipeline, *, state_dir: Path | None) -> Plan:
        if pipeline.spec.sink_name == "lake":
            raise SinkError("is away", where="sink values")
        return plan(pipeline, state_dir=state_dir)

    monkeypatch.setattr("cdc.plan", planned)
    found = line("plan", str(tmp_path / "p.yaml"))
    assert found.exit_code == 4
    assert "is away" in found.output
    assert "pipeline p/duck" in found.stdout

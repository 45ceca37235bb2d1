from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from together import together

from cdc import registry
from cdc.errors import SpecError
from cdc.evolution.behavior import Behavior, Policy
from cdc.options import Field, SecretStr, SinkOptions
from cdc.schema import TableId
from cdc.spec.check import check, check_file
from cdc.spec.compiled import compile_spec
from cdc.spec.model import Checked
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.mysql.options import BinlogFilesSourceOptions, MySqlSourceOptions

SOURCE = """source:
  type: mysql
  hostname: 127.0.0.1
  username: app
  password: secret-word
  tables: shop.orders
  scan.startup.mode: earliest-offset
"""
SINK = "sink:\n  type: duckdb\n  path: shop.duckdb\n"
PIPELINE = "pipeline:\n  schema.change.behavior: evolve\n"


def checked(text: str, file: str = "p.yaml", **env: str) -> Checked:
    return check(file, text.encode(), env=env)


def said(text: str, **env: str) -> str:
    with pytest.raises(SpecError) as caught:
        checked(text, **env)
    return str(caught.value)


def source(*lines: str) -> MySqlSourceOptions:
    text = SOURCE + "".join(f"  {line}\n" for line in lines) + SINK + PIPELINE
    options = checked(text).spec.source
    assert isinstance(options, MySqlSourceOptions)
    return options


def warned(text: str) -> list[str]:
    return [str(warning) for warning in checked(text).warnings]


def test_a_sound_file_becomes_typed_values() -> None:
    found = checked(SOURCE + SINK + PIPELINE)
    spec, warnings = found.spec, found.warnings
    assert warnings == ()
    assert isinstance(spec.source, MySqlSourceOptions)
    assert isinstance(spec.sink, DuckDbSinkOptions)
    assert (spec.source.hostname, spec.source.port, spec.source.tables) == ("127.0.0.1", 3306, "shop.orders")
    assert spec.source.password.get_secret_value() == "secret-word"
    assert spec.name == "p"


def test_numbers_and_quoted_numbers_mean_the_same() -> None:
    assert source("port: 3307").port == source('port: "3307"').port == 3307


def test_text_options_keep_the_text_as_written() -> None:
    text = SOURCE.replace("secret-word", "0123").replace("username: app", "username: 1e3") + SINK + PIPELINE
    options = checked(text).spec.source
    assert isinstance(options, MySqlSourceOptions)
    assert options.password.get_secret_value() == "0123"
    assert options.username == "1e3"


def test_words_are_read_in_any_case() -> None:
    options = source("invalid-dates: FAIL", "tls.mode: Verify-CA", "schema-change.enabled: TRUE")
    assert (options.invalid_dates, options.tls, options.schema_change_enabled) == ("fail", "verify-ca", True)
    assert checked(SOURCE + SINK + "pipeline:\n  schema.change.behavior: EVOLVE\n").warnings == ()


def test_null_without_quotes_is_the_word_null_where_it_is_a_choice() -> None:
    assert source("invalid-dates: null").invalid_dates == "null"


def test_durations_and_sizes_become_seconds_and_bytes() -> None:
    options = source("connect.timeout: 500ms", "heartbeat.interval: 1 min", "max-batch-bytes: 8 MiB")
    assert (options.connect_timeout_s, options.heartbeat_interval_s, options.max_batch_bytes) == (0.5, 60.0, 8 << 20)


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    text = "source:\n  type: binlog-files\n  path: [logs/a.*, /var/b.1]\n  tables: a.b\n" + SINK + PIPELINE
    spec = checked(text, str(tmp_path / "p.yaml")).spec
    assert isinstance(spec.source, BinlogFilesSourceOptions)
    assert spec.source.paths == (str(tmp_path / "logs/a.*"), "/var/b.1")
    assert isinstance(spec.sink, DuckDbSinkOptions)
    assert spec.sink.path == str(tmp_path / "shop.duckdb")


@pytest.mark.parametrize(
    ("sink", "key"),
    [("type: duckdb\n  path: ' '", "path"), ("type: paimon\n  catalog.properties.warehouse: ''", "warehouse")],
)
def test_a_path_is_not_empty(sink: str, key: str) -> None:
    """It would be the pipeline file's folder, as where a variable of the environment has no text."""
    assert f"{key}: must not be empty" in said(f"{SOURCE}sink:\n  {sink}\n{PIPELINE}")


def test_paths_are_absolute_where_the_files_own_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors run in other folders than the driver."""
    monkeypatch.chdir(tmp_path)
    text = "source:\n  type: binlog-files\n  path: logs/a.*\n  tables: a.b\n" + SINK + PIPELINE
    spec = checked(text, "p.yaml").spec
    assert isinstance(spec.source, BinlogFilesSourceOptions)
    assert spec.source.paths == (str(tmp_path / "logs/a.*"),)


def test_a_secret_file_is_read_beside_the_pipeline_file(tmp_path: Path) -> None:
    (tmp_path / "pw.txt").write_text("from-file\n")
    file = tmp_path / "p.yaml"
    file.write_text(SOURCE.replace("secret-word", "${file:pw.txt}") + SINK + PIPELINE)
    options = check_file(str(file), env={}).spec.source
    assert isinstance(options, MySqlSourceOptions)
    assert options.password.get_secret_value() == "from-file"


def test_a_missing_file_is_a_problem_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml:1:1: cannot be read: no such file or directory"):
        check_file(str(tmp_path / "none.yaml"))


@together("password", ["secret-word", "${PW}", "'${PW}'"])
def test_a_secret_never_shows(password: str) -> None:
    text = SOURCE.replace("secret-word", password) + SINK + PIPELINE
    spec = checked(text, PW="secret-word").spec
    assert "secret-word" not in repr(spec) + str(spec) + spec.model_dump_json() + repr(spec.source)
    assert "secret-word" not in said(text.replace("tables:", "tabels:"), PW="secret-word")


def test_a_secret_in_a_mistaken_place_does_not_show_when_it_was_substituted() -> None:
    text = SOURCE + "  port: ${PW}\n  server-id: ${PW}\n  connect.timeout: ${PW}\n  invalid-dates: ${PW}\n" + SINK
    message = said(text, PW="hunter2")
    assert message.count("${PW}") >= 4
    assert "hunter2" not in message


def test_warnings_and_rules_show_substituted_text_as_it_is_written() -> None:
    text = (SOURCE + "  tls.mode: required\n" + SINK + PIPELINE).replace("127.0.0.1", "${HOST}")
    (warning,) = checked(text, HOST="internal-host").warnings
    assert "does not verify who ${HOST} is" in str(warning)
    message = said(text.replace("shop.orders", "${TABLES}"), HOST="internal-host", TABLES="shopper")
    assert "`${TABLES}` is a pattern of one part" in message


def test_the_bound_of_a_size_is_written_as_a_size() -> None:
    message = said(SOURCE + SINK + "  memory-limit: 12 kb\n")
    assert "sink.memory-limit: must be at least 64 mb, got '12 kb'" in message


def test_flink_only_options_are_accepted_with_a_warning_that_names_ours() -> None:
    text = SOURCE + "  debezium.snapshot.mode: never\n  connection.pool.size: 20\n" + SINK + PIPELINE
    lines = warned(text)
    assert lines[0].startswith("p.yaml:8:3: warning: source.debezium.snapshot.mode: Flink-only option, ignored: ")
    assert "no Debezium engine" in lines[0]
    assert lines[1].startswith("p.yaml:9:3: warning: source.connection.pool.size: ")


@together(
    "key, instead",
    [
        ("database-name", "use `tables`"),
        ("debezium.skipped.operations", "use a rule with a filter"),
        ("debezium.column.mask.hash.SHA-256.with.salt.x", "use the `mask` of a rule"),
        ("debezium.column.exclude.list", "use the `projection` of a rule"),
        ("debezium.gtid.source.includes", "remove it"),
    ],
)
def test_flink_only_options_that_change_rows_are_refused_with_what_does_it_here(key: str, instead: str) -> None:
    message = said(SOURCE + f"  {key}: x\n" + SINK + PIPELINE)
    assert f"p.yaml:8:3: source.{key}: Flink-only option, refused: " in message
    assert instead in message


def test_changes_are_not_read_as_new_rows_and_a_flink_file_that_says_so_is_accepted() -> None:
    key = "scan.read-changelog-as-append-only.enabled"
    assert key not in str(warned(SOURCE + f"  {key}: false\n" + SINK + PIPELINE))
    message = said(SOURCE + f"  {key}: true\n" + SINK + PIPELINE)
    assert f"p.yaml:8:47: source.{key}: only `false`" in message
    assert "`converter-after-transform: SOFT_DELETE` of a rule" in message


def test_a_flink_file_without_behavior_is_lenient_as_there() -> None:
    found = checked(SOURCE + SINK)
    assert found.warnings == ()
    assert compile_spec(found.spec).policy == Policy(Behavior.LENIENT)
    assert compile_spec(found.spec).coercion.lost == "null"


def test_behavior_filters_and_routes_of_a_file_are_what_the_engine_goes_by() -> None:
    text = SOURCE + SINK + "  include.schema.changes: [Column, truncate.table]\n  exclude.schema.changes: []\n"
    rest = "pipeline:\n  schema.change.behavior: EVOLVE\n  route-mode: FIRST_MATCH\n  local-time-zone: GMT+08:00\n"
    rest += "route:\n- {source-table: shop.orders, sink-table: a.b}\n- {source-table: shop.orders, sink-table: a.c}\n"
    middle = compile_spec(checked(text + rest).spec)
    assert middle.policy == Policy(Behavior.EVOLVE, ("column", "truncate.table"), ())
    assert middle.routes(TableId("shop", "orders")) == (TableId("a", "b"),)
    assert (middle.coercion.lost, middle.coercion.zone) == ("fail", "+08:00")
    rest = rest.replace("route-mode", "schema.change.lost-values: null\n  route-mode")
    assert compile_spec(checked(text + rest).spec).coercion.lost == "null"


@together(
    "written, meant", [("UTC+8", "GMT+08:00"), ("GMT-3", "GMT-03:00"), ("UT+12", "GMT+12:00"), ("'+8'", "+08:00")]
)
def test_a_zone_may_be_written_as_java_reads_it(written: str, meant: str) -> None:
    pipeline = checked(f"{SOURCE}{SINK}pipeline:\n  local-time-zone: {written}\n").spec.pipeline
    assert pipeline is not None
    assert pipeline.local_time_zone == meant


def test_an_unknown_key_of_the_pipeline_block_names_the_command_that_lists_them() -> None:
    assert "(`cdc schema` lists the known keys)" in said(SOURCE + SINK + "pipeline:\n  zzz.yyy: 1\n")


def test_an_unverified_connection_to_another_machine_is_warned_of() -> None:
    text = (SOURCE + "  tls.mode: required\n" + SINK + PIPELINE).replace("127.0.0.1", "db.example")
    (line,) = warned(text)
    assert "`required` does not verify who db.example is" in line


def test_an_empty_exclude_list_changes_nothing_and_passes() -> None:
    assert checked(SOURCE + SINK + "  exclude.schema.changes: []\n" + PIPELINE).warnings == ()


def test_other_rules_are_checked_although_something_is_wrong() -> None:
    lines = said(SOURCE.replace("  hostname: 127.0.0.1\n", "") + "  tls.key: k.pem\n  port: x\n" + SINK).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["source.hostname", "source.tls.key", "source.port"]


class ForeignSinkOptions(SinkOptions):
    """A sink of another package."""

    prefixes: ClassVar[dict[str, str]] = {"table.properties.": "Properties of new tables."}

    type: str
    token: SecretStr = Field(description="Token.")


@pytest.fixture
def foreign_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    real = registry.options.__wrapped__

    def options(role: registry.Role, name: str) -> Any:
        return ForeignSinkOptions if (role, name) == ("sink", "foreign") else real(role, name)

    monkeypatch.setattr(registry, "options", options)


@pytest.mark.usefixtures("foreign_sink")
def test_a_connector_of_another_package_is_checked_by_its_own_model() -> None:
    text = SOURCE + "sink:\n  type: foreign\n  token: abc\n  table.properties.replicas: 3\n" + PIPELINE
    sink = checked(text).spec.sink
    assert isinstance(sink, ForeignSinkOptions)
    assert sink.passed == {"table.properties.replicas": "3"}
    assert "sink.tokn: unknown key (did you mean `token`?)" in said(text.replace("token", "tokn"))


@pytest.mark.slow
def test_checking_loads_no_driver_and_no_engine() -> None:
    import subprocess

    code = (
        "import sys; from cdc.spec.check import check_file; check_file(sys.argv[1]);"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    file = Path(__file__).resolve().parents[2] / "pipelines" / "demo.yaml"
    loaded = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True).stdout
    assert not {"pyspark", "pyarrow", "numba", "numpy", "duckdb", "pandas", "pymysql"} & set(loaded.split())

"""The page for those who come from Flink CDC says of every option of it what the models do."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from together import together

from cdc import registry
from cdc.errors import SpecError
from cdc.options import Block
from cdc.schema import TableId
from cdc.spec.check import check
from cdc.spec.model import PipelineOptions
from cdc.units import parse_duration
from connectors.kafka.source_options import KafkaSourceOptions
from connectors.mysql.snapshot_options import SnapshotOptions
from connectors.shared.streamload.options import LoadSinkOptions

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "from-flink-cdc.md").read_text(encoding="utf-8")
MODELS: dict[str, type[Block]] = {
    "Source `mysql`": registry.options("source", "mysql"),
    "Block `pipeline`": PipelineOptions,
    "Sink `doris`": registry.options("sink", "doris"),
    "Sink `starrocks`": registry.options("sink", "starrocks"),
}


def rows() -> list[tuple[str, str, str, str]]:
    """Section, option, default there, here."""
    found = []
    for section in MODELS:
        text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
        found += [(section, *row) for row in re.findall(r"^\| `([^`]+)` \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)]
    return found


def test_the_page_has_all_of_them() -> None:
    listed = {(section, option) for section, option, _, _ in rows()}
    for section, model in MODELS.items():
        assert {(section, key) for key in (*model.flink_only, *model.flink_defaults)} - listed <= {
            ("Sink `starrocks`", key)
            for key in (
                "sink.max-retries",
                "sink.semantic",
                "sink.version",
                "sink.buffer-flush.max-rows",
            )
        }
    assert [len([row for row in rows() if row[0] == section]) for section in MODELS] == [40, 19, 26, 21]


FORMS = """
source: {type: values, rows: []}
sink: {type: values, existing-table.schema-expansion.mode: EXPAND}
route:
- {source-table: 'mydb.order_\\.*', sink-table: ods.orders}
pipeline: {route-mode: first-match, shade.identifier: base64, shade.sensitive.keywords: password;username}
"""


def test_forms_of_its_own_sample_files_are_read() -> None:
    found = check("p.yaml", FORMS.encode(), env={})
    assert found.spec.pipeline.route_mode == "first_match"
    assert any("write ${PASSWORD} of the environment" in str(warning) for warning in found.warnings)


GUARDED = """
source: {type: values, rows: []}
sink: {type: values}
route: [{source-table: hello.world, sink-table: SINK, replace-symbol: <.>}]
transform: [{source-table: hello.world, primary-keys: 'KEYS', partition-keys: x}]
"""


@together("kind", ["doris, fenodes: fe", "starrocks, jdbc-url: 'jdbc:mysql://fe:1', load-url: fe"])
@together(
    "pipeline, sink, zone",
    [
        ("", "", "UTC"),
        ("local-time-zone: Asia/Shanghai", "", "Asia/Shanghai"),
        ("local-time-zone: GMT+08:00", "", "+08:00"),
        ("local-time-zone: Asia/Shanghai", "sink.time-zone: UTC", "UTC"),
        ("local-time-zone: Asia/Shanghai", "sink.time-zone: GMT-3", "-03:00"),
    ],
)
def test_instants_are_written_in_the_local_time_zone_as_there(kind: str, pipeline: str, sink: str, zone: str) -> None:
    text = f"source: {{type: values, rows: []}}\nsink: {{type: {kind}, username: u, password: p, {sink}}}\n"
    made = check("p.yaml", f"{text}pipeline: {{{pipeline}}}\n".encode(), env={}).spec.sink
    assert isinstance(made, LoadSinkOptions)
    assert (made.zone, made.fixed()) == (zone, {"sink.time-zone": zone})


def test_partition_keys_of_an_elasticsearch_sink_name_what_shards_its_indexes() -> None:
    text = "source: {type: values, rows: []}\nsink: {type: elasticsearch, hosts: 'http://a:1'}\n"
    rule = "transform: [{source-table: shop.orders, projection: '*', partition-keys: city}]\n"
    (warning,) = check("p.yaml", f"{text}{rule}".encode(), env={}).warnings
    assert "partition-keys: has no effect" in str(warning)
    assert "`sharding.suffix.key: table:column` makes an index for each value" in str(warning)


@together(
    "table, keys, said",
    [
        ("hello.<.>world<.>", "a, b", ""),
        ("hello.<.>", "a, b,", ""),
        (".hello<.>", "a", "route[0].sink-table: '.hello<.>' is not a table id"),
        ("a.<.>.", "a", "route[0].sink-table: 'a.<.>.' is not a table id"),
        ("a.b.c.<.>", "a", "route[0].sink-table: 'a.b.c.<.>' is not a table id"),
        ("a.<.>", "a,,b", "transform[0].primary-keys: a column's name is empty"),
        ("a.<.>", ",", "transform[0].primary-keys: a column's name is empty"),
    ],
)
def test_ids_and_keys_that_its_own_guards_refuse(table: str, keys: str, said: str) -> None:
    text = GUARDED.replace("SINK", table).replace("KEYS", keys).encode()
    with pytest.raises(SpecError, match=re.escape(said)) if said else nullcontext():
        check("p.yaml", text, env={})


FILTERS = """
source: {type: mysql, hostname: h, username: u, password: p, tables: shop.orders, scan.snapshot.filters: FILTERS}
sink: {type: values}
"""


def test_filters_of_its_own_sample_file_are_a_list() -> None:
    text = FILTERS.replace("FILTERS", "[{table: 'shop.ord\\.*', filter: id > 9}, {table: shop.x, filter: id > 1}]")
    source = check("p.yaml", text.encode(), env={}).spec.source
    assert isinstance(source, SnapshotOptions)
    assert source.snapshot_filters == {"shop.ord\\.*": "id > 9", "shop.x": "id > 1"}


WRITTEN = r"""'shop.ord\.*:id > 9 AND city <> "a;b:c" ;shop.x:a = "it;" OR `b;` = 5;'"""


def test_filters_are_a_text_as_its_option_has_them() -> None:
    source = check("p.yaml", FILTERS.replace("FILTERS", WRITTEN).encode(), env={}).spec.source
    assert isinstance(source, SnapshotOptions)
    assert source.snapshot_filters == {
        r"shop.ord\.*": 'id > 9 AND city <> "a;b:c"', "shop.x": 'a = "it;" OR `b;` = 5',
    }  # fmt: skip
    with pytest.raises(SpecError, match=r"`shop\.y` is not a table with its filter"):
        check("p.yaml", FILTERS.replace("FILTERS", "'shop.x:a > 1;shop.y'").encode(), env={})


@together("entry", ["5", "{table: a.b}", "{table: [a.b], filter: x}", "{table: a.b, filter: x, more: 1}"])
def test_a_wrong_entry_of_the_filters_is_told_with_what_to_write(entry: str) -> None:
    with pytest.raises(SpecError) as caught:
        check("p.yaml", FILTERS.replace("FILTERS", f"[{{table: a.b, filter: x}}, {entry}]").encode(), env={})
    (problem,) = caught.value.problems
    assert problem.message == "entry 2 is not `table` with `filter`"
    assert problem.hint == "write {table: shop.orders, filter: id > 9}"


def test_two_filters_of_a_table_are_refused() -> None:
    text = FILTERS.replace("FILTERS", "[{table: a.b, filter: x}, {table: a.b, filter: y}]")
    with pytest.raises(SpecError, match=r"`a\.b` is there twice"):
        check("p.yaml", text.encode(), env={})


ONE_MODEL = """
source: {type: values, rows: []}
sink: {type: values}
pipeline:
  model:
    model-name: GET_EMBEDDING
    class-name: OpenAIEmbeddingModel
    openai.model: text-embedding-3-small
    openai.host: https://models.example.com
    openai.apikey: ${MODEL_KEY}
"""


def test_one_model_needs_no_dash_as_in_its_own_sample_file() -> None:
    spec = check("p.yaml", ONE_MODEL.encode(), env={"MODEL_KEY": "k"}).spec
    assert [model.name for model in spec.rule_settings.models] == ["GET_EMBEDDING"]
    assert spec.secret_variables == ("MODEL_KEY",)


def test_what_is_wrong_in_one_model_is_told_at_its_place() -> None:
    with pytest.raises(SpecError) as caught:
        check("p.yaml", ONE_MODEL.replace("openai.model", "open.model").encode(), env={"MODEL_KEY": "k"})
    assert (8, 5) in {(problem.line, problem.column) for problem in caught.value.problems}


def default(model: type[Block], option: str) -> Any:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return fields[option].default if option in fields else None


def test_options_are_as_the_page_says() -> None:
    for row in rows():
        try:
            _check_option(*row)
        except AssertionError as error:
            raise AssertionError(f"{row}") from error


def _check_option(section: str, option: str, there: str, here: str) -> None:
    model = MODELS[section]
    if here == "ignored":
        assert model.ignored(option.replace("*", "x")) is not None
        return
    assert here in ("as there", "differs")
    assert model.ignored(option) is None
    prefixes = getattr(model, "prefixes", {})
    names = {field.alias or name for name, field in model.model_fields.items()}
    assert option in names or any(option.startswith(prefix) for prefix in prefixes)
    ours = default(model, option)
    if here == "as there" and ours is not None and not option.endswith("*") and there not in ("required", "none"):
        same = str(ours).lower() == there.lower()
        assert same or ours == parse_duration(there)
    if option in model.flink_defaults:
        assert here == "differs"
        assert there == model.flink_defaults[option]


TEXT = """source: {type: mysql, hostname: 127.0.0.1, username: u, password: p, tables: a.b, EXTRA}
sink: {type: values}
"""


def test_defaults_that_are_not_set_are_named() -> None:
    spec = check("p.yaml", TEXT.replace(", EXTRA", "").encode(), env={}).spec
    assert set(spec.other_defaults().split(", ")) == {
        "scan.incremental.snapshot.chunk.size 100000 (8096)",
        "scan.newly-added-table.enabled true (false)",
        "treat-tinyint1-as-boolean.enabled false (true)",
        "parallelism by the machine (1; 4 in its conf/flink-cdc.yaml)",
        "local-time-zone UTC (zone of the system)",
        "schema.change.behavior lenient (LENIENT; EVOLVE in its conf/flink-cdc.yaml)",
    }
    extra = "scan.incremental.snapshot.chunk.size: 100000, treat-tinyint1-as-boolean.enabled: false"
    text = (
        TEXT.replace("EXTRA", f"{extra}, scan.newly-added-table.enabled: true")
        + "pipeline: {parallelism: 2, schema.change.behavior: lenient, local-time-zone: UTC}\n"
    )
    assert check("p.yaml", text.encode(), env={}).spec.other_defaults() == ""


def test_the_messages_that_its_kafka_sink_writes_are_named() -> None:
    sink = "sink: {type: kafka, properties.bootstrap.servers: 'a:1', EXTRA}\n"
    text = TEXT.replace(", EXTRA", "").replace("sink: {type: values}\n", sink)
    there = "value.format debezium-json (called debezium-json-flink here)"
    assert there in check("p.yaml", text.replace(", EXTRA", "").encode(), env={}).spec.other_defaults().split(", ")
    given = text.replace("EXTRA", "value.format: debezium-json-flink")
    assert "value.format" not in check("p.yaml", given.encode(), env={}).spec.other_defaults()


@pytest.mark.parametrize(("more", "bounded"), [("BATCH", True), ("streaming", False)])
def test_batch_is_a_run_that_ends(more: str, bounded: bool) -> None:
    text = TEXT.replace(", EXTRA", "") + f"pipeline: {{execution.runtime-mode: {more}}}\n"
    assert check("p.yaml", text.encode(), env={}).spec.pipeline.bounded is bounded


def test_pipelines_without_flink_cdcs_source_hear_nothing_of_it() -> None:
    text = "source: {type: values, rows: []}\nsink: {type: values}\n"
    assert check("p.yaml", text.encode(), env={}).spec.other_defaults() == ""


def test_constants_that_earlier_versions_read_as_javas_are_told() -> None:
    text = TEXT.replace(", EXTRA", "") + (
        "transform:\n"
        "  - source-table: a.b\n"
        r"""    projection: id, REGEXP_REPLACE(s, '\\d+', '') AS t, REPLACE(s, '\n', '') AS u, LEFT(s, 1) AS v"""
        "\n"
    )
    warned = [each for each in check("p.yaml", text.encode(), env={}).warnings if "in a constant" in each.message]
    assert [(each.line, each.column, each.message) for each in warned] == [
        (5, 40, r"\\ in a constant is 2 characters, as in SQL"), (5, 69, r"\n in a constant is 2 characters, as in SQL")
    ]  # fmt: skip
    assert "write one backslash, or the character itself" in str(warned[0])


def test_a_rule_for_a_table_that_an_earlier_one_takes_is_told() -> None:
    rules = (
        "transform:\n"
        "  - {source-table: a.b, filter: UPPER(province) = 'SHANGHAI'}\n"
        "  - {source-table: 'A.B, c.d', filter: UPPER(province) = 'BEIJING'}\n"
        "  - {source-table: '\\.*.\\.*', filter: id > 0}\n"
    )
    warned = check("p.yaml", (TEXT.replace(", EXTRA", "") + rules).encode(), env={}).warnings
    found = [(each.line, each.path, each.message) for each in warned if each.path.startswith("transform")]
    assert [each for each in found if "captured" not in each[2]] == [
        (5, "transform[1].source-table", "A.B already has transform[0]")
    ]


def test_settings_of_flink_cdcs_values_sink_are_accepted_and_told() -> None:
    sink = "sink: {type: values, print.enabled: true, sink.api: SINK_V2, materialized.in.memory: false}\n"
    text = TEXT.replace(", EXTRA", "").replace("sink: {type: values}\n", sink)
    found = check("p.yaml", text.encode(), env={})
    assert [each.path for each in found.warnings if each.path.startswith("sink")] == [
        "sink.print.enabled", "sink.sink.api", "sink.materialized.in.memory"
    ]  # fmt: skip


KAFKA = """
source: {type: kafka, topic: t, group-id: g, properties.bootstrap.servers: 'h:9092', tables.exclude: shop.b, MORE}
sink: {type: values}
"""


@pytest.mark.parametrize(("offsets", "found"), [
    ("partition:0,offset:42;topic:t,partition:1,offset:3", {("t", 0): 42, ("t", 1): 3}), ("t:2:9", {("t", 2): 9}),
])  # fmt: skip
def test_its_own_kafka_source_is_read(offsets: str, found: dict[tuple[str, int], int]) -> None:
    more = f"scan.startup.mode: specific-offsets, scan.startup.specific-offsets: '{offsets}'"
    source = check("p.yaml", KAFKA.replace("MORE", more).encode(), env={}).spec.source
    assert isinstance(source, KafkaSourceOptions)
    assert (source.topic_list, source.passed) == (("t",), {"properties.group.id": "g"})
    tables = source.captures()
    assert tables is not None
    assert [tables.matches(TableId.parse(each)) for each in ("shop.a", "shop.b", "t")] == [True, False, True]
    assert source.specific_offsets() == found
    with pytest.raises(SpecError, match="needs either `topics` or `topic-pattern`"):
        check("p.yaml", KAFKA.replace("MORE", "topics: u").encode(), env={})
    if not offsets.startswith("t"):
        text = KAFKA.replace("topic: t", "topic-pattern: t").replace("MORE", more)
        with pytest.raises(SpecError, match="names no topic"):
            check("p.yaml", text.encode(), env={})

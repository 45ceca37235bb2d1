from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from options_page import documents
from together import together

from cdc.spec import schemas
from cdc.spec.check import check_file

ROOT = Path(__file__).resolve().parents[2]
PIPELINES = sorted(set((ROOT / "pipelines").glob("*.yaml")) - set((ROOT / "pipelines").glob("*.test.yaml")))


def test_generated_files_are_fresh_and_schemas_valid() -> None:
    from jsonschema.validators import Draft202012Validator

    generated = dict(documents())
    stale = [path for path, text in generated.items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run: make schemas"
    schemas = {path for path in generated if path.endswith(".json")}
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "schemas").rglob("*.json")} == schemas
    for path in schemas:
        Draft202012Validator.check_schema(json.loads(generated[path]))


@together("file", PIPELINES)
def test_an_example_pipeline_is_valid_and_warns_of_nothing(file: Path) -> None:
    assert check_file(str(file), env={"MYSQL_PASSWORD": "x", "SINK_PASSWORD": "x", "HASH_KEY": "x" * 16}).warnings == ()


def test_the_bundled_schema_gives_the_same_answers() -> None:
    bundle = schemas.bundle()
    good = {"source": {"type": "values", "rows": []}, "sink": {"type": "duckdb", "path": "x"}}
    assert list(schemas.errors(good, bundle)) == []
    bad = {"source": {"type": "mysql", "port": "x"}, "sink": {"type": "duckdb"}}
    from_files = {error.message for error in schemas.errors(bad, schemas.load("pipeline.json"))}
    assert {error.message for error in schemas.errors(bad, bundle)} == from_files
    assert from_files


@together(
    "sink, wrong",
    [
        ("name: a, type: duckdb, path: x, existing-rows: replace, route: [{source-table: a.b, sink-table: c.d}]", ""),
        ("name: a, type: doris, fenodes: h:1, username: u, sink.properties.timeout: 5", ""),
        ("name: a, type: duckdb, path: x, topic.prefix: y", "topic.prefix"),
        ("name: a, type: duckdb, path: x, existing-rows: all", "all"),
        ("name: a, type: duckdb, path: x, route: [{source-table: a.b}]", "sink-table"),
        ("name: a b, type: duckdb, path: x", "a b"),
    ],
)
def test_editors_know_each_option_of_a_sink_in_a_list(sink: str, wrong: str) -> None:
    document = {"source": {"type": "values", "rows": []}, "sink": [yaml.safe_load(f"{{{sink}}}")]}
    for schema in (schemas.bundle(), schemas.load("pipeline.json")):
        found = [error.message for error in schemas.errors(document, schema)]
        assert (len(found) == 1 and repr(wrong) in found[0]) if wrong else not found


def test_defaults_are_written_as_people_write_them() -> None:
    options = schemas.load("sources/mysql.json")["properties"]
    assert options["connect.timeout"]["default"] == "30 s"
    assert options["max-batch-bytes"]["default"] == "64 mb"


def test_one_connectors_schema_is_found_by_name() -> None:
    assert schemas.connector("binlog-files") == schemas.connector("source/binlog-files")
    with pytest.raises(LookupError, match=r"is several: source/values, sink/values"):
        schemas.connector("values")
    with pytest.raises(LookupError, match=r"no connector named 'orcale'; known: source/binlog-files"):
        schemas.connector("orcale")

"""Table properties with which a table would not be kept equal are refused."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from paimon_harness import PaimonHarness
from together import together

from cdc.errors import ChangeRefused
from cdc.schema import AlterPrimaryKey, Column, CreateTable, DataType, TableId, TableSchema
from connectors.paimon.options import PaimonSinkOptions, property_problems
from connectors.paimon.rules import PaimonRules


@together(
    "name, refused, taken",
    [
        ("merge-engine", "partial-update", "deduplicate"),
        ("ignore-delete", "true", "false"),
        ("deduplicate.ignore-delete", "TRUE", "false"),
        ("changelog-producer", "input", "none"),
        ("file.format", "orc", "parquet"),
        ("bucket-function.type", "mod", "default"),
        ("bucket", "-1", "4"),
        ("row-tracking.enabled", "true", "false"),
        ("branch", "b1", "main"),
        ("scan.snapshot-id", "1", None),
        ("sequence.field", "v", None),
    ],
)
def test_properties_that_would_bend_rows_are_refused(name: str, refused: str, taken: str | None) -> None:
    """Java's library leaves rows in the table that were deleted, or reads none, with most of them."""
    given = {"catalog.properties.metastore": "filesystem", "catalog.properties.warehouse": "/lake"}
    options = PaimonSinkOptions.model_validate({"type": "paimon", **given, f"table.properties.{name}": refused})
    assert [problem.key for problem in options.problems()] == [f"table.properties.{name}"]
    assert taken is None or not list(property_problems({name: taken}))


@together("kind", ["FLOAT", "DOUBLE", "BYTES", "VARBINARY(8)", "GEOMETRY", "VECTOR(3)"])
def test_partitions_that_the_reader_does_not_read_are_refused(kind: str) -> None:
    """Rows went in, and the run stopped at its first compaction; a DATE is taken."""
    table, id_ = TableId("shop", "orders"), Column("id", DataType.parse("INT"), nullable=False)
    rules = PaimonRules({"bucket": "1"}, {table: ("part",)})
    with pytest.raises(ChangeRefused, match=r"partition column part: .* is not read back"):
        rules.new_table(table, TableSchema((id_, Column("part", DataType.parse(kind))), ("id",)))
    made = rules.new_table(table, TableSchema((id_, Column("part", DataType.parse("DATE"))), ("id",)))
    rules.check_existing(made)


def test_an_existing_table_without_the_option_has_dynamic_buckets() -> None:
    """The default of Paimon: another writer's rows of a key may be in any bucket. Without a key it is the one taken."""
    schema = TableSchema((Column("id", DataType.parse("INT"), nullable=False),), ("id",))
    rules = PaimonRules({}, {})
    with pytest.raises(ChangeRefused, match="bucket: dynamic buckets"):
        rules.check_existing(rules.new_table(TableId("shop", "orders"), schema))
    rules.check_existing(rules.new_table(TableId("shop", "orders"), replace(schema, primary_key=())))


@together("name", ["", " ", "..", "_a", "a/b", "a\\b", "a$b", "a\tb"])
def test_a_name_that_is_no_folder_of_its_own_is_refused(name: str) -> None:
    """The library refuses such names when it reads a table's files: the commit was repeated until `retry-timeout`."""
    with pytest.raises(ChangeRefused, match="cannot be a name in Paimon"):
        PaimonRules({}, {}).check_table(TableId("shop", name))


@together("name", ["_row_id", "_KEY_id", "rowkind", " ", "\u3000"])
def test_names_that_java_takes_for_its_own_or_does_not_read_are_refused(name: str) -> None:
    with pytest.raises(ChangeRefused, match="Paimon keeps such names for itself"):
        PaimonRules({}, {}).check_column(TableId("shop", "orders"), name)


@pytest.mark.parametrize("changes", ["skip", "fail"])
def test_a_table_whose_changes_were_skipped_is_copied_for_its_first_key(tmp_path: Path, changes: str) -> None:
    sink, table = PaimonHarness(tmp_path, {"sink.keyless-changes": changes}).sink(), TableId("shop", "t")
    sink.apply(0, [CreateTable(table, TableSchema((Column("id", DataType.parse("INT"), False),)))])
    with pytest.raises(ChangeRefused, match="skipped") if changes == "skip" else nullcontext() as refused:
        sink.apply(1, [AlterPrimaryKey(table, ("id",))])
    assert refused is None or refused.value.resnapshot_helps

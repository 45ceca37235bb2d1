"""Options of the Iceberg sink: refused with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from iceberg_harness import IcebergHarness
from together import together

from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from connectors.iceberg.options import IcebergSinkOptions
from connectors.iceberg.partitions import PartitionField, parse_partition


@together(
    "given, key",
    [
        ({"type": "hadoop", "warehouse": "lake"}, "catalog.properties.type"),
        ({"type": "sql", "warehouse": "s3://lake"}, "catalog.properties.uri"),
        ({"type": "rest", "warehouse": "lake"}, "catalog.properties.uri"),
        ({"type": "sql"}, "catalog.properties.warehouse"),
    ],
)
def test_a_catalog_that_cannot_be_opened_is_refused(given: dict[str, str], key: str) -> None:
    options = {f"catalog.properties.{name}": text for name, text in given.items()}
    found = IcebergSinkOptions.model_validate({"type": "iceberg", **options})
    assert key in {remark.key for remark in found.problems()}


def test_table_properties_that_would_bend_rows_are_refused() -> None:
    options = {"catalog.properties.type": "sql", "catalog.properties.warehouse": "lake"}
    given = {"table.properties.write.format.default": "orc", "table.properties.write.delete.mode": "copy-on-write"}
    found = IcebergSinkOptions.model_validate({"type": "iceberg", **options, **given})
    assert {remark.key for remark in found.problems()} == set(given)


def test_an_address_with_a_password_is_not_shown() -> None:
    options = {"catalog.properties.type": "sql", "catalog.properties.uri": "postgresql://u:pw@host/db"}
    more = {"catalog.properties.warehouse": "s3://lake", "catalog.properties.s3.secret-access-key": "hidden"}
    found = IcebergSinkOptions.model_validate({"type": "iceberg", **options, **more})
    assert "pw@" not in repr(found)
    assert "hidden" not in repr(found)
    assert found.catalog_properties()["s3.secret-access-key"] == "hidden"


@together("key", ["sink.compaction.parallelism", "sink.compaction.commit.parallelism"])
def test_the_parallelism_of_compaction_has_two_names_there(key: str) -> None:
    """Flink CDC's documentation has the first one, its code the second one."""
    assert "driver compacts" in IcebergSinkOptions.flink_only[key]


def test_partition_fields_are_read_as_flink_cdc_writes_them() -> None:
    fields = parse_partition(("region", "days(at)", "bucket[16](id)", "truncate[4](code)"))
    assert [field.name for field in fields] == ["region", "at_day", "id_bucket", "code_trunc"]
    assert fields[2] == PartitionField("id", "bucket[16]")
    for wrong in ("bucket(id)", "day[3](at)", "minute(at)", "bucket[0](id)"):
        with pytest.raises(ValueError, match=r"neither a column nor a transform|have a number"):
            parse_partition((wrong,))


def test_the_plan_shows_partition_fields_and_properties(tmp_path: Path) -> None:
    options = {"partition.key": "shop.orders:bucket[4](id)", "table.properties.write.target-file-size-bytes": "1000000"}
    schema = TableSchema((Column("id", DataType(Kind.INT), nullable=False),), ("id",))
    found = IcebergHarness(tmp_path, options).sink().plan_text([CreateTable(TableId("shop", "orders"), schema)])
    assert found[-1].startswith("create table shop.orders (id int, key (id)) partitioned by bucket[4](id) with (")
    assert "write.target-file-size-bytes=1000000" in found[-1]

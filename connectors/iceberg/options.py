"""Options of the Iceberg sink; named as in Flink CDC where it has the same option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ValidationInfo

from cdc.options import AnyCase, Duration, Field, Line, OptionError, Remark, SecretStr, Size
from cdc.schema import TableId
from connectors.iceberg.partitions import parse_partition
from connectors.shared.lake.options import CATALOG, TABLE, LakeSinkOptions, from_folder, partition_keys

_DECIDED = {
    "format-version": "version 2 is written",
    "write.delete.mode": "deleted rows are written as position deletes",
    "write.update.mode": "deleted rows are written as position deletes",
    "write.merge.mode": "deleted rows are written as position deletes",
    "write.upsert.enabled": "rows are found by key in any case",
    "comment": "it is the source table's",
}
"""Table properties that are refused because they would change how rows are written, with the reason."""
_KEPT_METADATA = {
    "write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "20",
}  # fmt: skip
"""Properties of new tables: they limit the metadata files, of which each commit writes one."""


def _check_partitions(text: str) -> str:
    try:
        for fields in partition_keys(text).values():
            parse_partition(fields)
    except ValueError as error:
        raise OptionError(str(error), "such as shop.orders:day(created),bucket[16](id)") from None
    return text


def _from_folder(text: str, info: ValidationInfo) -> str:
    found = from_folder(text, info, "catalog_type")
    is_name = "://" in found or info.data.get("catalog_type") == "rest"
    return found if is_name else f"file://{found}"


class IcebergSinkOptions(LakeSinkOptions):
    """Writes Iceberg tables of one catalog; a source database becomes a namespace of the same name."""

    implementation: ClassVar[str] = "connectors.iceberg.sink:IcebergSink"
    prefixes: ClassVar[dict[str, str]] = {
        CATALOG: "Properties of the catalog and its file system, by pyiceberg's names, such as "
        "`catalog.properties.s3.endpoint` and `catalog.properties.glue.region`.",
        TABLE: "Properties of new tables, such as `table.properties.write.target-file-size-bytes`.",
        "hadoop.conf.": "Accepted without effect: no Hadoop is used.",
    }
    flink_only: ClassVar[dict[str, str]] = {
        "sink.compaction.enabled": "use `sink.compaction: own | off`",
        "sink.compaction.commit.interval": "use `sink.compaction.files`",
        "sink.compaction.parallelism": "the driver compacts",
        "sink.compaction.commit.parallelism": "the driver compacts",
        "sink.maintenance.*": "use `sink.compaction`, `sink.snapshots.keep` and `sink.snapshots.keep-for`",
        "job.id.prefix": "a batch is identified by the pipeline's id and its number, in a table property",
    }
    drafted: ClassVar[dict[str, str]] = {
        "catalog.properties.type": "sql", "catalog.properties.warehouse": "warehouse",
    }  # fmt: skip

    type: Literal["iceberg"] = Field(description="Connector name.")
    catalog_type: Annotated[Literal["sql", "rest", "hive", "glue", "hadoop"], AnyCase] = Field(
        alias="catalog.properties.type",
        description="Kind of the catalog: `sql` (a SQLite file in the warehouse, or a database at `uri`), `rest`, "
        "`hive` (Thrift) or `glue`. Flink CDC's `hadoop` needs Java and is refused.",
    )
    warehouse: Annotated[Line, AfterValidator(_from_folder)] | None = Field(
        None,
        alias="catalog.properties.warehouse",
        description="Root of new tables: a folder or a URL such as `s3://lake/warehouse`; with `rest` its name there. "
        "A relative folder starts at the folder of the pipeline file.",
    )
    uri: SecretStr | None = Field(
        None,
        alias="catalog.properties.uri",
        description="Address of the catalog: `http://host:8181`, `thrift://host:9083`, or a database such as "
        "`postgresql+psycopg://user:password@host/iceberg`. Default with `sql`: `catalog.db` in the "
        "warehouse folder.",
    )
    partition_key: Annotated[str, AfterValidator(_check_partitions)] = Field(
        "",
        alias="partition.key",
        description="Partition fields of new tables: `db.t:day(created),bucket[16](id);db.u:region`, with year, month, "
        "day, hour, bucket[n], truncate[n]. `partition-keys` of rules go first.",
    )
    snapshots: int = Field(
        50,
        alias="sink.snapshots.keep",
        ge=1,
        description="Number of a table's newest snapshots to keep; others expire. The more snapshots, the more a "
        "commit costs.",
    )
    snapshot_age_s: Duration = Field(
        3600.0,
        alias="sink.snapshots.keep-for",
        description="How long the files of expired snapshots are kept, so that running queries can finish.",
    )
    flush_size: Size = Field(
        128 << 20,
        alias="sink.flush-size",
        ge=1 << 20,
        description="Arrow bytes of one table that a task buffers before it writes files; a task holds twice as much.",
    )

    def catalog_properties(self) -> dict[str, str]:
        """All properties of the catalog with secrets in plain text: for the library, never for a message."""
        properties = self.properties_under(CATALOG)
        properties["type"] = self.catalog_type
        if self.warehouse is not None:
            properties["warehouse"] = self.warehouse
        if self.uri is not None:
            properties["uri"] = self.uri.get_secret_value()
        elif self.catalog_type == "sql" and self.warehouse is not None:
            properties["uri"] = f"sqlite:///{self.warehouse.removeprefix('file://')}/catalog.db"
        return {**properties, **self.shown_secrets()}

    def secret_names(self) -> frozenset[str]:
        """The names of the properties that are not shown; an address may contain a password."""
        return frozenset(self.secrets) | ({"uri"} if self.uri is not None else set())

    def table_properties(self) -> dict[str, str]:
        """The properties of every new table."""
        properties = self.properties_under(TABLE)
        return {**_KEPT_METADATA, **properties}

    def partitions(self) -> Mapping[TableId, tuple[str, ...]]:
        """The partition fields by table."""
        return partition_keys(self.partition_key)

    def locations(self) -> tuple[str, ...]:
        """The place of the tables: the catalog and its warehouse."""
        return (" ".join(filter(None, (self.catalog_type, self.warehouse))),)

    def problems(self) -> Iterator[Remark]:
        """Report options that the catalog's kind lacks, and properties that would change how rows are written."""
        yield from super().problems()
        if self.catalog_type == "hadoop":
            hint = "use sql with another warehouse folder, or rest; its tables are re-snapshotted there"
            yield Remark("catalog.properties.type", "hadoop cannot be written without Java", hint)
        local = self.warehouse is not None and self.warehouse.startswith("file://")
        if self.catalog_type == "sql" and self.uri is None and not local:
            hint = "a database for the catalog, such as postgresql+psycopg://...; a local warehouse has a file in it"
            yield Remark("catalog.properties.uri", "is required where the warehouse is not a local folder", hint)
        if self.catalog_type in ("rest", "hive") and self.uri is None:
            yield Remark("catalog.properties.uri", f"is required with type: {self.catalog_type}", "say where it is")
        if self.catalog_type == "sql" and not self.warehouse:
            yield Remark("catalog.properties.warehouse", "is required", "name a folder, or a URL such as s3://lake/wh")
        properties = self.properties_under(TABLE)
        yield from property_problems(properties, TABLE)


def property_problems(properties: Mapping[str, str], prefix: str = "") -> Iterator[Remark]:
    """Report properties with which a table could not be kept equal to its source."""
    for name, reason in _DECIDED.items():
        if name in properties and (name, properties[name]) != ("format-version", "2") and prefix:
            yield Remark(f"{prefix}{name}", f"cannot be used: {reason}", "remove the key")
    if properties.get("write.format.default", "parquet").lower() != "parquet":
        yield Remark(f"{prefix}write.format.default", "only parquet is written", "remove the key")

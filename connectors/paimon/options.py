"""Options of the Paimon sink; named as in Flink CDC where it has the same option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ValidationInfo

from cdc.options import AnyCase, Field, Line, OptionError, Remark, Size
from cdc.schema import TableId
from connectors.paimon.object_store import PATH_STYLE, nameless_host
from connectors.shared.lake.options import CATALOG, TABLE, LakeSinkOptions, from_folder, partition_keys, shown_address

_DECIDED = {
    "sequence.field": "rows are ordered by their position in the source's log",
    "rowkind.field": "row kinds are written with the rows",
    "primary-key": "the key is the source's, or a rule's `primary-keys`",
    "primary-key.nullable": "the key is the source's, or a rule's `primary-keys`",
    "partition": "`partition.key`, or a rule's `partition-keys`, says it",
    "data-file.prefix": "file names identify the batch that they are from",
    "type": "tables are written as primary key or append tables",
}
"""Table properties that are refused because they would change how rows are written, with the reason."""
_IGNORED = "rows that the source deletes would stay in the table"
_OTHER_FILES = "files that are written without it could not be read"
_OTHER_SNAPSHOT = "readers, and upkeep of the table, would not see its newest snapshot"
_VALUES: dict[str, tuple[str, str]] = {
    "merge-engine": ("deduplicate", "the table would not be kept equal to the source's"),
    "ignore-delete": ("false", _IGNORED),
    "deduplicate.ignore-delete": ("false", _IGNORED),
    "first-row.ignore-delete": ("false", _IGNORED),
    "partial-update.ignore-delete": ("false", _IGNORED),
    "deletion-vectors.enabled": ("false", "rows would not be visible until another system has compacted the table"),
    "file.format": ("parquet", "only parquet is written"),
    "changelog-producer": ("none", "changelog files are not written; another system's compaction may do so"),
    "bucket-function.type": ("default", "rows are in the buckets of the default function"),
    "row-tracking.enabled": ("false", _OTHER_FILES),
    "data-evolution.enabled": ("false", _OTHER_FILES),
    "pk-clustering-override": ("false", _OTHER_FILES),
    "branch": ("main", "rows are written to the main branch"),
}
"""The only value of a table property with which tables are written correctly, and the reason against others."""
_ABSENT = {
    "data-file.external-paths": "files are written into the folder of the table",
    "incremental-between": _OTHER_SNAPSHOT,
    **{f"scan.{name}": _OTHER_SNAPSHOT for name in (
        "mode", "snapshot-id", "tag-name", "timestamp", "timestamp-millis", "version", "watermark", "fallback-branch",
        "creation-time-millis", "file-creation-time-millis",
    )},
}  # fmt: skip


def _check_partitions(text: str) -> str:
    try:
        partition_keys(text)
    except ValueError as error:
        raise OptionError(str(error), "such as shop.orders:day,region;shop.log:day") from None
    return text


def _from_folder(text: str, info: ValidationInfo) -> str:
    return from_folder(text, info, "metastore")


class PaimonSinkOptions(LakeSinkOptions):
    """Writes Paimon tables of one catalog; a source database becomes a Paimon database of the same name."""

    implementation: ClassVar[str] = "connectors.paimon.sink:PaimonSink"
    prefixes: ClassVar[dict[str, str]] = {
        CATALOG: "Properties of the catalog and its file system, such as `catalog.properties.warehouse: "
        "s3://lake/warehouse` and `catalog.properties.s3.endpoint`.",
        TABLE: "Properties of new tables, such as `table.properties.bucket: 8`.",
    }
    flink_only: ClassVar[dict[str, str]] = {
        "commit.user": "the commit user is the pipeline's id, after `commit.user-prefix`",
        "sink.cross-partition-upsert.tables": "the partition columns are part of the key, and an update that moves "
        "a row deletes the old one",
    }
    drafted: ClassVar[dict[str, str]] = {
        "catalog.properties.metastore": "filesystem", "catalog.properties.warehouse": "warehouse",
    }  # fmt: skip

    type: Literal["paimon"] = Field(description="Connector name.")
    metastore: Annotated[Literal["filesystem", "rest", "jdbc"], AnyCase] = Field(
        alias="catalog.properties.metastore",
        description="Kind of the catalog: `filesystem`, `rest` or `jdbc`. `hive` is not supported, as it needs Java.",
    )
    warehouse: Annotated[Line, AfterValidator(_from_folder)] | None = Field(
        None,
        alias="catalog.properties.warehouse",
        description="Root of the tables: a folder or a URL such as `s3://lake/warehouse`; with `rest` its name there. "
        "A relative folder starts at the folder of the pipeline file.",
    )
    uri: Line | None = Field(
        None,
        alias="catalog.properties.uri",
        description="Address of a `rest` or `jdbc` catalog, such as `http://host:80`.",
    )
    user_prefix: Line = Field(
        "cdc",
        alias="commit.user-prefix",
        min_length=1,
        description="Prefix of the commit user, before the pipeline's id (Flink CDC: `admin`, before a random text).",
    )
    partition_key: Annotated[str, AfterValidator(_check_partitions)] = Field(
        "",
        alias="partition.key",
        description="Partition columns of new tables: `db.t:day,region;db.u:day`. `partition-keys` of rules go first.",
    )
    buckets: int | None = Field(
        None,
        alias="sink.buckets",
        ge=1,
        le=1024,
        description="Number of buckets per partition of a new table with a key; `table.properties.bucket` is the "
        "same. Default: 1. A bucket is compacted by one task: use about one per GB.",
    )
    flush_size: Size = Field(
        64 << 20,
        alias="sink.flush-size",
        ge=1 << 20,
        description="Arrow bytes of one table that a task buffers before it writes files; a task holds twice as much.",
    )

    def catalog_options(self) -> dict[str, str]:
        """All properties of the catalog with secrets in plain text: for the library, never for a message."""
        options = self.properties_under(CATALOG)
        options["metastore"] = self.metastore
        if self.warehouse is not None:
            options["warehouse"] = self.warehouse
        if self.uri is not None:
            options["uri"] = self.uri
        return {**options, **self.shown_secrets()}

    def table_properties(self) -> dict[str, str]:
        """The properties that the user adds to every new table."""
        properties = self.properties_under(TABLE)
        return {**({"bucket": str(self.buckets)} if self.buckets else {}), **properties}

    def partitions(self) -> Mapping[TableId, tuple[str, ...]]:
        """The partition columns by table."""
        return partition_keys(self.partition_key)

    def locations(self) -> tuple[str, ...]:
        """The place of the tables: the catalog and its warehouse."""
        return (" ".join(filter(None, (shown_address(self.uri), self.catalog_options().get("warehouse")))),)

    def problems(self) -> Iterator[Remark]:
        """Report options that the catalog's kind lacks, and properties that would change how rows are written."""
        yield from super().problems()
        if not self.warehouse:
            hint = "name a folder, a URL such as s3://lake/wh, or what the rest catalog calls it"
            yield Remark("catalog.properties.warehouse", "is required", hint)
        if self.metastore != "filesystem" and not self.uri:
            yield Remark("catalog.properties.uri", f"is required with metastore: {self.metastore}", "say where it is")
        if self.metastore == "rest" and "token.provider" not in self.catalog_options():
            hint = "`bear` with catalog.properties.token, or `dlf` with its keys"
            yield Remark(f"{CATALOG}token.provider", "is required with metastore: rest", hint)
        if host := nameless_host(self.catalog_options()):
            reason = f"is required: no bucket's name can go before {host}"
            yield Remark(f"{CATALOG}{PATH_STYLE}", reason, "set it to true, or name the store's host")
        properties = self.table_properties()
        if self.buckets and f"{TABLE}bucket" in self.passed and properties["bucket"] != str(self.buckets):
            yield Remark("sink.buckets", "contradicts table.properties.bucket", "remove one of them")
        yield from property_problems(properties, TABLE)


def property_problems(properties: Mapping[str, str], prefix: str = "", *, keyed: bool = True) -> Iterator[Remark]:
    """Report properties with which a table could not be kept equal to its source; `keyed`: it has a key."""
    for name, reason in (_DECIDED | _ABSENT).items():
        if name in properties:
            yield Remark(f"{prefix}{name}", f"cannot be used: {reason}", "remove the key")
    for name, (value, reason) in _VALUES.items():
        if (found := properties.get(name, value)).lower() != value:
            yield Remark(f"{prefix}{name}", f"cannot be {found}: {reason}", f"remove the key, or write {value}")
    if keyed:
        yield from _bucket_problems(properties.get("bucket", "1"), prefix)
    elif properties.get("bucket", "-1") != "-1":
        reason = "fixed buckets of a table without a key are not written"
        yield Remark(f"{prefix}bucket", reason, "route the rows to another table")


def _bucket_problems(bucket: str, prefix: str) -> Iterator[Remark]:
    key, hint = f"{prefix}bucket", "write a number of buckets, such as 4"
    if bucket == "-1":
        yield Remark(key, "dynamic buckets: tasks that add one key at a time would keep it twice", hint)
    elif bucket == "-2":
        yield Remark(key, "postponed buckets: rows would not be visible until another system has compacted", hint)
    elif not bucket.isdigit() or not 1 <= int(bucket) <= 65_536:
        yield Remark(key, f"must be a number of buckets (got {bucket})", hint)


def existing_problems(properties: Mapping[str, str], *, keyed: bool) -> Iterator[Remark]:
    """Report the same of an existing table: without the option, as Flink CDC creates them, its buckets are dynamic."""
    for remark in property_problems({"bucket": "-1", **properties}, keyed=keyed):
        hint = "recreate it with a number of buckets, or route the rows to another table"
        yield replace(remark, hint=hint) if remark.key == "bucket" else remark

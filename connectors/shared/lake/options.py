"""Options shared by sinks of lakes: catalog secrets, compaction, sizes, tables without a key."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ValidationInfo, model_validator

from cdc.options import AnyCase, Duration, Field, SecretStr, SinkOptions
from cdc.schema import TableId
from cdc.units import named

CATALOG, TABLE = "catalog.properties.", "table.properties."
_SECRET = ("secret", "password", "token", "access-key", "accesskey", "credential")
_FIELDS = re.compile(r",(?![^(\[]*[)\]])")
"""Matches a comma outside of brackets."""


def is_secret(name: str) -> bool:
    """Return whether a property of that name holds a secret."""
    return any(word in name.lower() for word in _SECRET)


def shown_address(uri: str | None) -> str:
    """Return an address without user, password and parameters, which may be secret."""
    return re.sub(r"//[^/@]*@", "//", uri or "").split("?")[0]


def from_folder(text: str, info: ValidationInfo, kind: str) -> str:
    """Resolve a warehouse: a folder relative to that of the pipeline file; a URL, or a name in a REST catalog, stays.

    `kind` is the field with the kind of the catalog.
    """
    if "://" in named(text) or info.data.get(kind) == "rest":
        return text
    return os.path.abspath(os.path.join((info.context or {}).get("folder") or "", os.path.expanduser(text)))


class LakeSinkOptions(SinkOptions):
    """Options shared by sinks of lakes."""

    accepts_table_options: ClassVar[bool] = True
    accepts_partition_keys: ClassVar[bool] = True

    secrets: dict[str, SecretStr] = Field(default_factory=dict, exclude=True, json_schema_extra={"internal": True})
    """Catalog properties that are secret, by name."""
    compaction: Annotated[Literal["own", "off"], AnyCase] = Field(
        "own",
        alias="sink.compaction",
        description="`own`: small files are merged and old snapshots expire, between batches and with `cdc compact`. "
        "`off`: another system does that.",
    )
    compact_files: int = Field(
        20,
        alias="sink.compaction.files",
        ge=2,
        description="Number of files of similar size per bucket or partition, or of delete files per data file, "
        "after which they are merged.",
    )
    threads: int = Field(
        4,
        alias="sink.io.thread-count",
        ge=1,
        le=64,
        description="Number of tables that one task writes at the same time, and that the driver commits at the "
        "same time.",
    )
    keyless: Annotated[Literal["fail", "skip"], AnyCase] = Field(
        "fail",
        alias="sink.keyless-changes",
        description="What to do with updates and deletes of tables without a key, which are append-only: `fail` "
        "stops the run, `skip` skips and counts them.",
    )
    retry_timeout_s: Duration = Field(
        600.0,
        alias="retry-timeout",
        description="How long an unavailable catalog or store is retried, with growing pauses.",
    )

    @model_validator(mode="before")
    @classmethod
    def _apart(cls, data: Any) -> Any:
        """Move secret properties to a type that does not print."""
        if not isinstance(data, dict) or "secrets" in data:
            return data
        secret = {str(key): text for key, text in data.items() if str(key).startswith(CATALOG) and is_secret(str(key))}
        rest = {key: text for key, text in data.items() if key not in secret}
        return {**rest, "secrets": {key.removeprefix(CATALOG): str(text) for key, text in secret.items()}}

    def properties_under(self, prefix: str) -> dict[str, str]:
        """Return the properties that the file gives under a prefix, by the rest of their names; without secret ones."""
        return {key.removeprefix(prefix): str(text) for key, text in self.passed.items() if key.startswith(prefix)}

    def shown_secrets(self) -> dict[str, str]:
        """Return the secret properties in clear text: for the library, never for a message."""
        return {name: text.get_secret_value() for name, text in self.secrets.items()}


def partition_keys(text: str) -> Mapping[TableId, tuple[str, ...]]:
    """Parse the partition fields of each table, in order: `db.t:day,region;db.u:bucket[16](id)`, as in Flink CDC.

    Empty text has no table. Raises ValueError with the problem.
    """
    found: dict[TableId, tuple[str, ...]] = {}
    for part in filter(None, (item.strip() for item in text.split(";"))):
        name, colon, fields = part.partition(":")
        table = TableId.parse(name.strip())
        names = tuple(field.strip() for field in _FIELDS.split(fields))
        if not colon or not table.database or not table.table or not all(names):
            raise ValueError(f"{part!r} is not `database.table:column,column`")
        if table in found:
            raise ValueError(f"{table} is named twice")
        if len({field.casefold() for field in names}) < len(names):
            raise ValueError(f"{table} has a partition field twice")
        found[table] = names
    return found

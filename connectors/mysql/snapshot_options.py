"""Options of the snapshot: which tables are copied, in what chunks, how fast.

Uses Flink CDC's names where they exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from cdc.options import AnyCase, AtLeast, Duration, Field, OptionError, Remark
from cdc.pattern import TablePattern
from cdc.pattern_options import BY_TABLE, PatternOption
from cdc.schema import TableId
from connectors.mysql.log_options import LogOptions

TableMode = Literal["initial", "latest-offset"]
OnPurged = Literal["fail", "resnapshot"]


def _key_columns(text: str) -> list[tuple[str, str]]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        pattern, colon, column = part.rpartition(":")
        if not colon or not pattern.strip() or not column.strip():
            raise OptionError(f"`{part}` is not a table with its column", "write shop.orders:id;shop.log_[0-9]+:at")
        found.append((pattern.strip(), column.strip()))
    return found


KeyColumnsText = Annotated[str, PatternOption(lambda text: [pattern for pattern, _ in _key_columns(text)])]


def _by_table(given: object) -> object:
    """Convert filters in a list or in Flink CDC's text form to a mapping; leave any other value to validation."""
    if isinstance(given, str):
        given = [_entry(part) for part in _PARTS.findall(given) if part.strip()]
    if not isinstance(given, list):
        return given
    filters: dict[str, Any] = {}
    for number, entry in enumerate(given, start=1):
        if not isinstance(entry, dict) or entry.keys() != {"table", "filter"} or not isinstance(entry["table"], str):
            raise OptionError(
                f"entry {number} is not `table` with `filter`", "write {table: shop.orders, filter: id > 9}"
            )
        if entry["table"] in filters:
            raise OptionError(f"`{entry['table']}` is there twice", "join both conditions with AND or OR")
        filters[entry["table"]] = entry["filter"]
    return filters


_PARTS = re.compile(r"""(?:[^;'"`]|'[^']*'|"[^"]*"|`[^`]*`|['"`])+""")
"""Matches one filter of a text; semicolons outside quotes separate filters."""


def _entry(text: str) -> dict[str, str]:
    table, colon, condition = text.partition(":")
    if not colon:
        raise OptionError(
            f"`{text.strip()}` is not a table with its filter", "write shop.orders:id > 9;shop.log:id < 5"
        )
    return {"table": table.strip(), "filter": condition.strip()}


_EachForm = BeforeValidator(_by_table, json_schema_input_type=dict[str, str] | list[Any] | str)
Filters = Annotated[dict[str, str], BY_TABLE, _EachForm]
Modes = Annotated[dict[str, TableMode], BY_TABLE]


class SnapshotOptions(LogOptions):
    """Options of a source that copies tables before it follows the log."""

    start_keys: ClassVar[tuple[str, ...]] = ("scan.startup.", "scan.snapshot.filters")

    chunk_rows: int = Field(
        100_000,
        alias="scan.incremental.snapshot.chunk.size",
        ge=1,
        description="Approximate number of rows in one chunk; less for tables with long rows. Rows are streamed, "
        "so memory does not depend on it; a failed chunk is read again from its beginning (Flink CDC's "
        "default is 8096).",
    )
    chunk_key: KeyColumnsText | None = Field(
        None,
        alias="scan.incremental.snapshot.chunk.key-column",
        description="Column to split a table by, instead of its key: `shop.orders:id;shop.log_[0-9]+:at`. It must "
        "be the first column of an index, and in a table with a primary key a column of that key.",
    )
    chunk_factor_low: float = Field(
        0.05,
        alias="chunk-key.even-distribution.factor.lower-bound",
        ge=0,
        description="An integer key with fewer values per row than this, (max - min + 1) / rows, is split by "
        "queries instead of even ranges.",
    )
    chunk_factor_high: float = Field(
        1000.0,
        alias="chunk-key.even-distribution.factor.upper-bound",
        ge=1,
        description="The same for more values per row than this.",
    )
    snapshot_filters: Filters = Field(
        default_factory=dict,
        alias="scan.snapshot.filters",
        description="Rows to copy, by table: `{shop.orders: \"created > '2024-01-01'\"}`, each a condition in the "
        "server's SQL. The log is not filtered: changes of other rows are replicated. A list such as "
        "`[{table: shop.orders, filter: id > 9}]` is read too, and a text such as `shop.orders:id > "
        "9;shop.log:id < 5`.",
    )
    backfill_skip: bool = Field(
        False,
        alias="scan.incremental.snapshot.backfill.skip",
        description="Do not merge the changes made while a chunk's view was opened; they are delivered again from "
        "the log. Only for sinks that keep one row per key: others get duplicates.",
    )
    rows_per_second: int | None = Field(
        None,
        alias="scan.snapshot.rows-per-second",
        ge=1,
        description="Maximum number of rows to copy per second, of all tables together. Default: no limit.",
    )
    max_connections: int | None = Field(
        None,
        alias="scan.snapshot.max-connections",
        ge=1,
        description="Maximum number of connections that copy at the same time. Default: the pipeline's parallelism.",
    )
    max_connections_per_table: int | None = Field(
        None,
        alias="scan.snapshot.max-connections-per-table",
        ge=1,
        description="Maximum number of connections that copy the same table at the same time. Default: all.",
    )
    table_modes: Modes = Field(
        default_factory=dict,
        alias="scan.startup.table-modes",
        description="Startup mode of existing tables, by table, if different from the pipeline's: with "
        "`{shop.log_\\.*: latest-offset}` only changes are captured, with `initial` the tables are "
        "copied.",
    )
    on_purged: Annotated[OnPurged, AnyCase] = Field(
        "fail",
        alias="scan.on-purged",
        description="What to do if the server has purged unread log: `fail` stops with an error, `resnapshot` "
        "re-snapshots all tables.",
    )
    uncertain: Annotated[Literal["copy", "stop"], AnyCase] = Field(
        "copy",
        alias="schema-change.uncertain",
        description="What to do if the log does not contain the effect of a schema change on existing rows: `copy` "
        "re-snapshots the table while everything else continues, `stop` lets the sink apply changes "
        "that are certain and refuse the rest.",
    )
    copy_max_rows: int = Field(
        100_000_000,
        alias="schema-change.copy-max-rows",
        ge=0,
        description="A table with more rows, by the server's estimate, is not re-snapshotted automatically; the "
        "pipeline stops.",
    )
    cascades: Annotated[Literal["warn", "copy", "ignore"], AnyCase] = Field(
        "warn",
        alias="foreign-key-cascades",
        description="The effect of foreign key actions (`ON DELETE CASCADE`, `SET NULL`) is not in the log of "
        "MariaDB and of MySQL before 9.6: `warn` names such foreign keys at the start, `copy` "
        "re-snapshots the child table when referenced rows are deleted or change, `ignore` does "
        "nothing.",
    )
    cascades_interval_s: Annotated[Duration, AtLeast("0 s")] = Field(
        600.0,
        alias="foreign-key-cascades.interval",
        description="Minimum time between the starts of two such re-snapshots of a table.",
    )
    newly_added: bool = Field(
        True,
        alias="scan.newly-added-table.enabled",
        description="Copy tables that match `tables` after an edit of the file, while the log of the others is "
        "followed. When false, such a table stops the pipeline (Flink CDC's default is false, and "
        "ignores them).",
    )

    def chunk_key_column(self, table: TableId) -> str | None:
        """Return the split column configured for this table; None to choose one automatically."""
        chosen = _key_columns(self.chunk_key or "")
        return next((column for pattern, column in chosen if self._matches(pattern, table)), None)

    def snapshot_filter(self, table: TableId) -> str | None:
        """Return the condition for this table's rows; None to copy all rows."""
        return self._of(self.snapshot_filters, table)

    def table_mode(self, table: TableId) -> TableMode | None:
        """Return the startup mode of this table if it differs from the pipeline's."""
        mode = self._of(self.table_modes, table)
        return None if mode is None else "latest-offset" if mode == "latest-offset" else "initial"

    def problems(self) -> Iterator[Remark]:
        """Report bounds in the wrong order and empty conditions."""
        yield from super().problems()
        if self.chunk_factor_low > self.chunk_factor_high:
            key = "chunk-key.even-distribution.factor.lower-bound"
            yield Remark(key, "is above the upper bound", "make it less than 1")
        for pattern, text in self.snapshot_filters.items():
            if not text.strip():
                yield Remark("scan.snapshot.filters", f"`{pattern}` has an empty condition", "remove it")

    def warnings(self) -> Iterator[Remark]:
        """Warn of options that weaken the guarantees."""
        yield from super().warnings()
        if self.backfill_skip:
            key = "scan.incremental.snapshot.backfill.skip"
            yield Remark(key, "rows may come twice, so the sink must keep one row for each key")

    def _of(self, values: Mapping[str, str], table: TableId) -> str | None:
        return next((value for pattern, value in values.items() if self._matches(pattern, table)), None)

    def _matches(self, pattern: str, table: TableId) -> bool:
        return TablePattern(pattern, ignore_case=self.pattern.ignore_case).matches(table)

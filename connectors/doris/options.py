"""Options of the Doris sink; named as in Flink CDC where it has the same option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from cdc.options import AnyCase, Duration, Field, OptionError, Remark, SecretStr, Size
from connectors.shared.servers.address import Address, TimeLimits, parse_list
from connectors.shared.streamload.options import (
    BACKEND_PORT,
    BATCHES,
    HTTP_PORT,
    LOAD_PROPERTIES,
    SQL_PORT,
    TABLE_PROPERTIES,
    JdbcUrl,
    LoadSinkOptions,
    addresses,
    jdbc_addresses,
)
from connectors.shared.streamload.pack import Packing

_SET_BY_SINK = frozenset({
    "format", "column_separator", "line_delimiter", "columns", "two_phase_commit", "hidden_columns", "merge_type",
    "delete", "read_json_by_line", "strip_outer_array", "jsonpaths", "json_root", "fuzzy_parse", "num_as_string",
    "enclose", "escape", "trim_double_quotes", "empty_field_as_null", "skip_lines", "timeout", "timezone", "time_zone",
    "authorization", "expect", "content-length",
})  # fmt: skip
_HARMFUL = {
    "label": "labels are made by the sink; sink.label-prefix begins them",
    "group_commit": "rows would be committed at once, without a label",
    "where": "it would leave rows out",
    "partitions": "it would leave rows out",
    "temporary_partitions": "rows would go to another location",
    "negative": "it would remove rows",
    "partial_columns": "it would leave columns as they were",
    "unique_key_update_mode": "it would leave columns as they were",
    "enable_profile": "it slows every load down",
}
KEYED_PROPERTIES = ("enable_unique_key_merge_on_write", "enable_mow_light_delete", "function_column.")
"""How the names of properties begin that only UNIQUE tables take."""
KEYLESS_PROPERTIES = ("enable_duplicate_without_keys_by_default",)
"""How the names of properties begin that only DUPLICATE tables take."""
_PARTITIONS = "tables are created without partitions; to partition a table, create it yourself"


def _check_charset(text: str) -> str:
    if text.replace("-", "").replace("_", "").lower() not in ("utf8", "utf8mb4"):
        raise OptionError("must be UTF-8, the only one that Doris reads", "remove the key")
    return text


class DorisSinkOptions(LoadSinkOptions):
    """Loads into Apache Doris by stream load in two phases; a source database becomes a Doris database."""

    implementation: ClassVar[str] = "connectors.doris.sink:DorisSink"
    set_by_sink: ClassVar[frozenset[str]] = _SET_BY_SINK
    harmful: ClassVar[Mapping[str, str]] = _HARMFUL
    harmless: ClassVar[frozenset[str]] = frozenset({"", "false", "off_mode", "upsert", "0", "0.0"})
    keyed_properties: ClassVar[tuple[str, ...]] = KEYED_PROPERTIES
    keyless_properties: ClassVar[tuple[str, ...]] = KEYLESS_PROPERTIES
    packing_header: ClassVar[str] = "compress_type"
    packings: ClassVar[Mapping[str, Packing]] = {"": "", "gz": "gzip", "lz4": "lz4"}
    prefixes: ClassVar[dict[str, str]] = {
        TABLE_PROPERTIES: "Properties of new tables, such as `table.create.properties.replication_num`.",
        LOAD_PROPERTIES: "Headers of the loads, such as `sink.properties.compress_type: gz`.",
    }
    flink_only: ClassVar[dict[str, str]] = {
        "sink.enable.batch-mode": "every load is prepared and committed with its batch, which is exactly once; Flink "
        "CDC's batch mode is at least once (sink.delivery-guarantee chooses)",
        "sink.flush.queue-size": BATCHES,
        "sink.buffer-flush.max-rows": BATCHES,
        "sink.buffer-flush.max-bytes": BATCHES,
        "sink.buffer-flush.interval": BATCHES,
        "sink.buffer-size": BATCHES,
        "sink.buffer-count": BATCHES,
        "sink.check-interval": "a failed load reports it in its response",
        "sink.use-cache": "the source's log is read again instead",
        "sink.max-retries": "a failed load is sent again by its task; after a commit without a response the label "
        "is queried",
        "sink.ignore.update-before": "an update that changes the key always removes the old row",
        "table.create.auto-partition.properties.*": _PARTITIONS,
    }

    drafted: ClassVar[dict[str, str]] = {"fenodes": "127.0.0.1:8030", "username": "root", "password": ""}

    type: Literal["doris"] = Field(description="Connector name.")
    fenodes: Annotated[str, addresses(HTTP_PORT, f"fe1:{HTTP_PORT},fe2:{HTTP_PORT}")] = Field(
        description="HTTP addresses of front ends: `fe1:8030,fe2:8030`, with `https://` for TLS. The first one "
        "that answers is used.",
    )
    benodes: Annotated[str, addresses(BACKEND_PORT, f"be1:{BACKEND_PORT},be2:{BACKEND_PORT}")] | None = Field(
        None,
        description="HTTP addresses of back ends: `be1:8040,be2:8040`. Rows are sent directly to them, in turn. "
        "Needed if the addresses given by the front ends are not reachable.",
    )
    jdbc_url: JdbcUrl | None = Field(
        None,
        alias="jdbc-url",
        description="SQL addresses of front ends: `jdbc:mysql://fe1:9030,fe2:9030`. Default: the hosts of "
        "`fenodes`, port 9030.",
    )
    auto_redirect: bool = Field(
        True,
        alias="auto-redirect",
        description="Whether a front end chooses the back end of every load (Flink CDC: false). When false, the "
        "list of back ends is queried, and rows are sent directly to them. No effect with `benodes`.",
    )
    password: SecretStr = Field(
        SecretStr(""), description="Password of the user; take it from `${NAME}` or `${file:path}`."
    )
    charset: Annotated[str, AfterValidator(_check_charset)] = Field(
        "UTF-8", alias="charset-encoding", description="Encoding of the data; Doris only supports UTF-8."
    )
    delivery_guarantee: Annotated[Literal["exactly-once", "at-least-once"], AnyCase] = Field(
        "exactly-once",
        alias="sink.delivery-guarantee",
        description="`exactly-once`: workers prepare rows in Doris, the driver commits them with the batch. "
        "`at-least-once`: rows are committed as they are loaded, and loaded again after a crash; "
        "needed if Doris refuses two-phase commit (decoupled storage and compute, with unique keys).",
    )
    enable_2pc: bool | None = Field(
        None,
        alias="sink.enable-2pc",
        description="Flink CDC's option for two-phase commit (false by default there). `false` has no effect: set "
        "`sink.delivery-guarantee: at-least-once` instead.",
    )
    longest_string: Size = Field(
        1 << 20,
        alias="sink.string-limit",
        ge=65_536,
        description="The back ends' `string_type_length_soft_limit_bytes`: longer values of STRING columns are "
        "detected before they are sent.",
    )
    load_size: Size = Field(
        2 << 30,
        alias="sink.load-size",
        ge=1 << 20,
        description="Maximum size of one load before the next one starts; must be below the back ends' "
        "`streaming_load_max_mb` (10 GB).",
    )
    connect_timeout_s: Duration = Field(
        10.0, alias="sink.connect.timeout", gt=0, description="Timeout for establishing a connection."
    )

    def problems(self) -> Iterator[Remark]:
        """Report options that contradict each other."""
        yield from super().problems()
        if self.enable_2pc and self.delivery_guarantee == "at-least-once":
            yield Remark("sink.enable-2pc", "contradicts sink.delivery-guarantee: at-least-once", "remove one of them")

    def warnings(self) -> Iterator[Remark]:
        """Warn of settings that have no effect, or another one than their name says."""
        yield from super().warnings()
        if self.enable_2pc is False:
            yield Remark(
                "sink.enable-2pc",
                "has no effect: rows are committed exactly once (Flink CDC would load them at least once)",
                "sink.delivery-guarantee: at-least-once is without two-phase commit",
            )

    def http_frontends(self) -> tuple[Address, ...]:
        """The hosts of `fenodes`."""
        return parse_list(self.fenodes, default_port=HTTP_PORT)

    def sql_frontends(self) -> tuple[Address, ...]:
        """The hosts of `jdbc-url`, else those of `fenodes`."""
        if self.jdbc_url is not None:
            return jdbc_addresses(self.jdbc_url)
        return tuple(replace(address, port=SQL_PORT, secure=False) for address in self.http_frontends())

    def time_limits(self) -> TimeLimits:
        """The time limits of connections and loads."""
        return TimeLimits(connect_s=self.connect_timeout_s, answer_s=self.load_timeout_s)

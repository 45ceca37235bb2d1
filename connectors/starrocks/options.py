"""Options of the StarRocks sink; named as in Flink CDC where it has the same option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from cdc.options import AnyCase, Duration, Field, Remark
from connectors.shared.servers.address import Address, TimeLimits, parse_list
from connectors.shared.streamload.options import (
    BATCHES,
    HTTP_PORT,
    LOAD_PROPERTIES,
    TABLE_PROPERTIES,
    JdbcUrl,
    LoadSinkOptions,
    addresses,
    jdbc_addresses,
)
from connectors.shared.streamload.pack import Packing

_SET_BY_SINK = frozenset({
    "columns", "format", "column_separator", "row_delimiter",
    "jsonpaths", "json_root", "strip_outer_array", "ignore_json_size", "enclose", "escape", "skip_header", "trim_space",
    "content-encoding", "timeout", "idle_transaction_timeout", "prepared_timeout", "authorization", "expect",
    "content-length",
})  # fmt: skip
_ROUTED = "routes say where rows go"
_HARMFUL = {
    "label": "labels are made by the sink; sink.label-prefix begins them",
    "db": _ROUTED,
    "table": _ROUTED,
    "where": "it would leave rows out",
    "partial_update": "it would leave columns out",
    "partial_update_mode": "it would leave columns out",
    "merge_condition": "it would leave rows out",
    "transaction_type": "loads of this sink are transactions of one table",
}
_ANSWER_S = 600.0
KEYED_PROPERTIES = ("enable_persistent_index", "persistent_index_type", "primary_index_cache_expire_sec")
"""Properties that only PRIMARY KEY tables take."""


class StarRocksSinkOptions(LoadSinkOptions):
    """Loads into StarRocks with its transaction interface; a source database becomes a StarRocks database."""

    implementation: ClassVar[str] = "connectors.starrocks.sink:StarRocksSink"
    set_by_sink: ClassVar[frozenset[str]] = _SET_BY_SINK
    harmful: ClassVar[Mapping[str, str]] = _HARMFUL
    harmless: ClassVar[frozenset[str]] = frozenset({"", "false"})
    keyed_properties: ClassVar[tuple[str, ...]] = KEYED_PROPERTIES
    packing_header: ClassVar[str] = "compression"
    packings: ClassVar[Mapping[str, Packing]] = {"": "", "gzip": "gzip", "lz4_frame": "lz4", "zstd": "zstd"}
    prefixes: ClassVar[dict[str, str]] = {
        TABLE_PROPERTIES: "Properties of new tables, such as `table.create.properties.replication_num`.",
        LOAD_PROPERTIES: "Headers of the loads, such as `sink.properties.compression: lz4_frame`.",
    }
    flink_only: ClassVar[dict[str, str]] = {
        "sink.buffer-flush.max-bytes": BATCHES,
        "sink.buffer-flush.max-rows": BATCHES,
        "sink.buffer-flush.interval-ms": BATCHES,
        "sink.scan-frequency.ms": BATCHES,
        "sink.at-least-once.use-transaction-stream-load": "every load is a transaction that is prepared and committed",
        "sink.metric.histogram-window-size": "see the status line and the summary of the run",
        "sink.max-retries": "a failed load is sent again by its task; after a commit without a response the label "
        "is queried",
        "sink.semantic": "use sink.delivery-guarantee; exactly-once is the default",
        "sink.version": "there is one version of this sink",
    }

    flink_defaults: ClassVar[dict[str, str]] = {"unicode-char.max-bytes": "3", "sink.io.thread-count": "2"}

    drafted: ClassVar[dict[str, str]] = {
        "jdbc-url": "jdbc:mysql://127.0.0.1:9030", "load-url": "127.0.0.1:8030", "username": "root", "password": "",
    }  # fmt: skip

    type: Literal["starrocks"] = Field(description="Connector name.")
    jdbc_url: JdbcUrl = Field(
        alias="jdbc-url",
        description="SQL addresses of front ends: `jdbc:mysql://fe1:9030,fe2:9030`. The first one that answers is "
        "used.",
    )
    load_url: Annotated[str, addresses(HTTP_PORT, f"fe1:{HTTP_PORT};fe2:{HTTP_PORT}")] = Field(
        alias="load-url",
        description="HTTP addresses of front ends: `fe1:8030;fe2:8030`, with `https://` for TLS. The first one "
        "that answers is used. They redirect to back ends, which this machine and Spark's workers must "
        "reach.",
    )
    delivery_guarantee: Annotated[Literal["exactly-once", "at-least-once"], AnyCase] = Field(
        "exactly-once",
        alias="sink.delivery-guarantee",
        description="`exactly-once`: workers prepare rows in StarRocks, the driver commits them. `at-least-once`: "
        "rows are staged in the state directory, and the driver loads them once the batch is decided; "
        "a load that StarRocks has forgotten is loaded again.",
    )
    connect_timeout_ms: int = Field(
        30_000,
        alias="sink.connect.timeout-ms",
        ge=100,
        le=600_000,
        description="Timeout for establishing a connection.",
    )
    continue_timeout_ms: int = Field(
        30_000,
        alias="sink.wait-for-continue.timeout-ms",
        ge=3_000,
        le=600_000,
        description="How long a back end may take to plan a load before it accepts rows (`100 Continue`).",
    )
    socket_timeout_ms: int = Field(
        -1,
        alias="sink.socket.timeout-ms",
        ge=-1,
        le=86_400_000,
        description="Timeout of a response. -1: 600 seconds.",
    )
    prepared_timeout_s: Duration | None = Field(
        None,
        alias="sink.prepared-timeout",
        description="How long StarRocks keeps a prepared load, such as `3 d` (StarRocks 3.5.4 and later): longer "
        "than any downtime of the pipeline. Default: the server's setting, one day.",
    )
    character_bytes: int = Field(
        4,
        alias="unicode-char.max-bytes",
        ge=1,
        le=4,
        description="Bytes of a VARCHAR per character of the source's (Flink CDC's default is 3, which is too "
        "short for some utf8mb4 text).",
    )
    json_type: Annotated[Literal["string", "json"], AnyCase] = Field(
        "string",
        alias="table.create.json-type",
        description="Type of JSON columns: `string` keeps MySQL's text, `json` is StarRocks' own type, which has "
        "doubles as numbers and a limit of 16 MB.",
    )
    key_bytes: int = Field(
        128,
        alias="sink.max-key-bytes",
        ge=1,
        description="The back ends' `primary_key_limit_size`: rows with longer keys are detected before they are sent.",
    )
    buckets: int | None = Field(
        None, alias="table.create.num-buckets", ge=1, description="Buckets of new tables. Default: StarRocks chooses."
    )

    def warnings(self) -> Iterator[Remark]:
        """Warn of settings with which some values do not fit."""
        yield from super().warnings()
        if self.character_bytes < 4:
            yield Remark("unicode-char.max-bytes", "text with 4-byte characters may not fit; such rows stop the run")

    @property
    def most_key_bytes(self) -> int | None:
        """The most bytes that the back ends allow in a key."""
        return self.key_bytes

    def http_frontends(self) -> tuple[Address, ...]:
        """The hosts of `load-url`."""
        return parse_list(self.load_url, default_port=HTTP_PORT)

    def sql_frontends(self) -> tuple[Address, ...]:
        """The hosts of `jdbc-url`."""
        return jdbc_addresses(self.jdbc_url)

    def time_limits(self) -> TimeLimits:
        """The time limits of connections and loads."""
        return TimeLimits(
            connect_s=self.connect_timeout_ms / 1000,
            continue_s=self.continue_timeout_ms / 1000,
            answer_s=_ANSWER_S if self.socket_timeout_ms <= 0 else self.socket_timeout_ms / 1000,
        )

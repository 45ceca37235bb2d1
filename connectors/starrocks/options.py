"""Options of the StarRocks sink; names are Flink CDC's where it has the option."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from cdc.options import AnyCase, Duration, Field, FilePath, OptionError, Remark, SecretStr, SinkOptions
from connectors.streamload.address import Address, parse_list
from connectors.streamload.labels import check_prefix

HTTP_PORT, SQL_PORT = 8030, 9030
_JDBC = re.compile(r"jdbc:mysql(?:\+srv|:loadbalance|:replication)?://([^/?#]+)(?:[/?#].*)?", re.IGNORECASE)

TABLE_PROPERTIES, LOAD_PROPERTIES = "table.create.properties.", "sink.properties."
_OWN_HEADERS = frozenset({
    "db", "table", "label", "columns", "format", "column_separator", "row_delimiter", "strict_mode", "max_filter_ratio",
    "jsonpaths", "json_root", "strip_outer_array", "ignore_json_size", "enclose", "escape", "skip_header", "trim_space",
    "compression", "timeout", "idle_transaction_timeout", "prepared_timeout", "transaction_type", "where",
    "partial_update", "partial_update_mode", "merge_condition", "authorization", "expect", "content-length",
})  # fmt: skip
_HARMFUL = {
    "where": "it would leave rows out",
    "partial_update": "it would leave columns out",
    "partial_update_mode": "it would leave columns out",
    "merge_condition": "it would leave rows out",
    "transaction_type": "loads of this sink are transactions of one table",
}


def _check_label_prefix(text: str) -> str:
    try:
        return check_prefix(text)
    except ValueError as error:
        raise OptionError(str(error), "it is the first part of every load label") from None


def jdbc_addresses(text: str) -> tuple[Address, ...]:
    """The front ends of a JDBC URL, `jdbc:mysql://fe1:9030,fe2:9030/db?...`. Raises ValueError."""
    match = _JDBC.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be jdbc:mysql://host:port, further hosts after a comma")
    if "@" in match[1]:
        raise ValueError("must not hold a user: it has options of its own")
    return parse_list(match[1], default_port=SQL_PORT, separators=",")


def _check_jdbc(text: str) -> str:
    try:
        jdbc_addresses(text)
    except ValueError as error:
        raise OptionError(str(error), f"such as jdbc:mysql://fe1:{SQL_PORT},fe2:{SQL_PORT}") from None
    return text


def _check_load_url(text: str) -> str:
    try:
        parse_list(text, default_port=HTTP_PORT)
    except ValueError as error:
        raise OptionError(str(error), f"such as fe1:{HTTP_PORT};fe2:{HTTP_PORT}") from None
    return text


def _check_region(text: str) -> str:
    try:
        return zoneinfo.ZoneInfo(text).key
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise OptionError(f"time zone {text!r} is not known", "write a region such as Asia/Shanghai, or UTC") from None


_BATCHES = "a batch is a range of the source's log: its size is source max-batch-bytes, and it is sent as it is read"


class StarRocksSinkOptions(SinkOptions):
    """Loads into StarRocks with its transaction interface; a source database becomes a StarRocks database."""

    implementation: ClassVar[str] = "connectors.starrocks.sink:StarRocksSink"
    prefixes: ClassVar[dict[str, str]] = {
        TABLE_PROPERTIES: "Properties of new tables, such as `table.create.properties.replication_num`.",
        LOAD_PROPERTIES: "Headers of the loads, such as `sink.properties.load_mem_limit`.",
    }
    flink_only: ClassVar[dict[str, str]] = {
        "sink.buffer-flush.max-bytes": _BATCHES,
        "sink.buffer-flush.max-rows": _BATCHES,
        "sink.buffer-flush.interval-ms": _BATCHES,
        "sink.scan-frequency.ms": _BATCHES,
        "sink.at-least-once.use-transaction-stream-load": "every load is a transaction that is prepared and committed",
        "sink.metric.histogram-window-size": "the status line and the summary of the run show what was loaded",
        "sink.max-retries": "a load that fails is sent again by its task; a commit is settled by asking for its label",
        "sink.semantic": "sink.delivery-guarantee says it; exactly-once is the default",
        "sink.version": "there is one version of this sink",
    }

    type: Literal["starrocks"] = Field(description="Connector name.")
    jdbc_url: Annotated[str, AfterValidator(_check_jdbc)] = Field(
        alias="jdbc-url",
        description="Where front ends speak SQL: `jdbc:mysql://fe1:9030,fe2:9030`. The first that answers is used.",
    )
    load_url: Annotated[str, AfterValidator(_check_load_url)] = Field(
        alias="load-url",
        description="Where front ends speak HTTP: `fe1:8030;fe2:8030`, each with `https://` before it for TLS. The "
        "first that answers is used. They name the back ends, which this machine and Spark's workers have to reach.",
    )
    username: str = Field(min_length=1, description="User of StarRocks.")
    password: SecretStr = Field(
        description="Password of the user, may be empty; take it from `${NAME}` or `${file:path}`."
    )
    delivery_guarantee: Annotated[Literal["exactly-once", "at-least-once"], AnyCase] = Field(
        "exactly-once",
        alias="sink.delivery-guarantee",
        description="`exactly-once`: workers prepare rows in StarRocks, the driver commits them. `at-least-once`: rows "
        "wait in the state directory, and the driver loads them once the batch is decided; a load that StarRocks has "
        "forgotten since is loaded again.",
    )
    label_prefix: Annotated[str, AfterValidator(_check_label_prefix)] = Field(
        "cdc",
        alias="sink.label-prefix",
        description="First part of every load label. Labels are made unique by the pipeline's id.",
    )
    connect_timeout: int = Field(
        30_000, alias="sink.connect.timeout-ms", ge=100, le=600_000, description="How long a connection may take."
    )
    continue_timeout: int = Field(
        30_000,
        alias="sink.wait-for-continue.timeout-ms",
        ge=3_000,
        le=600_000,
        description="How long a back end may take to plan a load before it takes the rows (`100 Continue`).",
    )
    socket_timeout: int = Field(
        -1,
        alias="sink.socket.timeout-ms",
        ge=-1,
        le=86_400_000,
        description="How long an answer may take. -1: 600 seconds.",
    )
    threads: int = Field(
        4,
        alias="sink.io.thread-count",
        ge=1,
        le=64,
        description="How many tables one task encodes and sends at a time, and how many the driver commits at a time.",
    )
    load_timeout: Duration = Field(
        600.0,
        alias="sink.load.timeout",
        description="How long a load may take from its beginning until it is prepared; StarRocks aborts it after that.",
    )
    prepared_timeout: Duration | None = Field(
        None,
        alias="sink.prepared-timeout",
        description="How long StarRocks keeps a prepared load for its commit, such as `3 d` (StarRocks 3.5.4 and "
        "later): longer than the longest outage of this tool. Default: the server's setting, one day.",
    )
    enable_delete: bool = Field(
        True,
        alias="sink.enable-delete",
        description="Whether deletes are carried out. When false, deleted rows stay, and are counted.",
    )
    character_bytes: int = Field(
        4,
        alias="unicode-char.max-bytes",
        ge=1,
        le=4,
        description="Bytes that a VARCHAR gets for each character of the source's (Flink CDC's default is 3, into "
        "which not every utf8mb4 text fits).",
    )
    json_type: Annotated[Literal["string", "json"], AnyCase] = Field(
        "string",
        alias="table.create.json-type",
        description="What JSON columns become: `string` keeps MySQL's text, `json` is StarRocks' own type, which keeps "
        "numbers as doubles and up to 16 MB.",
    )
    misfits: Annotated[Literal["fail", "null", "truncate", "dead-letter"], AnyCase] = Field(
        "fail",
        alias="sink.invalid-values",
        description="What becomes of a value that the column in StarRocks cannot hold: `fail` stops the run and names "
        "it, `null` and `truncate` change it, `dead-letter` writes the row to a file instead. All but `fail` count it.",
    )
    dead_letters: FilePath | None = Field(
        None,
        alias="sink.dead-letter.path",
        description="Folder or filesystem URL for the rows of `sink.invalid-values: dead-letter`.",
    )
    keyless: Annotated[Literal["fail", "skip"], AnyCase] = Field(
        "fail",
        alias="sink.keyless-changes",
        description="What becomes of updates and deletes of tables without a key, which StarRocks cannot carry out: "
        "`fail` stops the run, `skip` leaves them out, counted.",
    )
    time_zone: Annotated[str, AfterValidator(_check_region)] = Field(
        "UTC",
        alias="sink.time-zone",
        description="Time zone whose wall clock TIMESTAMP values are written in, such as `Asia/Shanghai`: a DATETIME "
        "has no zone.",
    )
    key_bytes: int = Field(
        128,
        alias="sink.max-key-bytes",
        ge=1,
        description="The back ends' `primary_key_limit_size`: rows with longer keys are found before they are sent.",
    )
    buckets: int | None = Field(
        None, alias="table.create.num-buckets", ge=1, description="Buckets of new tables. Default: StarRocks chooses."
    )
    schema_change_timeout: Duration = Field(
        1800.0,
        alias="table.schema-change.timeout",
        description="How long to wait for one schema change, which StarRocks carries out in a job of its own.",
    )
    tls_ca: FilePath | None = Field(
        None, alias="sink.tls.ca", description="PEM file of the authority that signed the front ends' certificates."
    )
    tls_verify: bool = Field(
        True, alias="sink.tls.verify", description="Whether certificates and host names are checked."
    )
    tls_plain_backends: bool = Field(
        False,
        alias="sink.tls.plain-backends",
        description="Whether a front end that is reached over TLS may send rows and the password to a plain back end.",
    )
    tls_sql: bool = Field(False, alias="sink.tls.sql", description="Whether SQL sessions use TLS.")

    def problems(self) -> Iterator[Remark]:
        """Headers that would lose rows, or break what the sink sends."""
        yield from super().problems()
        if self.misfits == "dead-letter" and self.dead_letters is None:
            yield Remark("sink.dead-letter.path", "is required with sink.invalid-values: dead-letter", "name a folder")
        for key, text in self.headers(of_ours=True):
            name = key.removeprefix(LOAD_PROPERTIES).lower()
            if name in _HARMFUL and text.lower() not in ("", "false"):
                yield Remark(key, f"cannot be used: {_HARMFUL[name]}", "remove the key")
            if name == "max_filter_ratio" and text.strip("0.") != "":
                yield Remark(key, "would lose the rows that StarRocks filters", "remove the key: every row counts")
            if name in ("label", "db", "table"):
                yield Remark(key, "is set by the sink", "remove the key; sink.label-prefix begins the labels")

    def warnings(self) -> Iterator[Remark]:
        """Headers without effect, and settings that lose what the defaults keep."""
        yield from super().warnings()
        for key, text in self.headers(of_ours=True):
            name = key.removeprefix(LOAD_PROPERTIES).lower()
            if name == "strict_mode" and text.lower() == "false":
                yield Remark(key, "has no effect: loads are strict, as otherwise bad values would become NULL silently")
            elif name not in _HARMFUL and name not in ("label", "db", "table", "max_filter_ratio"):
                yield Remark(
                    key, "has no effect: the sink encodes rows by itself and sets this header", "remove the key"
                )
        if self.character_bytes < 4:
            yield Remark("unicode-char.max-bytes", "text with 4-byte characters may not fit; such rows stop the run")
        if self.delivery_guarantee == "at-least-once":
            yield Remark("sink.delivery-guarantee", "tables without a key may get rows twice", "exactly-once is safe")

    def headers(self, *, of_ours: bool) -> list[tuple[str, str]]:
        """Keys and texts of `sink.properties.*`: those that the sink sets itself, or the others."""
        return [
            (key, str(text))
            for key, text in self.passed.items()
            if key.startswith(LOAD_PROPERTIES)
            and (key.removeprefix(LOAD_PROPERTIES).lower() in _OWN_HEADERS) is of_ours
        ]

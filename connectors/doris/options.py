"""Options of the Doris sink; names are Flink CDC's where it has the option."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from cdc.options import AnyCase, Duration, Field, FilePath, OptionError, Remark, SecretStr, SinkOptions, Size
from connectors.streamload.address import Address, parse_list
from connectors.streamload.labels import check_prefix

HTTP_PORT, BACKEND_PORT, SQL_PORT = 8030, 8040, 9030
TABLE_PROPERTIES, LOAD_PROPERTIES = "table.create.properties.", "sink.properties."
_JDBC = re.compile(r"jdbc:mysql(?:\+srv|:loadbalance|:replication)?://([^/?#]+)(?:[/?#].*)?", re.IGNORECASE)

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
    "temporary_partitions": "rows would go to another place",
    "negative": "it would take rows back",
    "partial_columns": "it would leave columns as they were",
    "unique_key_update_mode": "it would leave columns as they were",
    "enable_profile": "it slows every load down",
}
_HARMLESS = frozenset({"", "false", "off_mode", "upsert", "0", "0.0"})
_BATCHES = "a batch is a range of the source's log: its size is source max-batch-bytes, and it is sent as it is read"
_PARTITIONS = "tables are created without partitions; create a table yourself to partition it, the sink fills it"


def _check_label_prefix(text: str) -> str:
    try:
        return check_prefix(text)
    except ValueError as error:
        raise OptionError(str(error), "it is the first part of every load label") from None


def _addresses(port: int, name: str) -> AfterValidator:
    def check(text: str | None) -> str | None:
        if text is not None:
            try:
                parse_list(text, default_port=port)
            except ValueError as error:
                raise OptionError(str(error), f"such as {name}1:{port},{name}2:{port}") from None
        return text

    return AfterValidator(check)


def jdbc_addresses(text: str) -> tuple[Address, ...]:
    """The front ends of a JDBC URL, `jdbc:mysql://fe1:9030,fe2:9030/db?...`. Raises ValueError."""
    match = _JDBC.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be jdbc:mysql://host:port, further hosts after a comma")
    if "@" in match[1]:
        raise ValueError("must not hold a user: it has options of its own")
    return parse_list(match[1], default_port=SQL_PORT, separators=",")


def _check_jdbc(text: str | None) -> str | None:
    if text is not None:
        try:
            jdbc_addresses(text)
        except ValueError as error:
            raise OptionError(str(error), f"such as jdbc:mysql://fe1:{SQL_PORT},fe2:{SQL_PORT}") from None
    return text


def _check_region(text: str) -> str:
    try:
        zoneinfo.ZoneInfo(text)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise OptionError(f"time zone {text!r} is not known", "write UTC or a region such as Asia/Shanghai") from error
    return text


def _check_charset(text: str) -> str:
    if text.replace("-", "").replace("_", "").lower() not in ("utf8", "utf8mb4"):
        raise OptionError("must be UTF-8, the only one that Doris reads", "remove the key")
    return text


class DorisSinkOptions(SinkOptions):
    """Loads into Apache Doris by stream load in two phases; a source database becomes a Doris database."""

    implementation: ClassVar[str] = "connectors.doris.sink:DorisSink"
    prefixes: ClassVar[dict[str, str]] = {
        TABLE_PROPERTIES: "Properties of new tables, such as `table.create.properties.replication_num`.",
        LOAD_PROPERTIES: "Headers of the loads, such as `sink.properties.compress_type: gz`.",
    }
    flink_only: ClassVar[dict[str, str]] = {
        "sink.enable.batch-mode": "every load is prepared and committed with its batch, which is exactly once; Flink "
        "CDC's batch mode is at least once (sink.delivery-guarantee chooses)",
        "sink.flush.queue-size": _BATCHES,
        "sink.buffer-flush.max-rows": _BATCHES,
        "sink.buffer-flush.max-bytes": _BATCHES,
        "sink.buffer-flush.interval": _BATCHES,
        "sink.buffer-size": _BATCHES,
        "sink.buffer-count": _BATCHES,
        "sink.check-interval": "a load that fails says so in its answer",
        "sink.use-cache": "the source's log is read again instead",
        "sink.max-retries": "a load that fails is sent again by its task; a commit is settled by asking for its label",
        "sink.ignore.update-before": "an update that changes the key always removes the old row",
        "table.create.auto-partition.properties.*": _PARTITIONS,
    }

    type: Literal["doris"] = Field(description="Connector name.")
    fenodes: Annotated[str, _addresses(HTTP_PORT, "fe")] = Field(
        description="Where front ends speak HTTP: `fe1:8030,fe2:8030`, each with `https://` before it for TLS. The "
        "first that answers is used.",
    )
    benodes: Annotated[str | None, _addresses(BACKEND_PORT, "be")] = Field(
        None,
        description="Where back ends speak HTTP: `be1:8040,be2:8040`. Rows go straight there, in turns. Needed where "
        "the addresses that front ends name do not work from here.",
    )
    jdbc_url: Annotated[str | None, AfterValidator(_check_jdbc)] = Field(
        None,
        alias="jdbc-url",
        description="Where front ends speak SQL: `jdbc:mysql://fe1:9030,fe2:9030`. Default: the hosts of `fenodes`, "
        "port 9030.",
    )
    auto_redirect: bool = Field(
        True,
        alias="auto-redirect",
        description="Whether a front end chooses the back end of every load (Flink CDC: false). When false, the list "
        "of back ends is asked for, and rows go straight there. No effect with `benodes`.",
    )
    username: str = Field(min_length=1, description="User of Doris.")
    password: SecretStr = Field(
        SecretStr(""), description="Password of the user; take it from `${NAME}` or `${file:path}`."
    )
    charset: Annotated[str, AfterValidator(_check_charset)] = Field(
        "UTF-8", alias="charset-encoding", description="Of the text that is sent. Doris reads UTF-8 alone."
    )
    delivery_guarantee: Annotated[Literal["exactly-once", "at-least-once"], AnyCase] = Field(
        "exactly-once",
        alias="sink.delivery-guarantee",
        description="`exactly-once`: workers prepare rows in Doris, the driver commits them with the batch. "
        "`at-least-once`: rows are committed as they are loaded, and loaded again after a crash; needed where Doris "
        "refuses two-phase commit (storage apart from compute, with unique keys).",
    )
    enable_2pc: bool | None = Field(
        None,
        alias="sink.enable-2pc",
        description="Flink CDC's word for `sink.delivery-guarantee` (false by default there). `false` has no effect: "
        "say `sink.delivery-guarantee: at-least-once` for it.",
    )
    label_prefix: Annotated[str, AfterValidator(_check_label_prefix)] = Field(
        "cdc",
        alias="sink.label-prefix",
        description="First part of every load label. Labels are made unique by the pipeline's id.",
    )
    enable_delete: bool = Field(
        True,
        alias="sink.enable-delete",
        description="Whether deletes are carried out. When false, deleted rows stay, and are counted.",
    )
    misfits: Annotated[Literal["fail", "null", "truncate", "dead-letter"], AnyCase] = Field(
        "fail",
        alias="sink.invalid-values",
        description="What becomes of a value that the column in Doris cannot hold: `fail` stops the run and names "
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
        description="What becomes of updates and deletes of tables without a key, which Doris cannot carry out: "
        "`fail` stops the run, `skip` leaves them out, counted.",
    )
    time_zone: Annotated[str, AfterValidator(_check_region)] = Field(
        "UTC",
        alias="sink.time-zone",
        description="Time zone whose wall clock TIMESTAMP values are written in, such as `Asia/Shanghai`: a DATETIME "
        "has no zone.",
    )
    longest_string: Size = Field(
        1 << 20,
        alias="sink.string-limit",
        ge=65_536,
        description="The back ends' `string_type_length_soft_limit_bytes`: longer values of STRING columns are found "
        "before they are sent.",
    )
    load_size: Size = Field(
        2 << 30,
        alias="sink.load-size",
        ge=1 << 20,
        description="How large one load may grow before the next one begins; below the back ends' "
        "`streaming_load_max_mb` (10 GB).",
    )
    threads: int = Field(
        4,
        alias="sink.io.thread-count",
        ge=1,
        le=64,
        description="How many tables one task encodes and sends at a time, and how many the driver commits at a time.",
    )
    connect_timeout: Duration = Field(
        10.0, alias="sink.connect.timeout", gt=0, description="How long a connection may take."
    )
    load_timeout: Duration = Field(
        600.0,
        alias="sink.load.timeout",
        ge=1,
        description="How long a load may take from its beginning to its answer; Doris aborts it after that.",
    )
    schema_change_timeout: Duration = Field(
        1800.0,
        alias="table.schema-change.timeout",
        description="How long to wait for one schema change, which Doris may carry out in a job of its own.",
    )
    tls_ca: FilePath | None = Field(
        None, alias="sink.tls.ca", description="PEM file of the authority that signed the servers' certificates."
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
        """Headers that would lose rows, and options that contradict each other."""
        yield from super().problems()
        if self.misfits == "dead-letter" and self.dead_letters is None:
            yield Remark("sink.dead-letter.path", "is required with sink.invalid-values: dead-letter", "name a folder")
        if self.enable_2pc and self.delivery_guarantee == "at-least-once":
            yield Remark("sink.enable-2pc", "contradicts sink.delivery-guarantee: at-least-once", "remove one of them")
        for key, name, text in self.headers():
            if name in _HARMFUL and text.lower() not in _HARMLESS:
                yield Remark(key, f"cannot be used: {_HARMFUL[name]}", "remove the key")
            if name == "max_filter_ratio" and text.strip("0.") != "":
                yield Remark(key, "would lose the rows that Doris filters", "remove the key: every row counts")
            if name == "compress_type" and text.lower() not in ("gz", ""):
                yield Remark(key, "only gz can be sent", "write gz, or remove the key")

    def warnings(self) -> Iterator[Remark]:
        """Headers without effect, and settings that lose what the defaults keep."""
        yield from super().warnings()
        for key, name, text in self.headers():
            if name == "strict_mode" and text.lower() == "false":
                yield Remark(key, "has no effect: loads are strict, as otherwise bad values would become NULL silently")
            elif name in _SET_BY_SINK:
                yield Remark(
                    key, "has no effect: the sink encodes rows by itself and sets this header", "remove the key"
                )
        if self.enable_2pc is False:
            yield Remark(
                "sink.enable-2pc",
                "has no effect: rows are committed exactly once (Flink CDC would load them at least once)",
                "sink.delivery-guarantee: at-least-once is without two-phase commit",
            )
        if self.delivery_guarantee == "at-least-once":
            yield Remark("sink.delivery-guarantee", "tables without a key may get rows twice", "exactly-once is safe")
        if not self.enable_delete:
            yield Remark("sink.enable-delete", "deleted rows stay in Doris; they are counted")

    def headers(self) -> Iterator[tuple[str, str, str]]:
        """Key, header name and text of every `sink.properties.*`."""
        for key, text in self.passed.items():
            if key.startswith(LOAD_PROPERTIES):
                yield key, key.removeprefix(LOAD_PROPERTIES).lower(), str(text)

    def load_headers(self) -> dict[str, str]:
        """The headers that the user adds to every load, by name."""
        ours = _SET_BY_SINK | _HARMFUL.keys() | {"strict_mode", "max_filter_ratio"}
        return {name: text for _, name, text in self.headers() if name not in ours}

    def table_properties(self) -> dict[str, str]:
        """The properties that the user adds to every new table."""
        return {
            key.removeprefix(TABLE_PROPERTIES): str(text)
            for key, text in self.passed.items()
            if key.startswith(TABLE_PROPERTIES)
        }

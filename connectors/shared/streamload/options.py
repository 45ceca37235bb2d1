"""Options shared by the sinks for Doris and StarRocks; names are Flink CDC's where it has the option."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator

from cdc.options import AnyCase, Duration, Field, FilePath, OptionError, Remark, SecretStr, SinkOptions, Zone
from cdc.units import arrow_zone
from connectors.shared.servers.address import Address, TimeLimits, parse_list
from connectors.shared.streamload.labels import check_prefix
from connectors.shared.streamload.pack import Packing

HTTP_PORT, BACKEND_PORT, SQL_PORT = 8030, 8040, 9030
TABLE_PROPERTIES, LOAD_PROPERTIES = "table.create.properties.", "sink.properties."
BATCHES = "rows are sent as they are read; the source's max-batch-bytes sets the size of a batch"
"""What Flink CDC's options of buffers are answered with."""

_JDBC = re.compile(r"jdbc:mysql(?:\+srv|:loadbalance|:replication)?://([^/?#]+)(?:[/?#].*)?", re.IGNORECASE)


def jdbc_addresses(text: str) -> tuple[Address, ...]:
    """Return the front ends of a JDBC URL, `jdbc:mysql://fe1:9030,fe2:9030/db?...`. Raises ValueError."""
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


def _check_label_prefix(text: str) -> str:
    try:
        return check_prefix(text)
    except ValueError as error:
        raise OptionError(str(error), "it is the first part of every load label") from None


def addresses(port: int, example: str) -> AfterValidator:
    """Return a validator for a list of `host:port`; `port` is the default, `example` is for the error."""

    def check(text: str) -> str:
        try:
            parse_list(text, default_port=port)
        except ValueError as error:
            raise OptionError(str(error), f"such as {example}") from None
        return text

    return AfterValidator(check)


JdbcUrl = Annotated[str, AfterValidator(_check_jdbc)]
"""SQL addresses of front ends."""


class LoadSinkOptions(SinkOptions):
    """Options of both sinks.

    Attributes:
        set_by_sink: load headers that users cannot override.
        harmful: headers that would lose rows, with their effect.
        harmless: values that disarm a harmful header.
        keyed_properties, keyless_properties: prefixes of properties only for tables with a key, or without one.
        packing_header, packings: body compression, by the values of that header.
    """

    accepts_table_options: ClassVar[bool] = True
    fixed_reason: ClassVar[str] = "times that are there would be of another clock than those that follow"
    set_by_sink: ClassVar[frozenset[str]]
    harmful: ClassVar[Mapping[str, str]]
    harmless: ClassVar[frozenset[str]]
    keyed_properties: ClassVar[tuple[str, ...]] = ()
    keyless_properties: ClassVar[tuple[str, ...]] = ()
    packing_header: ClassVar[str]
    packings: ClassVar[Mapping[str, Packing]]

    username: str = Field(min_length=1, description="User of the servers.")
    password: SecretStr = Field(
        description="Password of the user, may be empty; take it from `${NAME}` or `${file:path}`."
    )
    delivery_guarantee: Annotated[Literal["exactly-once", "at-least-once"], AnyCase]
    label_prefix: Annotated[str, AfterValidator(_check_label_prefix)] = Field(
        "cdc",
        alias="sink.label-prefix",
        description="First part of every load label. Labels are made unique by the pipeline's id.",
    )
    enable_delete: bool = Field(
        True,
        alias="sink.enable-delete",
        description="Whether deletes are applied. When false, deleted rows stay, and are counted.",
    )
    rejected_values: Annotated[Literal["fail", "null", "truncate", "dead-letter"], AnyCase] = Field(
        "fail",
        alias="sink.invalid-values",
        description="What to do with a value that the sink's column cannot hold: `fail` stops the run and names "
        "it, `null` and `truncate` change it, `dead-letter` writes the row to a file instead. All but "
        "`fail` count it.",
    )
    dead_letters: FilePath | None = Field(
        None,
        alias="sink.dead-letter.path",
        description="Folder or filesystem URL for the rows of `sink.invalid-values: dead-letter`.",
    )
    keyless: Annotated[Literal["fail", "skip"], AnyCase] = Field(
        "fail",
        alias="sink.keyless-changes",
        description="What to do with updates and deletes of tables without a key, which a load cannot apply: "
        "`fail` stops the run, `skip` skips and counts them.",
    )
    time_zone: Zone | None = Field(
        None,
        alias="sink.time-zone",
        description="Time zone in which TIMESTAMP values are written, such as `Asia/Shanghai`, as a DATETIME has "
        "no zone. Default: the pipeline's `local-time-zone` (UTC). Cannot be changed for an existing "
        "pipeline.",
    )
    threads: int = Field(
        8,
        alias="sink.io.thread-count",
        ge=1,
        le=64,
        description="Number of tables that one task encodes and sends at the same time, and that the driver "
        "commits at the same time.",
    )
    retry_timeout_s: Duration = Field(
        600.0,
        alias="retry-timeout",
        description="How long unavailable or busy servers are retried, with growing pauses.",
    )
    load_timeout_s: Duration = Field(
        600.0,
        alias="sink.load.timeout",
        ge=1,
        description="Maximum time until a load is prepared; after that the server aborts it.",
    )
    schema_change_timeout_s: Duration = Field(
        1800.0,
        alias="table.schema-change.timeout",
        description="How long to wait for a schema change job of the server.",
    )
    tls_ca: FilePath | None = Field(
        None, alias="sink.tls.ca", description="PEM file of the CA that signed the servers' certificates."
    )
    tls_verify: bool = Field(
        True, alias="sink.tls.verify", description="Whether certificates and host names are checked."
    )
    tls_plain_backends: bool = Field(
        False,
        alias="sink.tls.plain-backends",
        description="Whether rows and the password may be sent to a back end without TLS if the front end uses TLS.",
    )
    tls_sql: bool = Field(False, alias="sink.tls.sql", description="Whether SQL sessions use TLS.")

    @property
    def most_key_bytes(self) -> int | None:
        """The longest encoded key that the server accepts, None without limit."""
        return None

    def problems(self) -> Iterator[Remark]:
        """Check options that need another one, and headers that would lose rows."""
        yield from super().problems()
        if self.rejected_values == "dead-letter" and self.dead_letters is None:
            yield Remark("sink.dead-letter.path", "is required with sink.invalid-values: dead-letter", "name a folder")
        for key, name, text in self.headers():
            if name == "max_filter_ratio" and text.strip("0.") != "":
                yield Remark(key, "would lose the rows that the server filters", "remove the key: every row counts")
            if name in self.harmful and text.lower() not in self.harmless:
                yield Remark(key, f"cannot be used: {self.harmful[name]}", "remove the key")
            if name == self.packing_header and text.lower() not in self.packings:
                *others, last = sorted(filter(None, self.packings))
                reason = f"only {', '.join(others)} and {last} can be sent"
                yield Remark(key, reason, "write one of them, or remove the key")

    def warnings(self) -> Iterator[Remark]:
        """Warn of settings that lose what the defaults keep."""
        yield from super().warnings()
        for key, name, text in self.headers():
            if name == "strict_mode" and text.lower() == "false":
                yield Remark(key, "has no effect: loads are strict, as otherwise bad values would become NULL silently")
            if name in self.set_by_sink:
                reason = "has no effect: the sink encodes rows by itself and sets this header"
                yield Remark(key, reason, "remove the key")
        for name in self.table_properties():
            for model, beginnings in (("with", self.keyed_properties), ("without", self.keyless_properties)):
                if name.strip().lower().startswith(beginnings):
                    reason = f"is for tables {model} a key; it is left out for the others"
                    yield Remark(f"{TABLE_PROPERTIES}{name}", reason)
        if self.delivery_guarantee == "at-least-once":
            reason = "tables without a key may get rows twice"
            yield Remark("sink.delivery-guarantee", reason, "exactly-once is safe")
        if not self.enable_delete:
            yield Remark("sink.enable-delete", "deleted rows stay in the sink; they are counted")

    def headers(self) -> Iterator[tuple[str, str, str]]:
        """Yield key, header name and text of every `sink.properties.*`."""
        for key, text in self.passed.items():
            if key.startswith(LOAD_PROPERTIES):
                yield key, key.removeprefix(LOAD_PROPERTIES).lower(), str(text)

    def table_properties(self) -> dict[str, str]:
        """Return the properties that the user adds to every new table."""
        return {
            key.removeprefix(TABLE_PROPERTIES): str(text)
            for key, text in self.passed.items()
            if key.startswith(TABLE_PROPERTIES)
        }

    def load_headers(self) -> dict[str, str]:
        """Return the headers that the user adds to every load, by name."""
        ours = self.set_by_sink | self.harmful.keys() | {"strict_mode", "max_filter_ratio"}
        return {name: text for _, name, text in self.headers() if name not in ours}

    def locations(self) -> tuple[str, ...]:
        """Every front end."""
        return tuple(dict.fromkeys(one.host_header for one in (*self.http_frontends(), *self.sql_frontends())))

    def packing(self) -> Packing:
        """Return the compression of bodies."""
        return self.packings[self.load_headers().get(self.packing_header, "").lower()]

    @property
    def zone(self) -> str:
        """The zone whose wall clock instants are written in, in Arrow's spelling."""
        return arrow_zone(self.time_zone or "UTC")

    def in_zone(self, zone: str) -> Self:
        """Use the pipeline's zone for instants unless the sink has its own."""
        return self if self.time_zone is not None else self.model_copy(update={"time_zone": zone})

    def fixed(self) -> Mapping[str, str]:
        """Return the time zone of written values."""
        return {"sink.time-zone": self.zone}

    @abstractmethod
    def http_frontends(self) -> tuple[Address, ...]:
        """Return the HTTP addresses of front ends, in order of preference."""

    @abstractmethod
    def sql_frontends(self) -> tuple[Address, ...]:
        """Return the SQL addresses of front ends, in order of preference."""

    @abstractmethod
    def time_limits(self) -> TimeLimits:
        """Return the time limits."""


def wanted_replicas(properties: Mapping[str, str], default: int) -> int:
    """Return the replicas of new tables with these properties: `replication_num`, or the sum over all tags."""
    given = {name.strip().lower(): text for name, text in properties.items()}
    numbers = re.findall(r"\d+(?=\s*(?:,|$))", given.get("replication_num", given.get("replication_allocation", "")))
    return sum(map(int, numbers)) or default

"""Options of the sinks `mysql` (MySQL, MariaDB) and `oceanbase`. Names are Flink CDC's where it has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from cdc.options import (
    AnyCase,
    AtLeast,
    AtMost,
    Duration,
    Field,
    FilePath,
    HostName,
    Line,
    OptionError,
    Remark,
    SecretStr,
    SinkOptions,
)
from connectors.mysql.options import TlsMode, is_loopback

_JDBC = re.compile(r"jdbc:(?:mysql|oceanbase)://([^/?#,:]+|\[[^\]]+\])(?::(\d{1,5}))?(?:[/?#].*)?", re.IGNORECASE)
_BUFFERS = "a batch is written in one transaction; the source's max-batch-bytes sets its size"


def _check_url(text: str) -> str:
    if _JDBC.fullmatch(text.strip()) is None:
        raise OptionError("must be jdbc:mysql://host:port, one server", "such as jdbc:mysql://127.0.0.1:2881/test")
    return text


class ServerSinkOptions(SinkOptions):
    """Options of both sinks."""

    implementation: ClassVar[str] = "connectors.mysql.sink.sink:MySqlSink"
    port_option: ClassVar[str] = "sink.port"

    username: Line = Field(min_length=1, description="User of the server; creates and writes tables.")
    password: SecretStr = Field(
        description="Password of the user, may be empty; take it from `${NAME}` or `${file:path}`."
    )
    metadata_database: Line = Field(
        "_cdc",
        alias="sink.metadata-database",
        min_length=1,
        max_length=64,
        description="Database for the table `commits` with the last batch of each pipeline. Created if missing.",
    )
    connect_timeout_s: Annotated[Duration, AtLeast("250 ms")] = Field(
        30.0, alias="connect.timeout", description="Timeout of one connection attempt."
    )
    retry_timeout_s: Annotated[Duration, AtLeast("0 s"), AtMost("30 d")] = Field(
        600.0,
        alias="retry-timeout",
        description="How long an unavailable server, or a temporary failure, is retried before the run stops.",
    )
    statement_timeout_s: Annotated[Duration, AtLeast("1 s")] = Field(
        3600.0, alias="sink.statement-timeout", description="Timeout of one statement, including an ALTER."
    )
    lock_wait_timeout_s: Annotated[Duration, AtLeast("1 s"), AtMost("30 d")] = Field(
        60.0,
        alias="sink.lock-wait-timeout",
        description="How long to wait for rows or a table locked by somebody else, before the batch is retried.",
    )
    rejected_values: Annotated[Literal["fail", "dead-letter"], AnyCase] = Field(
        "fail",
        alias="sink.invalid-values",
        description="What to do with a row that the server refuses: `fail` stops the run and names it, "
        "`dead-letter` writes it to a file instead, with the server's reason, and counts it.",
    )
    dead_letters: FilePath | None = Field(
        None,
        alias="sink.dead-letter.path",
        description="Folder or filesystem URL for the rows of `sink.invalid-values: dead-letter`.",
    )
    tls_mode: Annotated[TlsMode, AnyCase] | None = Field(
        None,
        alias="tls.mode",
        description="TLS of the connection. Default: `verify-identity`, or `preferred` on this machine.",
    )
    tls_ca: FilePath | None = Field(
        None, alias="tls.ca", description="PEM file of the CA that signed the server's certificate."
    )
    tls_cert: FilePath | None = Field(None, alias="tls.cert", description="PEM file of the client's certificate.")
    tls_key: FilePath | None = Field(None, alias="tls.key", description="PEM file of the client's private key.")
    key_retrieval: bool = Field(
        False,
        alias="allow-public-key-retrieval",
        description="Whether the password may be sent without TLS, encrypted with a public key from the server.",
    )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        raise OptionError("no server is named")

    @property
    def tls(self) -> TlsMode:
        """The effective TLS mode: `tls.mode` if given, else `preferred` for this machine, else `verify-identity`."""
        return self.tls_mode or ("preferred" if is_loopback(self.address[0]) else "verify-identity")

    def locations(self) -> tuple[str, ...]:
        """Return the server."""
        host, port = self.address
        return (f"{host}:{port}",)

    def problems(self) -> Iterator[Remark]:
        """Check options that need another one."""
        yield from super().problems()
        if self.rejected_values == "dead-letter" and self.dead_letters is None:
            yield Remark("sink.dead-letter.path", "is required with sink.invalid-values: dead-letter", "name a folder")
        if (self.tls_cert is None) != (self.tls_key is None):
            missing, given = ("tls.key", "tls.cert") if self.tls_key is None else ("tls.cert", "tls.key")
            yield Remark(given, f"needs {missing} beside it", f"add {missing}")

    def warnings(self) -> Iterator[Remark]:
        """Warn of connections that can be eavesdropped on."""
        yield from super().warnings()
        host, _ = self.address
        if self.tls in ("disabled", "preferred", "required") and not is_loopback(host):
            hint = "use verify-identity, with tls.ca when the certificate is your own"
            yield Remark("tls.mode", f"`{self.tls}` does not verify who {host} is", hint)


class MySqlSinkOptions(ServerSinkOptions):
    """Writes to tables of a MySQL or MariaDB server, all tables of a batch in one transaction."""

    drafted: ClassVar[dict[str, str]] = {"hostname": "127.0.0.1", "username": "root", "password": "${SINK_PASSWORD}"}

    type: Literal["mysql"] = Field(description="Connector name.")
    hostname: HostName = Field(min_length=1, description="Host name or address of the server.")
    port: int = Field(3306, ge=1, le=65535, description="TCP port of the server.")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.hostname, self.port


class OceanBaseSinkOptions(ServerSinkOptions):
    """Writes to tables of an OceanBase tenant in MySQL mode, all tables of a batch in one transaction."""

    port_option: ClassVar[str] = "sink.url"
    drafted: ClassVar[dict[str, str]] = {
        "url": "jdbc:mysql://127.0.0.1:2881", "username": "root@test", "password": "${SINK_PASSWORD}",
    }  # fmt: skip
    flink_only: ClassVar[dict[str, str]] = {
        "driver-class-name": "there is no JDBC driver",
        "druid-properties": "there is no connection pool",
        "sync-write": _BUFFERS,
        "buffer-flush.interval": _BUFFERS,
        "buffer-flush.buffer-size": _BUFFERS,
        "max-retries": "see retry-timeout",
        "memstore-check.*": "a full memstore (-4030) is retried for retry-timeout",
        "partition.enabled": "to partition a table, create it yourself",
        "direct-load.*": "rows are written in the transaction of their batch",
        "schema-name": "use `route`",
        "table-name": "use `route`",
    }

    type: Literal["oceanbase"] = Field(description="Connector name.")
    url: Annotated[Line, AfterValidator(_check_url)] = Field(
        description="Address of the server or proxy, `jdbc:mysql://host:2881`. Anything after the port has no effect."
    )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the URL."""
        match = _JDBC.fullmatch(self.url.strip())
        host, port = (match[1], match[2]) if match else ("", None)
        return host.strip("[]"), int(port or 2881)

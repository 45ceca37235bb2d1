"""Options of the sink `elasticsearch`; named as in Flink CDC where it has the same option."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from cdc.options import (
    AnyCase,
    AtLeast,
    AtMost,
    Duration,
    Field,
    FilePath,
    Line,
    OptionError,
    Remark,
    SecretStr,
    SinkOptions,
    Size,
)
from cdc.schema import TableId

_HOST = re.compile(r"(?:(https?)://)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?/?")
_PART = re.compile(r"[a-z0-9._$-]*")
_LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[::1\]")
_BATCHES = "the source's max-batch-bytes sets the size of a batch; see sink.bulk.size for requests"
INDEX_SETTINGS = "index.settings."


def _check_hosts(text: str) -> str:
    if not text.strip() or any(_HOST.fullmatch(part.strip()) is None for part in re.split("[,;]", text)):
        raise OptionError("must be addresses such as http://host:9200, further ones after a comma")
    return text


def _check_part(text: str) -> str:
    if _PART.fullmatch(text) is None:
        raise OptionError("may have lower-case letters, digits, dots, hyphens, underscores and dollar signs")
    return text


def _sharding_parts(text: str) -> list[list[str]]:
    return [[item.strip() for item in part.split(":")] for part in text.split(";") if part.strip()]


def _check_sharding(text: str) -> str:
    parts = _sharding_parts(text)
    if any(len(part) != 2 or not all(part) for part in parts) or len({part[0] for part in parts}) < len(parts):
        raise OptionError("must be db.table:column, one of each table, further ones after a semicolon")
    return text


IndexPart = Annotated[str, AfterValidator(_check_part)]


class ElasticsearchSinkOptions(SinkOptions):
    """Writes documents into Elasticsearch 7 to 9 or OpenSearch 2 and 3: one index behind an alias for each table."""

    implementation: ClassVar[str] = "connectors.elasticsearch.sink:ElasticsearchSink"
    instead_of_partitions: ClassVar[str] = "`sharding.suffix.key: table:column` makes an index for each value"
    drafted: ClassVar[dict[str, str]] = {"hosts": "http://127.0.0.1:9200"}
    prefixes: ClassVar[dict[str, str]] = {
        INDEX_SETTINGS: "Settings of new indexes, such as `index.settings.number_of_shards: 3`."
    }
    flink_only: ClassVar[dict[str, str]] = {
        "version": "the version is read from the server",
        "batch.size.max": _BATCHES,
        "batch.size.max.bytes": _BATCHES,
        "inflight.requests.max": "see sink.connections",
        "buffered.requests.max": _BATCHES,
        "buffer.time.max.ms": _BATCHES,
        "record.size.max.bytes": "the server refuses what it cannot store",
    }

    type: Literal["elasticsearch"] = Field(description="Connector name.")
    hosts: Annotated[Line, AfterValidator(_check_hosts)] = Field(
        description="Addresses of the cluster, `https://host:9200`, separated by commas. Each is tried in turn."
    )
    username: Line | None = Field(None, description="User, for basic authentication.")
    password: SecretStr | None = Field(
        None, description="Password of the user; take it from `${NAME}` or `${file:path}`."
    )
    api_key: SecretStr | None = Field(
        None, alias="api-key", description="API key as the server gave it (base64), instead of user and password."
    )
    tls_ca: FilePath | None = Field(
        None, alias="tls.ca", description="PEM file of the CA that signed the servers' certificates."
    )
    tls_verify: bool = Field(True, alias="tls.verify", description="Whether certificates of https hosts are verified.")
    index_prefix: IndexPart = Field("", alias="index.prefix", description="Put before each index name.")
    index_suffix: IndexPart = Field("", alias="index.suffix", description="Appended to each index name.")
    routing: str = Field(
        "",
        alias="index.routing-columns",
        description="Columns whose text is the routing of a document, `db.table.column`, at most one per table, "
        "separated by commas. For new indexes only: `cdc resync` a table to apply it.",
    )
    sharding_key: Annotated[str, AfterValidator(_check_sharding)] = Field(
        "",
        alias="sharding.suffix.key",
        description="Columns with one index per text, `db.table:column` or `table:column`, separated by "
        "semicolons. For new indexes only, as `index.routing-columns`.",
    )
    sharding_separator: IndexPart = Field(
        "_",
        alias="sharding.suffix.separator",
        min_length=1,
        description="Separator between a table's index name and the text of its `sharding.suffix.key`.",
    )
    text_as: Annotated[Literal["keyword", "text", "both"], AnyCase] = Field(
        "keyword",
        alias="mapping.text",
        description="Fields of text columns: `keyword` (whole values), `text` (words) or `both` (also `name.words`).",
    )
    text_fields: str = Field(
        "",
        alias="mapping.text-columns",
        description="Columns with `text` fields, `db.table.column`, separated by commas; `mapping.text` applies to "
        "the others.",
    )
    unindexed: str = Field(
        "",
        alias="mapping.unindexed-columns",
        description="Columns that are stored but not indexed, `db.table.column`, separated by commas.",
    )
    decimal_as: Annotated[Literal["keyword", "double"], AnyCase] = Field(
        "keyword",
        alias="mapping.decimal",
        description="Fields of DECIMAL columns. The document has all digits in both cases.",
    )
    json_as: Annotated[Literal["disabled", "flattened", "text"], AnyCase] = Field(
        "disabled",
        alias="mapping.json",
        description="Fields of JSON columns: `disabled` stores objects without indexing them, `flattened` indexes "
        "their leaves (flat_object in OpenSearch), `text` stores the text.",
    )
    ignore_above: int = Field(
        8191,
        alias="mapping.ignore-above",
        ge=1,
        le=32766,
        description="Maximum length of an indexed keyword, in characters; longer values are only stored.",
    )
    ignore_malformed: bool = Field(
        False,
        alias="mapping.ignore-malformed",
        description="Whether values that a field cannot hold are stored in the document without being indexed.",
    )
    rejected_values: Annotated[Literal["fail", "dead-letter"], AnyCase] = Field(
        "fail",
        alias="sink.invalid-values",
        description="What to do with a document that the server refuses because of a value: `fail` stops the run "
        "and names it, `dead-letter` writes the row to a file instead, with the server's reason, and "
        "counts it.",
    )
    dead_letters: FilePath | None = Field(
        None,
        alias="sink.dead-letter.path",
        description="Folder or filesystem URL for the rows of `sink.invalid-values: dead-letter`.",
    )
    keyless_changes: Annotated[Literal["fail", "skip"], AnyCase] = Field(
        "fail",
        alias="sink.keyless-changes",
        description="What to do with updates and deletes of tables without a key, whose documents cannot be "
        "identified: `fail` stops the run, `skip` skips and counts them.",
    )
    refresh: Annotated[Literal["false", "true"], AnyCase] = Field(
        "false",
        alias="sink.refresh",
        description="Whether a batch's documents are searchable when it is committed (`true`), or after the "
        "server's refresh_interval.",
    )
    bulk_bytes: Size = Field(
        5 << 20, alias="sink.bulk.size", ge=1 << 10, le=90 << 20, description="Size of one bulk request."
    )
    connections: int = Field(
        3, alias="sink.connections", ge=1, le=32, description="Maximum number of concurrent bulk requests."
    )
    request_timeout_s: Annotated[Duration, AtLeast("1 s"), AtMost("1 d")] = Field(
        120.0, alias="request.timeout", description="Timeout of one request."
    )
    retry_timeout_s: Annotated[Duration, AtLeast("0 s"), AtMost("30 d")] = Field(
        600.0,
        alias="retry-timeout",
        description="How long an unavailable or busy cluster (429, 503) is retried before the run stops.",
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        """The hosts, each as `http://host:port`."""
        found = []
        for part in re.split("[,;]", self.hosts):
            match = _HOST.fullmatch(part.strip())
            if match is not None:
                found.append(f"{match[1] or 'http'}://{match[2]}:{match[3] or 9200}")
        return tuple(found)

    def locations(self) -> tuple[str, ...]:
        """The hosts."""
        return self.addresses

    def naming(self) -> dict[str, str]:
        """The options that determine the names of indexes."""
        return {"index.prefix": self.index_prefix, "index.suffix": self.index_suffix}

    def container(self, naming: Mapping[str, str], table: TableId) -> str:
        """The alias of the table's index."""
        from connectors.elasticsearch.mapping import IndexNames

        return IndexNames(naming.get("index.prefix", ""), naming.get("index.suffix", "")).alias(table)

    def problems(self) -> Iterator[Remark]:
        """Report a password that would be sent without TLS, and options that contradict each other."""
        yield from super().problems()
        if self.rejected_values == "dead-letter" and self.dead_letters is None:
            yield Remark("sink.dead-letter.path", "is required with sink.invalid-values: dead-letter", "name a folder")
        routed = [part.strip().rpartition(".")[0] for part in self.routing.split(",") if part.strip()]
        if len(set(routed)) < len(routed) or "" in routed:
            yield Remark("index.routing-columns", "names no column, or two of one table", "write db.table.column once")
        if self.api_key is not None and self.username is not None:
            yield Remark("api-key", "is given next to username", "give one of the two")
        if (self.username is None) != (self.password is None):
            missing = "password" if self.password is None else "username"
            yield Remark(missing, "is missing", "give both, or neither")
        secret = self.api_key is not None or self.password is not None
        plain = [one for one in self.addresses if one.startswith("http://") and not _LOOPBACK.search(one)]
        if secret and plain:
            hint = "write https:// before the host"
            yield Remark("hosts", f"{plain[0]} would get the password without TLS", hint)

    def warnings(self) -> Iterator[Remark]:
        """Warn when certificates are not verified."""
        yield from super().warnings()
        if not self.tls_verify and any(one.startswith("https://") for one in self.addresses):
            yield Remark("tls.verify", "is false: whoever answers gets the documents", "name the authority in tls.ca")

    @property
    def gc_deletes(self) -> str:
        """How long a server must remember a delete: twice the time that a request may take."""
        return f"{2 * math.ceil(self.request_timeout_s)}s"

    def sharding(self) -> frozenset[tuple[str, str]]:
        """The tables and columns named in `sharding.suffix.key`."""
        return frozenset((table, column) for table, column in _sharding_parts(self.sharding_key))

    def settings(self) -> dict[str, Any]:
        """The settings of new indexes, by the names that the server gives them."""
        settings = {name.removeprefix(INDEX_SETTINGS): text for name, text in self.passed.items()}
        return {"gc_deletes": self.gc_deletes, **settings}

"""Options of the MySQL source and of the binlog-files source. Names are Flink CDC's, except where noted."""

from __future__ import annotations

import ipaddress
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
    Zone,
)
from cdc.schema import TableId
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log_options import LogOptions
from connectors.mysql.snapshot_options import SnapshotOptions

__all__ = ["BinlogFilesSourceOptions", "LogOptions", "MySqlSourceOptions"]

StartupMode = Literal["initial", "snapshot", "earliest-offset", "latest-offset", "specific-offset", "timestamp"]
TlsMode = Literal["disabled", "preferred", "required", "verify-ca", "verify-identity"]

_HIGHEST_SERVER_ID = 2**32 - 1
_METADATA = ("op_ts", "sequence", "binlog_file", "binlog_pos", "server_id", "gtid")


def _server_ids(text: str) -> range:
    low, dash, high = text.partition("-")
    first, last = int(low), int(high if dash else low)
    if not 1 <= first <= last <= _HIGHEST_SERVER_ID:
        raise OptionError(f"must go from low to high within 1-{_HIGHEST_SERVER_ID}", "such as 5400-5408")
    return range(first, last + 1)


def _check_server_id(text: str) -> str:
    _server_ids(text)
    return text


def _check_gtids(text: str) -> str:
    for parse in (GtidSet.parse, MariaDbGtid.parse):
        try:
            parse(text)
        except ValueError:
            continue
        return text
    hint = "MySQL's is such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5, MariaDB's 0-1-5"
    raise OptionError("is neither a GTID set of MySQL nor a GTID position of MariaDB", hint)


_COLUMNS = "use the `projection` of a rule"
_MASKS = "use the `mask` of a rule: REDACT, HASH, MASK, TRUNCATE_TEXT"
_TABLES = "use `tables` and `tables.exclude`"
ServerId = Annotated[str, Field(pattern=r"^[0-9]{1,10}\s*(-\s*[0-9]{1,10})?$"), AfterValidator(_check_server_id)]


class MySqlSourceOptions(SnapshotOptions):
    """Reads the binlog of a running MySQL or MariaDB server."""

    implementation: ClassVar[str] = "connectors.mysql.source:MySqlSource"
    drafted_by: ClassVar[str] = "connectors.mysql.draft:draft"
    url_schemes: ClassVar[tuple[str, ...]] = ("mysql", "mariadb")
    flink_only: ClassVar[dict[str, str]] = {
        "scan.snapshot.fetch.size": "rows are streamed",
        "chunk-meta.group.size": "chunks are stored in a file of the state directory",
        "scan.incremental.snapshot.unbounded-chunk-first.enabled": "a chunk's size does not matter, rows are streamed",
        "scan.incremental.close-idle-reader.enabled": "there are no idle readers",
        "scan.only.deserialize.captured.tables.changelog.enabled": "only changes of captured tables are ever decoded",
        "scan.binlog.newly-added-table.enabled": "a table created while the pipeline runs is captured if it "
        "matches `tables`",
        "use.legacy.json.format": "JSON always has MySQL's own text, with spaces",
        "connection.pool.size": "there is no pool: the planner and each task hold one connection",
        "jdbc.properties.*": "there is no JDBC driver; see connect.timeout and tls.mode",
        "debezium.*": "there is no Debezium engine; the binlog is read directly",
    }
    flink_refused: ClassVar[dict[str, str]] = {
        "database-name": _TABLES,
        "table-name": _TABLES,
        "debezium.skipped.operations": "use a rule with a filter: `__data_event_type__ <> '-D'`",
        "debezium.column.include.list": _COLUMNS,
        "debezium.column.exclude.list": _COLUMNS,
        "debezium.column.whitelist": _COLUMNS,
        "debezium.column.blacklist": _COLUMNS,
        "debezium.column.mask.*": _MASKS,
        "debezium.column.truncate.*": _MASKS,
        "debezium.converters": "use the `projection` of a rule to compute values",
        "debezium.database.include.list": _TABLES,
        "debezium.database.exclude.list": _TABLES,
        "debezium.table.include.list": _TABLES,
        "debezium.table.exclude.list": _TABLES,
        "debezium.gtid.source.*": "remove it: transactions of all original servers are captured",
    }

    flink_defaults: ClassVar[dict[str, str]] = {
        "treat-tinyint1-as-boolean.enabled": "true",
        "scan.incremental.snapshot.chunk.size": "8096",
        "scan.newly-added-table.enabled": "false",
    }

    type: Literal["mysql"] = Field(description="Connector name.")
    hostname: HostName = Field(min_length=1, description="Host name or address of the server.")
    port: int = Field(3306, ge=1, le=65535, description="TCP port of the server.")
    username: Line = Field(
        min_length=1, description="Name of the user; needs SELECT, REPLICATION SLAVE and REPLICATION CLIENT."
    )
    password: SecretStr = Field(description="Password of the user; take it from `${NAME}` or `${file:path}`.")
    server_id: ServerId | None = Field(
        None,
        alias="server-id",
        json_schema_extra={"errorMessage": "must be a number, or a range such as 5400-5408"},
        description="Replica id for reading the binlog, one (`5400`) or a range (`5400-5408`), not used by any "
        "other replica of the server. Default: unused ids.",
    )
    server_time_zone: Zone | None = Field(
        None,
        alias="server-time-zone",
        description="Time zone of the session. Without effect: the binlog has TIMESTAMP in UTC and DATETIME as "
        "written.",
    )
    startup_mode: Annotated[StartupMode, AnyCase] = Field(
        "initial",
        alias="scan.startup.mode",
        description="How a new pipeline starts: `initial` takes a snapshot and follows the binlog, `snapshot` "
        "takes a snapshot and ends, `earliest-offset` (the whole available binlog), `latest-offset`, "
        "`specific-offset` and `timestamp` take no snapshot.",
    )
    specific_offset_file: Line | None = Field(
        None, alias="scan.startup.specific-offset.file", description="Binlog file to start in, with its position."
    )
    specific_offset_pos: int | None = Field(
        None, alias="scan.startup.specific-offset.pos", ge=4, description="Position in the file to start at."
    )
    specific_offset_gtid_set: Annotated[str, AfterValidator(_check_gtids)] | None = Field(
        None,
        alias="scan.startup.specific-offset.gtid-set",
        description="GTIDs that are already processed; everything else is read. Instead of file and position.",
    )
    specific_offset_skip_events: int = Field(
        0, alias="scan.startup.specific-offset.skip-events", ge=0, description="Only 0 in this version."
    )
    specific_offset_skip_rows: int = Field(
        0, alias="scan.startup.specific-offset.skip-rows", ge=0, description="Only 0 in this version."
    )
    timestamp_millis: int | None = Field(
        None,
        alias="scan.startup.timestamp-millis",
        ge=0,
        description="Start at the first transaction committed at or after this time, in milliseconds since 1970 UTC.",
    )
    metadata_list: str | None = Field(
        None,
        alias="metadata.list",
        description=f"Metadata columns for transforms: {', '.join(f'`{name}`' for name in _METADATA)}.",
    )
    connect_timeout_s: Annotated[Duration, AtLeast("250 ms")] = Field(
        30.0,
        alias="connect.timeout",
        description="Timeout of one connection attempt, and of a short query. Reading table definitions, splitting "
        "and copying tables have longer limits.",
    )
    connect_max_retries: int = Field(
        3, alias="connect.max-retries", ge=0, description="Number of retries of a failed connection, with pauses."
    )
    retry_timeout_s: Annotated[Duration, AtLeast("0 s"), AtMost("30 d")] = Field(
        600.0,
        alias="retry-timeout",
        description="How long a server that becomes unavailable during a run, or has a temporary failure, is "
        "retried before the run stops. At the start of a run connect.max-retries applies.",
    )
    heartbeat_interval_s: Annotated[Duration, AtLeast("100 ms"), AtMost("30 d")] = Field(
        30.0, alias="heartbeat.interval", description="Interval of the server's heartbeats on an idle connection."
    )
    tls_mode: Annotated[TlsMode, AnyCase] | None = Field(
        None,
        alias="tls.mode",
        description="TLS of the connection. Default: `verify-identity`, or `preferred` when hostname is this "
        "machine (localhost, 127.*, ::1). A self-signed certificate needs `tls.ca`. `required` and "
        "`preferred` verify nothing.",
    )
    tls_ca: FilePath | None = Field(
        None, alias="tls.ca", description="PEM file of the CA that signed the server's certificate."
    )
    tls_cert: FilePath | None = Field(None, alias="tls.cert", description="PEM file of the client's certificate.")
    tls_key: FilePath | None = Field(None, alias="tls.key", description="PEM file of the client's private key.")

    changes_as_appends: bool = Field(
        False,
        alias="scan.read-changelog-as-append-only.enabled",
        description="Only `false`. `converter-after-transform: SOFT_DELETE` of a rule keeps rows that the source "
        "deletes.",
    )
    key_retrieval: bool = Field(
        False,
        alias="allow-public-key-retrieval",
        description="Whether the password may be sent without TLS, encrypted with a public key from the server "
        "(caching_sha2_password, sha256_password): a man in the middle can then read it, also behind a "
        "forwarded local port.",
    )

    @property
    def tls(self) -> TlsMode:
        """The effective TLS mode: `tls.mode` if given, else `preferred` for this machine, else `verify-identity`."""
        return self.tls_mode or ("preferred" if is_loopback(self.hostname) else "verify-identity")

    @property
    def server_ids(self) -> range | None:
        """The replica ids to use; None to pick unused ones."""
        return None if self.server_id is None else _server_ids(self.server_id)

    def in_first_snapshot(self, table: TableId) -> bool:
        """Return whether the rows that a table has at the start are copied."""
        default = "initial" if self.startup_mode in ("initial", "snapshot") else "latest-offset"
        return (self.table_mode(table) or default) == "initial"

    def snapshotted_when_added(self, table: TableId) -> bool:
        """Return whether the rows of a newly matching table are copied.

        True also in mode `earliest-offset`, where the log alone supplies the other tables.
        """
        default = "initial" if self.startup_mode in ("initial", "snapshot", "earliest-offset") else "latest-offset"
        return (self.table_mode(table) or default) == "initial"

    @property
    def warns_of_cascades(self) -> bool:
        """True by `foreign-key-cascades`; see `LogOptions`."""
        return self.cascades == "warn"

    def copies_new(self, table: TableId) -> bool:
        """True where new tables are snapshotted; see `LogOptions`."""
        return self.newly_added and self.in_first_snapshot(table)

    def copies_uncertain(self, table: TableId) -> bool:
        """True where uncertain tables are re-snapshotted; see `LogOptions`.

        Not for tables whose sink only has changes.
        """
        return self.uncertain == "copy" and self.in_first_snapshot(table)

    def problems(self) -> Iterator[Remark]:
        """Check startup modes and their options, TLS files and metadata names."""
        yield from super().problems()
        yield from self._startup_problems()
        if (self.tls_cert is None) != (self.tls_key is None):
            missing, given = ("tls.key", "tls.cert") if self.tls_key is None else ("tls.cert", "tls.key")
            yield Remark(given, f"needs {missing} beside it", f"add {missing}")
        if self.tls_mode == "disabled" and self.tls_ca is not None:
            yield Remark("tls.ca", "has no effect with tls.mode disabled", "remove one of the two")
        if self.changes_as_appends:
            key = "scan.read-changelog-as-append-only.enabled"
            hint = "remove it; `converter-after-transform: SOFT_DELETE` of a rule keeps rows that the source deletes"
            yield Remark(key, "only `false`: changes are never read as new rows", hint)
        for name in self.metadata_names():
            if name not in _METADATA:
                yield Remark("metadata.list", f"no metadata named {name!r}", f"known: {', '.join(_METADATA)}")

    def metadata_names(self) -> tuple[str, ...]:
        """Return the names of `metadata.list`."""
        return tuple(name.strip() for name in (self.metadata_list or "").split(",") if name.strip())

    def warnings(self) -> Iterator[Remark]:
        """Warn of options without effect and of connections that can be eavesdropped on."""
        yield from super().warnings()
        if self.tls in ("disabled", "preferred", "required") and not is_loopback(self.hostname):
            hint = "use verify-identity, with tls.ca when the certificate is your own"
            yield Remark("tls.mode", f"`{self.tls}` does not verify who {self.hostname} is", hint)

    def _startup_problems(self) -> Iterator[Remark]:
        mode = self.startup_mode
        prefix = "scan.startup.specific-offset"
        if mode == "timestamp" and self.timestamp_millis is None:
            yield Remark("scan.startup.timestamp-millis", "is missing", "the mode timestamp needs it")
        if mode == "specific-offset":
            by_file = self.specific_offset_file is not None and self.specific_offset_pos is not None
            half = (self.specific_offset_file is None) != (self.specific_offset_pos is None)
            if half or by_file == (self.specific_offset_gtid_set is not None):
                hint = f"write {prefix}.file and .pos, or .gtid-set"
                yield Remark(
                    "scan.startup.mode", "`specific-offset` needs a file with its position, or a GTID set", hint
                )
        yield from self._offsets_without_mode()
        for key, count in (("events", self.specific_offset_skip_events), ("rows", self.specific_offset_skip_rows)):
            if count:
                yield Remark(f"{prefix}.skip-{key}", "only 0 in this version", "start at a transaction's own position")

    def _offsets_without_mode(self) -> Iterator[Remark]:
        """Report start positions that `scan.startup.mode` does not use."""
        prefix = "scan.startup.specific-offset"
        given: tuple[tuple[str, object, StartupMode], ...] = (
            (f"{prefix}.file", self.specific_offset_file, "specific-offset"),
            (f"{prefix}.pos", self.specific_offset_pos, "specific-offset"),
            (f"{prefix}.gtid-set", self.specific_offset_gtid_set, "specific-offset"),
            ("scan.startup.timestamp-millis", self.timestamp_millis, "timestamp"),
        )
        for key, value, mode in given:
            if value is not None and self.startup_mode != mode:
                hint = f"write scan.startup.mode: {mode}, or remove the key"
                yield Remark(key, f"has no effect with scan.startup.mode: {self.startup_mode}", hint)


class BinlogFilesSourceOptions(LogOptions):
    """Reads archived binlog files of MySQL or MariaDB, to their end."""

    implementation: ClassVar[str] = "connectors.mysql.binlog_files:BinlogFilesSource"

    type: Literal["binlog-files"] = Field(description="Connector name.")
    path: FilePath | list[FilePath] = Field(
        description="Binlog files: a path or glob such as `archive/binlog.*`, or a list of them. They are read in the "
        "order of their numbers."
    )
    schema_files: FilePath | list[FilePath] | None = Field(
        None,
        alias="schema-files",
        description="SQL files with CREATE TABLE statements, such as `mysqldump --no-data` writes, for tables "
        "whose CREATE TABLE is not in the binlog files. A path, a glob or a list.",
    )

    @property
    def paths(self) -> tuple[str, ...]:
        """`path` as a tuple."""
        return (self.path,) if isinstance(self.path, str) else tuple(self.path)

    @property
    def schema_paths(self) -> tuple[str, ...]:
        """`schema-files` as a tuple."""
        return (self.schema_files,) if isinstance(self.schema_files, str) else tuple(self.schema_files or ())


def is_loopback(hostname: str) -> bool:
    """Return True when the host name denotes this machine by its spelling; no name is resolved."""
    if hostname.lower() in ("localhost", "localhost.localdomain"):
        return True
    try:
        return ipaddress.ip_address(hostname.strip("[]")).is_loopback
    except ValueError:
        return False

"""Options of the Kafka source; named as in Flink's Kafka connector where it has the same option."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, model_validator

from cdc.options import (
    AnyCase,
    AtLeast,
    Duration,
    Field,
    Line,
    OptionError,
    Remark,
    Size,
    SourceOptions,
    Zone,
)
from cdc.pattern import NamePattern, TablePattern
from cdc.pattern_options import BY_TABLE, ExcludedTables, Tables
from cdc.schema import DataType, TableId, TableSchema
from connectors.kafka.formats.modes import BinaryMode, DecimalMode, DecodingModes, TimeMode, UnsignedMode
from connectors.kafka.registry_options import RegistryOptions
from connectors.kafka.settings import PREFIX, KafkaConnectionOptions

if TYPE_CHECKING:
    from connectors.kafka.edited_reading import ReadingOptions

StartupMode = Literal["earliest-offset", "latest-offset", "timestamp", "specific-offsets", "group-offsets"]
ValueFormat = Literal[
    "auto", "debezium-json", "canal-json", "maxwell-json", "json", "debezium-avro", "avro",
    "debezium-avro-confluent", "avro-confluent",
]  # fmt: skip
OnLost = Literal["fail", "earliest"]
Unreadable = Literal["fail", "skip", "dead-letter"]

_MODES = frozenset({"decimal_mode", "unsigned_mode", "time_mode", "binary_mode"})
"""Options that tell how Debezium writes values."""
_NOT_SET = "not set"
"""The value of such an option that is not given, so that rows are not taken for Debezium's."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SPECIFIC = re.compile(
    r"\s*(?:(?P<topic>[a-zA-Z0-9._-]+):(?P<partition>\d+):(?P<offset>\d+)"
    r"|(?:topic:(?P<own>[a-zA-Z0-9._-]+),)?partition:(?P<number>\d+),offset:(?P<at>\d+))\s*"
)
_ALL_TABLES = r"\.*, \.*.\.*, \.*.\.*.\.*"


def _check_topics(text: str) -> str:
    for name in topic_names(text):
        if not _TOPIC.fullmatch(name):
            raise OptionError(
                f"{name!r} is not the name of a topic",
                "names are separated by commas; for a pattern write topic-pattern",
            )
    if not topic_names(text):
        raise OptionError("must name at least one topic", "such as shop.orders,shop.items")
    return text


def topic_names(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_pattern(text: str) -> str:
    NamePattern(text)
    return text


def _check_offsets(text: str) -> str:
    specific_offsets(text)
    return text


def specific_offsets(text: str) -> dict[tuple[str, int], int]:
    """The offsets by topic and partition; the topic is empty if the text has none. Raises OptionError.

    The text is `orders:0:42;orders:1:300`, or in Flink's form `topic:orders,partition:0,offset:42`.
    """
    found: dict[tuple[str, int], int] = {}
    for part in text.split(";"):
        match = _SPECIFIC.fullmatch(part)
        if match is None:
            raise OptionError("must be topic:partition:offset, several separated by ;", "such as orders:0:42")
        partition = match["topic"] or match["own"] or "", int(match["partition"] or match["number"])
        found[partition] = int(match["offset"] or match["at"])
    return found


class KafkaSourceOptions(SourceOptions, RegistryOptions, KafkaConnectionOptions):
    """Reads change messages of other tools from topics of Apache Kafka."""

    implementation: ClassVar[str] = "connectors.kafka.source:KafkaSource"
    prefixes: ClassVar[dict[str, str]] = KafkaConnectionOptions.connection_prefixes
    table_parts: ClassVar[int] = 1
    fixed_reason: ClassVar[str] = "existing values were read with the old setting, the same messages give others now"
    start_keys: ClassVar[tuple[str, ...]] = ("scan.startup.", "tables")
    flink_defaults: ClassVar[dict[str, str]] = {"scan.startup.mode": "group-offsets", "value.format": "debezium-json"}

    type: Literal["kafka"] = Field(description="Connector name.")
    max_batch_bytes: Size = Field(
        256 << 20,
        alias="max-batch-bytes",
        gt=0,
        description="Maximum size of the messages in one batch, without their Connect schemas.",
    )
    topics: Annotated[Line, AfterValidator(_check_topics)] | None = Field(
        None, description="Names of the topics to read, separated by commas."
    )
    topic: Annotated[Line, AfterValidator(_check_topics)] | None = Field(
        None, description="The same as `topics`, as Flink CDC has it."
    )
    group: Line | None = Field(None, alias="group-id", description="The same as `properties.group.id`.")
    topic_pattern: Annotated[Line, AfterValidator(_check_pattern)] | None = Field(
        None,
        alias="topic-pattern",
        description=r"Instead of `topics`: a regular expression that the whole name of a topic matches, such as "
        r"`shop\..*`. Topics that are created later are read too.",
    )
    tables: Tables | None = Field(
        None,
        description="Which tables to read from the messages, as patterns of `db.table`; default: all. If messages "
        "do not name their table, it has the name of the topic.",
    )
    tables_exclude: ExcludedTables | None = Field(
        None, alias="tables.exclude", description="Tables to exclude, in the same syntax."
    )
    value_format: Annotated[ValueFormat, AnyCase] = Field(
        "auto",
        alias="value.format",
        description="Format of the messages: `debezium-json` (with or without Connect's schema), `canal-json`, "
        "`maxwell-json`, `json` (a value is a row, an empty value deletes the row of the key), "
        "`debezium-avro` and `avro` (the same as `debezium-json` and `json` in Avro, with a Schema "
        "Registry; Flink's names `debezium-avro-confluent` and `avro-confluent` are accepted too), or "
        "`auto`, which detects the format from the first message of each topic, except `json` and "
        "`avro`.",
    )
    startup_mode: Annotated[StartupMode, AnyCase] = Field(
        "earliest-offset",
        alias="scan.startup.mode",
        description="Where a new pipeline starts in each partition: `earliest-offset`, `latest-offset`, "
        "`timestamp`, `specific-offsets`, or `group-offsets` (the offsets committed by the consumer "
        "group `properties.group.id`, or the earliest if there are none). New partitions are read from "
        "their beginning.",
    )
    timestamp_millis: int | None = Field(
        None,
        alias="scan.startup.timestamp-millis",
        ge=0,
        description="For `timestamp`: start at the first message written at or after this time, milliseconds since "
        "1970 UTC.",
    )
    specific: Annotated[Line, AfterValidator(_check_offsets)] | None = Field(
        None,
        alias="scan.startup.specific-offsets",
        description="For `specific-offsets`: `topic:partition:offset`, several separated by `;`, or as Flink has them. "
        "Other partitions are read from their beginning.",
    )
    discovery_interval_s: Annotated[Duration, AtLeast("100 ms")] = Field(
        30.0,
        alias="scan.topic-partition-discovery.interval",
        description="Interval for discovering new partitions and new matching topics.",
    )
    on_lost: Annotated[OnLost, AnyCase] = Field(
        "fail",
        alias="scan.on-lost",
        description="What to do if unread messages were removed by retention, or a topic was recreated: `fail` "
        "stops the run, `earliest` continues at the earliest available message and counts the missing "
        "ones.",
    )
    unreadable: Annotated[Unreadable, AnyCase] = Field(
        "fail",
        alias="unreadable-messages",
        description="What to do with unreadable messages: `fail` stops the run, `skip` skips them, `dead-letter` "
        "copies them to `dead-letter.topic`; skipped and copied ones are counted.",
    )
    dead_letter_topic: Line | None = Field(
        None,
        alias="dead-letter.topic",
        description="Topic for unreadable messages, with the reason and their position as headers. A retried task "
        "may copy a message twice.",
    )
    primary_keys: Annotated[dict[str, list[str]], BY_TABLE] = Field(
        default_factory=dict,
        alias="primary-keys",
        description="Key columns by table pattern, such as `{orders: [id]}`, if the messages do not contain them, "
        "or to override them.",
    )
    columns: Annotated[dict[str, dict[str, str]], BY_TABLE] = Field(
        default_factory=dict,
        description="Column types by table pattern, if the messages do not contain them, or to override them: "
        '`{shop.orders: {amount: "DECIMAL(10, 2)", day: DATE}}`. Types of other columns come from the '
        "messages.",
    )
    decimal_mode: Annotated[DecimalMode, AnyCase] = Field(
        "precise",
        alias="debezium.decimal.handling.mode",
        description="The Debezium connector's setting of this name, which says how it encodes DECIMAL; used for "
        "messages without a schema and columns declared in `columns`.",
    )
    unsigned_mode: Annotated[UnsignedMode, AnyCase] = Field(
        "long",
        alias="debezium.bigint.unsigned.handling.mode",
        description="The same for BIGINT UNSIGNED.",
    )
    time_mode: Annotated[TimeMode, AnyCase] = Field(
        "adaptive_time_microseconds",
        alias="debezium.time.precision.mode",
        description="The same for dates and times.",
    )
    binary_mode: Annotated[BinaryMode, AnyCase] = Field(
        "bytes",
        alias="debezium.binary.handling.mode",
        description="The same for bytes.",
    )
    zone: Zone = Field(
        "UTC",
        alias="time-zone",
        description="Time zone of instants (MySQL TIMESTAMP) that are written without a zone. A local time skipped "
        "by daylight saving time is unreadable.",
    )

    @model_validator(mode="before")
    @classmethod
    def _take_group(cls, data: Any) -> Any:
        """Set the client's `properties.group.id` from `group-id`."""
        if not isinstance(data, dict) or "group-id" not in data:
            return data
        return {f"{PREFIX}group.id": data["group-id"], **data}

    def captures(self) -> TablePattern | None:
        """The pattern of the tables to read; None for all tables."""
        if self.tables is None and self.tables_exclude is None:
            return None
        return TablePattern(self.tables or _ALL_TABLES, self.tables_exclude or "")

    @property
    def modes(self) -> DecodingModes:
        """The modes in which Debezium writes values that no schema describes."""
        return DecodingModes(self.decimal_mode, self.time_mode, self.binary_mode, self.zone, self.unsigned_mode)

    @property
    def modes_given(self) -> bool:
        """Whether the file gives such modes, so that rows without an envelope are taken for Debezium's too."""
        return not self.model_fields_set.isdisjoint(_MODES)

    def fixed(self) -> dict[str, str]:
        """The options for reading values that messages do not describe."""
        unset = _MODES - self.model_fields_set if self.value_format == "json" else ()
        return {
            key: _NOT_SET if name in unset else json.dumps(value) if isinstance(value, dict) else value
            for key, name in self._reading_options().items()
            for value in [getattr(self, name)]
        }

    def edit_effect(self, key: str) -> str:
        """The effect of editing an option: rows of an added table only come from now on."""
        rows = "rows of a table that it adds come from here on, those that were passed over do not"
        return rows if key.startswith("tables") else super().edit_effect(key)

    def edit_matters(self, key: str, before: str, tables: Mapping[TableId, TableSchema]) -> bool:
        """Whether an edit would change how values of these tables are read."""
        name = self._reading_options()[key]
        values = {each: getattr(self, each) for each in self.model_fields_set}
        if before == _NOT_SET:
            del values[name]
        else:
            values[name] = json.loads(before) if name == "columns" else before
        return self._reading().differs(self.model_construct(**values)._reading(), tables)

    def _reading(self) -> ReadingOptions:
        from connectors.kafka.edited_reading import ReadingOptions

        plain = self.value_format == "json" and not self.modes_given
        types = [(pattern, self.types_of(pattern)) for pattern in self.columns]
        return ReadingOptions(types, None if plain else self.modes, self.zone)

    def _reading_options(self) -> dict[str, str]:
        return {str(type(self).model_fields[name].alias or name): name for name in (*sorted(_MODES), "zone", "columns")}

    def types_of(self, pattern: str) -> dict[str, DataType]:
        """The declared types of a table pattern's columns."""
        return {name: DataType.parse(text) for name, text in self.columns[pattern].items()}

    @property
    def in_avro(self) -> bool:
        """Whether messages are in Avro, or may be."""
        return "avro" in self.value_format or (self.value_format == "auto" and self.registry_url is not None)

    @property
    def topic_list(self) -> tuple[str, ...]:
        """The names in `topics`."""
        return topic_names(self.topics or self.topic or "")

    def specific_offsets(self) -> dict[tuple[str, int], int]:
        """The offsets in `specific`, by topic and partition; without a topic, they belong to the only one."""
        only = self.topic_list[0] if self.topic_list else ""
        return {(topic or only, number): at for (topic, number), at in specific_offsets(self.specific or "").items()}

    def reads(self, topic: str) -> bool:
        """Whether a topic is among those to read."""
        if self.topic_pattern is not None:
            return not topic.startswith("__") and NamePattern(self.topic_pattern).matches(topic)
        return topic in self.topic_list

    def problems(self) -> Iterator[Remark]:
        """Report options about topics, startup and dead letters that are missing or contradict each other."""
        yield from super().problems()
        yield from self.connection_problems(self.passed)
        yield from self.registry_problems(self.value_format, needed=self.in_avro)
        if len([each for each in (self.topics, self.topic, self.topic_pattern) if each is not None]) != 1:
            yield Remark("topics", "needs either `topics` or `topic-pattern`", "name the topics to read")
        yield from self._startup_problems()
        yield from self._table_problems()
        if self.value_format in ("canal-json", "maxwell-json"):
            for name in sorted(self.model_fields_set.intersection(_MODES)):
                key = str(type(self).model_fields[name].alias)
                yield Remark(key, f"has no effect with value.format: {self.value_format}", "remove the key")
        if (self.unreadable == "dead-letter") != (self.dead_letter_topic is not None):
            hint = "write both unreadable-messages: dead-letter and dead-letter.topic, or neither"
            yield Remark("dead-letter.topic", "belongs to unreadable-messages: dead-letter", hint)
        elif self.dead_letter_topic is not None and self.reads(self.dead_letter_topic):
            yield Remark("dead-letter.topic", "is one of the topics that are read", "choose another")

    def _table_problems(self) -> Iterator[Remark]:
        for pattern in self.columns:
            try:
                self.types_of(pattern)
            except ValueError as error:
                yield Remark("columns", f"{pattern}: {error}", 'such as {shop.orders: {amount: "DECIMAL(10, 2)"}}')

    def _startup_problems(self) -> Iterator[Remark]:
        options: tuple[tuple[str, Any, StartupMode], ...] = (
            ("scan.startup.timestamp-millis", self.timestamp_millis, "timestamp"),
            ("scan.startup.specific-offsets", self.specific, "specific-offsets"),
        )
        for key, value, mode in options:
            if value is not None and self.startup_mode != mode:
                hint = f"write scan.startup.mode: {mode}, or remove the key"
                yield Remark(key, f"has no effect with scan.startup.mode: {self.startup_mode}", hint)
            if value is None and self.startup_mode == mode:
                yield Remark(key, "is missing", f"the mode {mode} needs it")
        if (
            self.specific
            and len(self.topic_list) != 1
            and any(not topic for topic, _ in specific_offsets(self.specific))
        ):
            yield Remark("scan.startup.specific-offsets", "names no topic", "write topic:partition:offset")
        if self.startup_mode == "group-offsets" and f"{PREFIX}group.id" not in self.passed:
            yield Remark("scan.startup.mode", "`group-offsets` needs a group", f"write {PREFIX}group.id")

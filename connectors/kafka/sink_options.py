"""Options of the Kafka sink; named as in Flink CDC where it has the same option."""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from cdc.options import AnyCase, Field, FilePath, Line, OptionError, Remark, SinkOptions, Size
from cdc.pattern_options import PatternOption
from cdc.schema import TableId
from connectors.kafka.modes import BinaryMode, DecimalMode, EncodingModes, TimeMode, UnsignedMode
from connectors.kafka.registry_options import RegistryOptions
from connectors.kafka.settings import PREFIX, KafkaConnectionOptions, KafkaSettings
from connectors.kafka.topic_names import TopicNames

ValueFormat = Literal[
    "debezium-json", "canal-json", "maxwell-json", "json", "debezium-json-flink", "canal-json-flink", "debezium-avro",
    "debezium-avro-confluent",
]  # fmt: skip
Guarantee = Literal["exactly-once", "at-least-once", "exactly_once", "at_least_once", "none"]
_FORMATS_OF_FLINK = ("debezium-json", "canal-json", "json")
_NO_MAPS = "no column is a map"
_WITH_SCHEMA_CHANGES = ("debezium-json", "canal-json", "maxwell-json")
_SET_BY_SINK = {"enable.idempotence": "true", "transactional.id": "", "acks": "all"}
_TOPIC_CONFIG = "topic.create.properties."
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _check_topic(text: str) -> str:
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise OptionError("must be a topic's name: letters, digits, dots, underscores and hyphens, at most 249")
    return text


def _check_mapping(text: str) -> str:
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        pattern, _, topic = entry.rpartition(":")
        if not pattern:
            raise OptionError(
                "must be table:topic, several separated by ;", "such as shop.orders:orders;shop.\\.*:rest"
            )
        _check_topic(topic.strip())
    return text


def _check_headers(text: str) -> str:
    for pair in _pairs(text):
        if not pair.partition(":")[0].strip() or ":" not in pair:
            raise OptionError("must be name:value, several separated by a comma", "such as region:eu,team:orders")
    return text


def _pairs(text: str) -> list[str]:
    """Split pairs at semicolons, as Flink CDC's code does; at commas, as its documentation says, if there is none."""
    return [pair.strip() for pair in text.split(";" if ";" in text else ",") if pair.strip()]


def topic_mapping(text: str | None) -> tuple[tuple[str, str], ...]:
    """The pattern and the topic of each entry of `sink.tableId-to-topic.mapping`."""
    entries = [part.strip().rpartition(":") for part in (text or "").split(";") if part.strip()]
    return tuple((pattern.strip(), topic.strip()) for pattern, _, topic in entries)


_FENCES = ("fence_topic", "transactional_id_prefix")
_FORM = (
    "value_format", "key_format", "partition_strategy", "include_schema", "decimal_mode", "unsigned_mode",
    "binary_mode", "time_mode",
)  # fmt: skip
"""Options that determine how a row is written, and where in its topic."""

Topic = Annotated[str, AfterValidator(_check_topic)]
HeaderPairs = Annotated[str, AfterValidator(_check_headers)]
Mapping = Annotated[
    str,
    AfterValidator(_check_mapping),
    PatternOption(lambda text: [pattern for pattern, _ in topic_mapping(text)], of="sink"),
]


class KafkaSinkOptions(RegistryOptions, KafkaConnectionOptions, SinkOptions):
    """Publishes changes as messages of Kafka topics, exactly once for readers with `isolation.level=read_committed`."""

    implementation: ClassVar[str] = "connectors.kafka.sink:KafkaSink"
    prefixes: ClassVar[dict[str, str]] = {
        **KafkaConnectionOptions.connection_prefixes,
        _TOPIC_CONFIG: "Settings of new topics, such as `topic.create.properties.cleanup.policy: compact`.",
    }
    fixed_reason: ClassVar[str] = "what they wrote would come twice"
    flink_only: ClassVar[dict[str, str]] = {
        f"{name}.{option}": reason
        for option, reason in (
            ("map-null-key.mode", _NO_MAPS),
            ("map-null-key.literal", _NO_MAPS),
            ("encode.decimal-as-plain-number", "decimals never have an exponent"),
        )
        for name in _FORMATS_OF_FLINK
    }
    flink_refused: ClassVar[dict[str, str]] = {
        **{
            f"{name}.timestamp-format.standard": "remove it: `value.format` determines how times are written"
            for name in _FORMATS_OF_FLINK
        },
        "csv.*": "remove it: keys of `key.format: csv` have commas between their values, and quotes",
    }
    flink_defaults: ClassVar[dict[str, str]] = {
        "value.format": "called debezium-json-flink here",
        "partition.strategy": "all-to-zero",
        "sink.delivery-guarantee": "at-least-once",
    }

    type: Literal["kafka"] = Field(description="Connector name.")
    value_format: Annotated[ValueFormat, AnyCase] = Field(
        "debezium-json",
        alias="value.format",
        description="`debezium-json`: Debezium's envelope. `canal-json`: Canal's flat messages. `maxwell-json`: "
        "Maxwell's rows. `json`: the row itself, an empty value for a delete. `debezium-json-flink`, "
        "`canal-json-flink`: the messages of Flink CDC's sink. `debezium-avro`, or "
        "`debezium-avro-confluent`: Debezium's envelope in Avro, key and value, with a Schema Registry.",
    )
    key_format: Annotated[Literal["json", "csv"], AnyCase] = Field(
        "json",
        alias="key.format",
        description="`json`: the key of the value's format. `csv`: the table and the key's values.",
    )
    partition_strategy: Annotated[Literal["hash-by-key", "all-to-zero"], AnyCase] = Field(
        "hash-by-key",
        alias="partition.strategy",
        description="`hash-by-key`: murmur2 of the key, as Java producers do; all rows of a table without a key go to "
        "one partition. `all-to-zero`: everything to partition 0.",
    )
    topic: Topic | None = Field(
        None, description="One topic for all tables. Default: a topic per table, named like the table."
    )
    mapping: Mapping | None = Field(
        None,
        alias="sink.tableId-to-topic.mapping",
        description="Topics of some tables: `table pattern:topic`, several separated by `;`; the first match applies.",
    )
    topic_prefix: Annotated[str, AfterValidator(_check_topic)] | None = Field(
        None,
        alias="topic.prefix",
        description="Prefix of topic names, followed by a dot, and `source.name` in Debezium's messages.",
    )
    create_topics: bool = Field(True, alias="topic.create", description="Whether missing topics are created.")
    create_partitions: int | None = Field(
        None, alias="topic.create.partitions", ge=1, description="Partitions of new topics; default: the cluster's."
    )
    create_replication: int | None = Field(
        None,
        alias="topic.create.replication-factor",
        ge=1,
        description="Replication factor of new topics; default: the cluster's.",
    )
    delivery_guarantee: Annotated[Guarantee, AnyCase] = Field(
        "exactly-once",
        alias="sink.delivery-guarantee",
        description="`exactly-once`: a transaction per task. `at-least-once`: records are readable as they arrive, "
        "and are written again after a crash. Flink CDC's values `exactly_once`, `at_least_once` and "
        "`none` (same as at-least-once) are accepted too.",
    )
    fence_topic: Topic = Field(
        "cdc-fences",
        alias="sink.fence-topic",
        description="The topic whose committed offsets record what was written; it stays empty, and pipelines "
        "share it.",
    )
    transactional_id_prefix: Annotated[Line, AfterValidator(_check_topic)] = Field(
        "cdc",
        alias="sink.transactional-id-prefix",
        description="Prefix of transactional ids and of the group's name, before the pipeline's id, for ACLs by "
        "prefix.",
    )
    schema_changes: Annotated[Literal["none", "topic", "inline"], AnyCase] = Field(
        "none",
        alias="sink.schema-changes",
        description="Whether schema changes are published, in the form of `value.format`: `topic`: to a separate "
        "topic; `inline`: to the topics of the tables, between the rows.",
    )
    schema_changes_topic: Topic | None = Field(
        None,
        alias="sink.schema-changes.topic",
        description="The topic of schema changes; it has one partition. Default: `topic.prefix`, as in Debezium, "
        "else `schema-changes`.",
    )
    table_headers: bool = Field(
        False,
        alias="sink.add-tableId-to-header-enabled",
        description="Whether messages have the headers `namespace`, `schemaName` and `tableName`.",
    )
    custom_headers: HeaderPairs = Field(
        "",
        alias="sink.custom-header",
        description="Headers of every message: `name:value`, several separated by `,`, or by `;` if there is one.",
    )
    dead_letters: FilePath | None = Field(
        None,
        alias="sink.dead-letter.path",
        description="Folder or filesystem URL for messages larger than `properties.max.request.size`, which are "
        "then skipped and counted. Default: such a message stops the run.",
    )
    largest_message: Size = Field(
        1_000_000,
        alias="properties.max.request.size",
        ge=1_000,
        le=1_000_000_000,
        description="Maximum size of a message, in bytes; the topic's and the broker's `max.message.bytes` must "
        "allow it.",
    )
    tombstones: bool = Field(
        True,
        alias="debezium-json.tombstones",
        description="Whether a delete is followed by a tombstone (a message without a value), so that compacted "
        "topics forget the key.",
    )
    skipped_operations: Annotated[Literal["t", "none"], AnyCase] = Field(
        "t",
        alias="debezium-json.skipped.operations",
        description="As in Debezium: `none` publishes a truncate as a message with `op: t` and no key.",
    )
    include_schema: bool = Field(
        False,
        alias="debezium-json.include-schema.enabled",
        description="Whether messages contain their Connect schema.",
    )
    decimal_mode: DecimalMode = Field(
        "precise",
        alias="debezium-json.decimal.handling.mode",
        description="As in Debezium: `precise` (base64 of the unscaled number), `string` or `double`.",
    )
    unsigned_mode: UnsignedMode = Field(
        "long",
        alias="debezium-json.bigint.unsigned.handling.mode",
        description="BIGINT UNSIGNED: `long` (numbers from 2^63 on become negative, as in Debezium) or `precise`.",
    )
    binary_mode: BinaryMode = Field(
        "bytes", alias="debezium-json.binary.handling.mode", description="`bytes` and `base64`: base64; or `hex`."
    )
    time_mode: TimeMode = Field(
        "adaptive_time_microseconds",
        alias="debezium-json.time.precision.mode",
        description="`adaptive_time_microseconds`, or `connect`: milliseconds.",
    )

    def locations(self) -> tuple[str, ...]:
        """The named brokers."""
        return tuple(dict.fromkeys(server.lower() for server in self.bootstrap_servers.split(",")))

    def fixed(self) -> dict[str, str]:
        """The names by which fences are found, the form of messages, and the choice of their partitions."""
        fields = type(self).model_fields
        values = {name: getattr(self, name) for name in (*_FENCES, *_FORM)}
        texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
        return {str(fields[name].alias): text for name, text in texts.items()}

    def why_fixed(self, key: str) -> str:
        """The reason why an option cannot be edited: existing messages stay as they are."""
        if key == "partition.strategy":
            return "changes of one key would lie in two partitions, which readers read in any order"
        of_fences = key in (type(self).model_fields[name].alias for name in _FENCES)
        return self.fixed_reason if of_fences else "messages of both forms would lie in one topic"

    def naming(self) -> dict[str, str]:
        """The options that determine the names of topics."""
        options = {
            "topic": self.topic,
            "sink.tableId-to-topic.mapping": self.mapping,
            "topic.prefix": self.topic_prefix,
        }
        return {key: text for key, text in options.items() if text}

    def container(self, naming: abc.Mapping[str, str], table: TableId) -> str:
        """The topic of the table."""
        mapping = topic_mapping(naming.get("sink.tableId-to-topic.mapping"))
        return TopicNames(naming.get("topic"), mapping, naming.get("topic.prefix", "")).topic(table)

    def problems(self) -> Iterator[Remark]:
        """Report options that contradict each other."""
        yield from super().problems()
        yield from self.connection_problems(self.passed)
        if self.include_schema and self.value_format == "debezium-json-flink":
            hint = "its values contradict their schema; debezium-json has values that obey it"
            yield Remark("debezium-json.include-schema.enabled", "is not written with debezium-json-flink", hint)
        if self.schema_changes != "none" and self.value_format not in _WITH_SCHEMA_CHANGES:
            hint = f"formats that have such messages: {', '.join(_WITH_SCHEMA_CHANGES)}"
            yield Remark("sink.schema-changes", f"schema changes are not written with {self.value_format}", hint)
        yield from self._schema_topic_problems()
        yield from self._avro_problems()
        for key, harmless in _SET_BY_SINK.items():
            if str(self.passed.get(f"{PREFIX}{key}", harmless)).lower() not in (harmless, "-1"):
                yield Remark(f"{PREFIX}{key}", "is set by the sink", "see sink.delivery-guarantee; remove the key")

    @property
    def in_avro(self) -> bool:
        """Whether messages are in Avro."""
        return self.value_format.startswith("debezium-avro")

    def _avro_problems(self) -> Iterator[Remark]:
        yield from self.registry_problems(self.value_format, needed=self.in_avro)
        if not self.in_avro:
            return
        if self.key_format == "csv":
            yield Remark("key.format", "is Avro with debezium-avro", "remove the key")
        if self.include_schema:
            yield Remark("debezium-json.include-schema.enabled", "has no effect: the registry has it", "remove the key")
        if self.skipped_operations == "none":
            yield Remark("debezium-json.skipped.operations", "has no effect with debezium-avro", "remove the key")
        if self.decimal_mode == "double":
            hint = "precise or string keep all digits"
            yield Remark("debezium-json.decimal.handling.mode", "double is not written with debezium-avro", hint)

    def _schema_topic_problems(self) -> Iterator[Remark]:
        schema_topic, explicit = self.schema_topic(), self.schema_changes_topic is not None
        key = "sink.schema-changes.topic" if explicit else "sink.schema-changes"
        if schema_topic is None and explicit:
            yield Remark(key, "has no effect", "set sink.schema-changes: topic, or remove it")
        if schema_topic is not None and schema_topic in (
            self.topic,
            *(topic for _, topic in topic_mapping(self.mapping)),
        ):
            hint = "name another one as sink.schema-changes.topic, or set sink.schema-changes: inline"
            yield Remark(key, f"schema changes would go to {schema_topic}, a topic of rows", hint)
        if schema_topic == self.fence_topic:
            hint = "name another one as sink.schema-changes.topic"
            yield Remark(key, f"schema changes would go to {schema_topic}, which is for fences alone", hint)

    def transactional(self) -> bool:
        """Whether the records of a task are one transaction."""
        return self.delivery_guarantee in ("exactly-once", "exactly_once")

    def settings(self) -> KafkaSettings:
        """The settings of the connection."""
        return self.cluster_settings({key: text for key, text in self.passed.items() if key.startswith(PREFIX)})

    def schema_topic(self) -> str | None:
        """The topic of all schema changes; None when they go to the tables' topics."""
        topic = self.schema_changes_topic or self.topic_prefix or "schema-changes"
        return topic if self.schema_changes == "topic" else None

    def topic_config(self) -> dict[str, str]:
        """The settings of new topics."""
        config = {key: str(text) for key, text in self.passed.items() if key.startswith(_TOPIC_CONFIG)}
        return {key.removeprefix(_TOPIC_CONFIG): text for key, text in config.items()}

    def topic_names(self) -> TopicNames:
        """The naming of the topics for the messages of tables."""
        return TopicNames(self.topic, topic_mapping(self.mapping), self.topic_prefix or "")

    def metadata(self) -> tuple[str, ...]:
        """The names of the metadata about the log position that messages contain."""
        has_position = self.value_format in ("debezium-json", "maxwell-json") or self.in_avro
        return ("log_file", "binlog_begin", "server_id", "gtid") if has_position else ()

    def headers(self, table: TableId) -> list[tuple[str, bytes]]:
        """The headers of every message of a table; a table of MySQL has no namespace."""
        found = [("namespace", ""), ("schemaName", table.database), ("tableName", table.table)]
        named = found if self.table_headers else []
        for pair in _pairs(self.custom_headers):
            name, _, value = pair.partition(":")
            named.append((name.strip(), value.strip()))
        return [(name, value.encode()) for name, value in named]

    @property
    def wraps_unsigned(self) -> bool:
        """Whether large values of BIGINT UNSIGNED are written as negative numbers."""
        return self.unsigned_mode == "long" and (self.value_format == "debezium-json" or self.in_avro)

    @property
    def cuts_times(self) -> bool:
        """Whether TIME values that are no times of day are written as NULL."""
        return self.time_mode == "connect" and (self.include_schema or self.in_avro)

    def modes(self) -> EncodingModes:
        """The options for encoding values in Debezium's messages."""
        return EncodingModes(self.decimal_mode, self.unsigned_mode, self.binary_mode, self.time_mode)

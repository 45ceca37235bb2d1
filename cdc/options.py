"""Base classes of all options models: declared once, frozen; JSON Schema, docs and checks are derived from them.

Besides plain `str`, `int`, `bool`, `float` and `Literal`, an option may be a `Duration`, a `Size`, a `FilePath` or a
type of `cdc.pattern_options`. Each of them accepts text as written in YAML: `port: "3306"` and `port: 3306` are equal.
"""

from __future__ import annotations

import math
import os.path
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from cdc.edit_rules import EditRules
from cdc.pattern import TablePattern
from cdc.schema import TableId
from cdc.schema_json import CHANGE_NAMES, CHANGE_WORDS
from cdc.units import DURATION_RULE, SIZE_RULE, OptionError, named, parse_duration, parse_size, zone_name

__all__ = [
    "AnyCase",
    "AtLeast",
    "AtMost",
    "Block",
    "Duration",
    "Field",
    "FilePath",
    "HostName",
    "Line",
    "OptionError",
    "Options",
    "Remark",
    "SecretStr",
    "SinkOptions",
    "Size",
    "SourceOptions",
    "Zone",
]


def _unit_schema(rule: str, unit: str) -> dict[str, Any]:
    pattern = r"^\s*[0-9]+(\.[0-9]+)?\s*[a-zA-Z]*\s*$"
    return {"type": ["string", "number"], "minimum": 0, "pattern": pattern, "errorMessage": rule, "unit": unit}


Duration = Annotated[
    float,
    BeforeValidator(lambda value: value if isinstance(value, float) else parse_duration(value)),
    WithJsonSchema(_unit_schema(DURATION_RULE, "seconds")),
]
"""Seconds. In Python a float is seconds; text and integers follow Flink: `30s`, a bare number is milliseconds."""

Size = Annotated[int, BeforeValidator(parse_size), WithJsonSchema(_unit_schema(SIZE_RULE, "bytes"))]
"""Bytes, written `64 mb`, `1 MiB` or as a plain number."""


def _resolve(text: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    if "://" in named(text) or text.startswith(":") or text == "-":
        return text
    text = os.path.expanduser(text)
    return os.path.normpath(os.path.join(folder, text)) if folder is not None else text


FilePath = Annotated[str, AfterValidator(_resolve)]
"""A path or glob, relative to the folder of the pipeline file; absolute paths, URLs and `-` are not changed."""


Zone = Annotated[str, AfterValidator(zone_name)]
"""A time zone: a region (`Asia/Shanghai`), `UTC`, or an offset (`GMT+08:00`)."""


AnyCase = BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value)
"""For `Annotated` with a `Literal` of lower-case words: accepts upper case too, as Flink does."""


def _check_host(text: str) -> str:
    host = text.strip()
    address = host.removeprefix("[").removesuffix("]")
    if ":" in address:
        return _check_address(address)
    if not host or len(host) > _LONGEST_HOST or _NOT_IN_HOSTS.search(host):
        raise OptionError(*_HOST_RULE)
    try:
        host.removesuffix(".").encode("idna")
    except UnicodeError:
        raise OptionError(*_HOST_RULE) from None
    return host


def _check_address(text: str) -> str:
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        hint = "write the port as an option of its own, and no scheme" if text.count(":") < 3 else "such as ::1"
        raise OptionError("must be a host name or an address, without scheme and port", hint) from None
    return text


_LONGEST_HOST = 253
_NOT_IN_HOSTS = re.compile(r"[\s\x00-\x20\x7f/@\\?#,;'\"]|^[-.]")
_HOST_RULE = (
    "must be a host name or an address",
    "such as db.example or 10.0.0.7, without scheme, user, port and path",
)

HostName = Annotated[str, AfterValidator(_check_host)]
"""A host name or an IP address, without a port; an IPv6 address may be in brackets."""


def check_line(text: str) -> str:
    """Return the text if it is one line. Raises OptionError."""
    if _CONTROL.search(text):
        raise OptionError("must be one line without control characters and tabs", "remove them")
    return text


Line = Annotated[str, AfterValidator(check_line)]
"""Text of one line, such as a name."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LARGEST_INT = 2**63 - 1


def check_value(value: object) -> None:
    """Raise OptionError for values that no setting accepts: text with NUL, integers beyond 64 bits, infinity, NaN."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, str) and "\0" in value:
        raise OptionError("holds a NUL character", "remove it")
    if isinstance(value, float) and not math.isfinite(value):
        raise OptionError("must be a finite number")
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise OptionError(f"must be at most {_LARGEST_INT}")
    if isinstance(value, dict):
        for key, item in value.items():
            check_value(key)
            check_value(item)
    elif isinstance(value, list | tuple):
        for item in value:
            check_value(item)


def AtMost(text: str) -> AfterValidator:
    """Upper bound of a `Duration`: `Annotated[Duration, AtMost("10 min")]`."""
    most = parse_duration(text)

    def check(seconds: float) -> float:
        if seconds > most:
            raise OptionError(f"must be at most {text}", "a number without a unit is milliseconds")
        return seconds

    return AfterValidator(check)


def AtLeast(text: str) -> AfterValidator:
    """Lower bound of a `Duration`: `Annotated[Duration, AtLeast("250 ms")]`."""
    least = parse_duration(text)

    def check(seconds: float) -> float:
        if seconds < least:
            raise OptionError(f"must be at least {text}", "a number without a unit is milliseconds")
        return seconds

    return AfterValidator(check)


@dataclass(frozen=True, slots=True)
class Remark:
    """A message to the user about one option: `key` as in YAML, the message, and the next step."""

    key: str
    message: str
    hint: str = ""


class Block(BaseModel):
    """One mapping of the pipeline file. Names in YAML are the aliases; unknown keys are refused; values are frozen.

    Class attributes:
        flink_only: keys accepted for Flink CDC compatibility and ignored, each with a text that names our equivalent;
            a key that ends in `.*` means all keys with that prefix.
        flink_refused: keys, also under those prefixes, that would change which rows are read or their values, and are
            therefore refused; each with our equivalent.
        flink_defaults: keys whose default differs from Flink CDC's, with Flink CDC's default.
        data: fields that hold rows instead of settings, so `check_value` does not apply.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)

    flink_only: ClassVar[dict[str, str]] = {}
    flink_refused: ClassVar[dict[str, str]] = {}
    flink_defaults: ClassVar[dict[str, str]] = {}
    data: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*", mode="after")
    @classmethod
    def _can_work(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name not in cls.data:
            check_value(value)
        return value

    @model_validator(mode="before")
    @classmethod
    def _leave_out_ignored(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if cls.ignored(str(key)) is None}

    @classmethod
    def ignored(cls, key: str) -> str | None:
        """Return why a Flink-only key is ignored; None for other keys."""
        return _named(cls.flink_only, key) if cls.refused(key) is None else None

    @classmethod
    def refused(cls, key: str) -> str | None:
        """Return our equivalent of a refused Flink-only key; None for other keys."""
        return _named(cls.flink_refused, key)

    def other_defaults(self) -> Iterator[tuple[str, str, str]]:
        """Yield key, our default and Flink CDC's default of each unset option whose defaults differ."""
        for name, field in type(self).model_fields.items():
            key = field.alias or name
            if key in self.flink_defaults and name not in self.model_fields_set:
                yield key, _default_text(field.default), self.flink_defaults[key]

    def problems(self) -> Iterator[Remark]:
        """Yield problems of combinations of values; each single field is already valid. Override."""
        yield from ()

    def warnings(self) -> Iterator[Remark]:
        """Yield warnings for a pipeline that can still run. Override."""
        yield from ()


def _named(texts: Mapping[str, str], key: str) -> str | None:
    """Return the text of a key, or of a prefix of it."""
    prefixes = (name for name in texts if name.endswith(".*") and key.startswith(name[:-1]))
    return texts.get(key) or next((texts[name] for name in prefixes), None)


def _default_text(default: object) -> str:
    return "by the machine" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


class Options(Block, EditRules):
    """Options of one connector, as written in YAML.

    Passwords are `SecretStr`: they print as stars, and only `get_secret_value()` reveals them.

    Class attributes of connector options:
        implementation: `module:Class` of the Source or Sink, imported when the pipeline starts, not before.
        prefixes: key prefixes whose options are passed through unchanged (such as `table.properties.`), each with its
            meaning; `passed` has those options, except for keys that are declared options.
    """

    implementation: ClassVar[str] = ""
    prefixes: ClassVar[dict[str, str]] = {}

    type: str = Field(description="Connector name.")
    name: Line | None = Field(None, description="A name for log lines; no effect on the data.")
    passed: dict[str, str] = Field(default_factory=dict, exclude=True, json_schema_extra={"internal": True})
    """Full keys and values of the options that start with one of `prefixes`."""

    @model_validator(mode="before")
    @classmethod
    def _gather_prefixed(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not cls.prefixes:
            return data
        declared = {field.alias for field in cls.model_fields.values()}
        passed = {
            key: text for key, text in data.items() if str(key).startswith(tuple(cls.prefixes)) and key not in declared
        }
        remaining = {key: value for key, value in data.items() if key not in passed}
        return {**remaining, "passed": {**remaining.get("passed", {}), **passed}}

    def build(self, context: Any) -> Any:
        """Import the implementation and return `Class(options, context)`. Raises ImportError with an install hint."""
        return resolve_name(self.implementation)(self, context)


class SourceOptions(Options):
    """Options of every source.

    `table_parts`: fewest parts of its table ids, to refuse shorter patterns; `namespaces`: ids may have three parts.
    """

    table_parts: ClassVar[int] = 2
    namespaces: ClassVar[bool] = False

    max_batch_bytes: Size = Field(
        64 << 20,
        alias="max-batch-bytes",
        gt=0,
        description="Maximum size of the log in one batch. A larger transaction is still one batch.",
    )
    max_batch_rows: int = Field(
        1_000_000,
        alias="max-batch-rows",
        ge=1,
        description="Approximate maximum number of rows in one batch. A larger transaction is still one batch.",
    )

    def metadata_names(self) -> tuple[str, ...]:
        """Return the metadata columns that transforms may use. Override where the source has any."""
        return ()

    def captures(self) -> TablePattern | None:
        """Return a case-insensitive pattern of the tables that the options select; None for all. May be overridden."""
        return None


class SinkOptions(Options):
    """Options of every sink.

    Class attributes:
        accepts_table_options: its new tables support properties, from a rule's `table-options`.
        accepts_partition_keys: its new tables support partitions, from a rule's `partition-keys`.
        instead_of_partitions: advice where they do not; appended to the warning about such a rule.
        drafted: values that `cdc init` writes, by option name; `{database}` is the source's.
    """

    accepts_table_options: ClassVar[bool] = False
    accepts_partition_keys: ClassVar[bool] = False
    instead_of_partitions: ClassVar[str] = "a table that you create yourself may have some, the sink fills it"
    drafted: ClassVar[dict[str, str]] = {}

    include_schema_changes: list[str] | None = Field(
        None,
        alias="include.schema.changes",
        description="Schema changes to apply: names such as `add.column`, or parts of names such as `add` or "
        "`column`. Default: all. `create.table` is always included, unless it is excluded.",
    )
    exclude_schema_changes: list[str] | None = Field(
        None,
        alias="exclude.schema.changes",
        description="Schema changes to hold back although they are included. Default: `truncate.table` and "
        "`drop.table` with the behavior lenient, none with the others; `[]` for none.",
    )

    expansion: Annotated[Literal["off", "try_expand", "expand"], AnyCase] | None = Field(
        None,
        alias="existing-table.schema-expansion.mode",
        description="Without effect: missing columns are added to an existing table, and a narrower column stops "
        "the run. Flink CDC's `check` is refused; use `cdc plan` instead.",
    )

    def metadata(self) -> tuple[str, ...]:
        """Return the metadata columns that the sink needs, by the source's names; unknown ones are NULL."""
        return ()

    def in_zone(self, zone: str) -> Self:
        """Return the options for a pipeline's `local-time-zone`. Override where instants are written without a zone."""
        return self

    def locations(self) -> tuple[str, ...]:
        """Return where the data is: a file, or each server of a cluster. Empty where the options do not identify it.

        A pipeline is not started if none of its locations is one of its earlier runs' locations.
        """
        return ()

    def naming(self) -> Mapping[str, str] | None:
        """Return the values that determine `container`, by keys of the pipeline file; None without containers."""
        return None

    def container(self, naming: Mapping[str, str], table: TableId) -> str:
        """Return where a sink table's rows are written, such as a topic, by an earlier `naming`. Raises SinkError."""
        return str(table)

    def problems(self) -> Iterator[Remark]:
        """Yield a problem for each name that is not a schema change."""
        for key, given in (
            ("include.schema.changes", self.include_schema_changes),
            ("exclude.schema.changes", self.exclude_schema_changes),
        ):
            for name in given or ():
                if name.strip().lower() not in (*CHANGE_NAMES, *CHANGE_WORDS):
                    hint = f"names are {', '.join(CHANGE_NAMES)}; parts are {', '.join(CHANGE_WORDS)}"
                    yield Remark(key, f"there is no schema change {name!r}", hint)

"""Models of the pipeline file: typed, frozen values without I/O, built by `cdc.spec.check`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, InstanceOf, SerializeAsAny

from cdc.errors import Problem, SpecError
from cdc.options import (
    AnyCase,
    AtLeast,
    Block,
    Duration,
    Field,
    FilePath,
    Line,
    Options,
    Remark,
    SecretStr,
    SinkOptions,
    Zone,
)
from cdc.pattern import TablePattern
from cdc.pattern_options import Tables
from cdc.route import missing_groups
from cdc.spec.life import LifeOptions
from cdc.spec.models import without_keys
from cdc.spec.notify import NotifyOptions
from cdc.spec.patterns import LocatedPattern
from cdc.spec.spark import SparkOptions, spark_problems
from cdc.spec.traces import TraceOptions
from cdc.transform.texts import RuleSettings, RuleSource

_SHORTEST_KEY = 16
_LONGEST_NAME = 128
"""Maximum bytes of `pipeline.name`: it is part of names of files and tables, which may have 255."""


class RouteRule(Block):
    """A route from source tables to a sink table. Several tables may go to one, and one to several."""

    source_table: Tables = Field(
        alias="source-table", description=r"Table id patterns, such as `shop.orders` or `shop.\.*`."
    )
    sink_table: str = Field(
        alias="sink-table",
        description="Table id in the sink; may contain the replace-symbol, or `$1`, `$2` for groups of source-table.",
    )
    replace_symbol: str | None = Field(
        None,
        alias="replace-symbol",
        min_length=1,
        description="Text in sink-table that is replaced by the source table's name (without its database), such "
        "as `<>`.",
    )
    shard_column: Line | None = Field(
        None,
        alias="shard-column",
        min_length=1,
        description="A column that is added to the sink table and its key and holds the id of a row's source "
        "table: for merged tables that may have equal keys.",
    )
    shard_gone: Annotated[Literal["keep", "delete"], AnyCase] = Field(
        "keep",
        alias="shard-gone",
        description="What to do with the rows of a source table of a merged table that is truncated or dropped: "
        "with `keep` they stay, with `delete` the sink table is re-snapshotted from the others. "
        "`delete` requires a shard-column.",
    )
    description: str | None = Field(None, description="Free text; no effect.")

    def problems(self) -> Iterator[Remark]:
        """Yield the problems of `symbol_problems`, an invalid table id, and `shard-gone` without a shard column."""
        parts = self.sink_table.replace(self.replace_symbol or "\0", "x").split(".")
        if len(parts) > 3 or not all(part.strip() for part in parts):
            yield Remark("sink-table", f"{self.sink_table!r} is not a table id", "write one such as ods.orders")
        if self.shard_gone == "delete" and self.shard_column is None:
            hint = "add shard-column: without it, the sink's rows cannot be assigned to a source table"
            yield Remark("shard-gone", "delete needs a shard-column", hint)
        yield from self.symbol_problems()

    def symbol_problems(self) -> Iterator[Remark]:
        """Yield problems of a symbol that is not in the sink table, and of a group that is not in the pattern."""
        if self.replace_symbol is None:
            for group in missing_groups(self):
                count = TablePattern(self.source_table).group_count
                fault = f"source-table has {count} of them" if count else "source-table has none"
                hint = "a group is a part of the pattern in brackets, such as (\\.*)"
                yield Remark("sink-table", f"there is no group {group}: {fault}", hint)
            return
        if self.replace_symbol not in self.sink_table:
            hint = f"write it where the table's name goes, such as ods.{self.replace_symbol}"
            yield Remark("sink-table", f"does not contain the replace-symbol {self.replace_symbol!r}", hint)
        elif re.search(r"\$\d", self.sink_table.replace(self.replace_symbol, "")):
            hint = "write groups only, such as $1 for the first one of source-table, or the symbol only"
            yield Remark("sink-table", "contains both the replace-symbol and groups", hint)


class TransformRule(Block):
    """Projection and filter of source tables. The first matching rule applies."""

    source_table: Tables = Field(alias="source-table", description="Table id patterns.")
    projection: str | None = Field(
        None, description="Columns and expressions, like the list after SELECT; `\\*` stands for all columns."
    )
    filter: str | bool | None = Field(None, description="Condition, like after WHERE: rows for which it is true pass.")
    mask: dict[str, str] | None = Field(
        None,
        description="Columns to mask, each with `MASK`, `HASH`, `REDACT` or `TRUNCATE_TEXT(n)`.",
    )
    primary_keys: str | None = Field(None, alias="primary-keys", description="Key columns of the sink table.")
    partition_keys: str | None = Field(None, alias="partition-keys", description="Partition columns of the sink table.")
    table_options: str | None = Field(
        None, alias="table-options", description="Options for creating the sink table: `key=value,...`."
    )
    table_options_delimiter: str | None = Field(
        None, alias="table-options.delimiter", description="Separator of table-options. Default: `,`."
    )
    description: str | None = Field(None, description="Free text; no effect.")
    converter_after_transform: str | None = Field(
        None,
        alias="converter-after-transform",
        description="`SOFT_DELETE`: a delete becomes an insert of the deleted row.",
    )
    on_error: Annotated[Literal["fail", "null", "dead-letter"] | None, AnyCase] = Field(
        "fail",
        alias="on-error",
        description="What to do if an expression fails on a value: `fail` stops the run, `null` makes the result "
        "NULL and counts it, `dead-letter` writes the row to `pipeline.dead-letter.path` instead.",
    )


class PipelineOptions(LifeOptions, SparkOptions, TraceOptions, NotifyOptions):
    """The `pipeline` block: settings of the whole pipeline."""

    flink_only: ClassVar[dict[str, str]] = {
        "schema-operator.rpc-timeout": "there is no schema operator: a batch never crosses a schema change",
        "schema.operator.uid": "the state belongs to the pipeline: see `cdc run --state-dir`",
        "operator.uid.prefix": "the state belongs to the pipeline: see `cdc run --state-dir`",
        "sink.partitioning.strategy": "changes of a key always stay in order",
        "flink-conf": "there is no Flink; `spark` has Spark settings",
        "execution.checkpointing.*": "there are no checkpoints: a batch is committed as soon as it is written",
        "transform.decimal.precision.mode": "decimals always keep all their digits",
        "transform.expression.semantics": "comparisons, LIKE and NULL always follow SQL, as with FLINK_SQL",
        "use.legacy.json.format": "JSON always has MySQL's own text, with spaces",
        "shade.identifier": "passwords are taken as written, nothing is decoded: write ${PASSWORD} of the environment",
        "shade.sensitive.keywords": "passwords are never shown",
    }

    flink_defaults: ClassVar[dict[str, str]] = {
        "schema.change.behavior": "LENIENT; EVOLVE in its conf/flink-cdc.yaml",
        "parallelism": "1; 4 in its conf/flink-cdc.yaml",
        "local-time-zone": "zone of the system",
    }

    name: Line | None = Field(None, description="Name of the pipeline. Default: the file's name.")
    parallelism: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Maximum number of tasks that read one batch. Default: Spark's cores (`--master local[4]`), "
        "half of them with `--background`.",
    )
    retry_timeout_s: Annotated[Duration, AtLeast("1 s")] = Field(
        600.0,
        alias="retry-timeout",
        description="How long the engine retries temporary failures: a commit without an answer, an unavailable "
        "sink, a lost process of Spark.",
    )
    local_time_zone: Zone = Field(
        "UTC",
        alias="local-time-zone",
        description="Time zone of time functions in transforms, and the default of `sink.time-zone`: a region, an "
        "offset such as `GMT+08:00`, or UTC.",
    )
    hash_key: SecretStr | None = Field(
        None,
        alias="hash-key",
        description="Key of the function HASH: at least 16 characters. Another key gives other values.",
    )
    dead_letters: FilePath | None = Field(
        None,
        alias="dead-letter.path",
        description="Folder or filesystem URL for the rows of rules with `on-error: dead-letter`.",
    )
    runtime_mode: Annotated[Literal["streaming", "batch"], AnyCase] = Field(
        "streaming",
        alias="execution.runtime-mode",
        description="`batch`: a run ends at the end of the source's log as of its start, like `cdc run "
        "--until-caught-up`.",
    )
    schema_change_behavior: Annotated[Literal["evolve", "exception", "try_evolve", "lenient", "ignore"], AnyCase] = (
        Field(
            "lenient",
            alias="schema.change.behavior",
            description="What a schema change of the source does to the sink: with `lenient` no data is removed, "
            "with `evolve` the sink mirrors the source, including drops and truncates.",
        )
    )
    lost_values: Annotated[Literal["fail", "null"] | None, AnyCase] = Field(
        None,
        alias="schema.change.lost-values",
        description="What to do with a value that the sink table's type cannot hold, because a change of type was "
        "held back or tables are merged: `fail` stops the run, `null` writes NULL and counts it. "
        "Default: fail with `evolve` and `exception`, else null.",
    )
    existing_rows: Annotated[Literal["upsert", "append", "replace", "fail"], AnyCase] = Field(
        "upsert",
        alias="existing-rows",
        description="What to do with rows that a sink table has before its first snapshot. `upsert`: they are "
        "overwritten by key, rows that the source lacks stay, with a warning; a table without a key "
        "stops the run. `append`: rows of a table without a key stay, too. `replace`: the snapshot "
        "replaces them once it is complete. `fail`: the run stops.",
    )
    route_mode: Annotated[
        Literal["all_match", "first_match", "all-match", "first-match"],
        AnyCase,
        AfterValidator(lambda mode: mode.replace("-", "_")),
    ] = Field(
        "all_match",
        alias="route-mode",
        description="Which routes apply if several match a table: all of them, or the first.",
    )
    unmatched_patterns: Annotated[Literal["fail", "warn"], AnyCase] = Field(
        "fail",
        alias="unmatched-patterns",
        description="What to do if a pattern of `tables`, a route, a rule or another option matches no table: "
        "`fail` stops `cdc plan` and the first run with the pattern; `warn` is for tables that are "
        "created later.",
    )
    user_defined_function: list[dict[str, object]] | None = Field(
        None, alias="user-defined-function", description="User-defined functions for transforms, in Python."
    )
    model: Annotated[list[dict[str, object]] | None, AfterValidator(without_keys)] = Field(
        None, description="AI models for transforms, as functions."
    )

    @property
    def bounded(self) -> bool:
        """Whether each run ends at the position that the log's end has when it starts, however it is started."""
        return self.runtime_mode == "batch" or self.schedule is not None

    def problems(self) -> Iterator[Remark]:
        """Yield problems of contradictory values and of weak secrets."""
        yield from super().problems()
        yield from spark_problems(self.spark)
        if self.name is not None and len(self.name.encode()) > _LONGEST_NAME:
            hint = "files of the state directory and tables of the sink are named after it"
            yield Remark(
                "name", f"must have at most {_LONGEST_NAME} bytes in UTF-8, has {len(self.name.encode())}", hint
            )
        if self.hash_key is not None and len(self.hash_key.get_secret_value()) < _SHORTEST_KEY:
            hint = "such as what `openssl rand -hex 32` prints, from the environment: ${HASH_KEY}"
            yield Remark("hash-key", f"must have at least {_SHORTEST_KEY} characters", hint)


@dataclass(frozen=True, slots=True)
class SpecWarning:
    """A warning about something that is accepted. Lines and columns count from 1; `path` is dotted."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: warning: {self.path}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class PipelineSpec(BaseModel):
    """A valid pipeline file with one of its sinks.

    Attributes:
        file: path of the file, as given by the user.
        source, sink: options of the two connectors, each of its own class.
        sink_name: name of the sink in a file with a list of sinks, otherwise empty.
        rivals: the routes of other sinks that write to the same target, by name.
        patterns: every table pattern of the file.
        rules, rule_settings: `transform` with the positions of its texts, and the settings common to all rules.
        secret_variables: environment variables with secrets; child processes of a run do not get them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    source: SerializeAsAny[Options]
    sink: SerializeAsAny[Options]
    sink_name: str = ""
    rivals: dict[str, tuple[RouteRule, ...]] = {}
    route: tuple[RouteRule, ...] = ()
    transform: tuple[TransformRule, ...] = ()
    patterns: tuple[InstanceOf[LocatedPattern], ...] = ()
    rules: tuple[InstanceOf[RuleSource], ...] = ()
    rule_settings: InstanceOf[RuleSettings] = RuleSettings()
    pipeline: PipelineOptions = PipelineOptions()
    secret_variables: tuple[str, ...] = ()

    def metadata(self) -> tuple[str, ...]:
        """Return the metadata columns that the sink needs, by the source's names."""
        return self.sink.metadata() if isinstance(self.sink, SinkOptions) else ()

    def other_defaults(self) -> str:
        """Describe the defaults in use that differ from Flink CDC's, in one line; empty for other connectors."""
        if not self.source.flink_defaults:
            return ""
        found = [each for block in (self.source, self.sink, self.pipeline) for each in block.other_defaults()]
        return ", ".join(f"{key} {ours} ({theirs})" for key, ours, theirs in found)

    @property
    def name(self) -> str:
        """The pipeline's name: `pipeline.name`, or the file's name without folder and suffix."""
        import os.path

        return self.pipeline.name or os.path.splitext(os.path.basename(self.file))[0]

    @property
    def label(self) -> str:
        """The name for people, with the sink's name where there are several: `shop/lake`."""
        return f"{self.name}/{self.sink_name}" if self.sink_name else self.name


@dataclass(frozen=True, slots=True)
class Checked:
    """A valid pipeline file with warnings for its author. `specs`: the pipeline with each of its sinks."""

    specs: tuple[PipelineSpec, ...]
    warnings: tuple[SpecWarning, ...] = ()

    @property
    def spec(self) -> PipelineSpec:
        """The spec of a file with one sink. Raises SpecError when it has several."""
        if len(self.specs) > 1:
            names = ", ".join(spec.sink_name for spec in self.specs)
            hint = f"name one with --sink where the command has it, in Python `with_sink(name)`: {names}"
            raise SpecError([Problem(self.specs[0].file, 1, 1, "sink", "has several sinks, one is needed here", hint)])
        return self.specs[0]

    def with_sink(self, name: str | None) -> Checked:
        """Return the pipeline with one of its sinks, or with all for None. Raises SpecError for an unknown name."""
        if name is None:
            return self
        found = tuple(spec for spec in self.specs if spec.sink_name == name)
        if not found:
            names = ", ".join(spec.sink_name for spec in self.specs if spec.sink_name) or "one, without a name"
            raise SpecError([Problem(self.specs[0].file, 1, 1, "sink", f"has no sink {name!r}", f"there is: {names}")])
        return Checked(found, self.warnings)

"""Options of the values source and sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from cdc.options import Field, FilePath, Remark, SinkOptions, SourceOptions

_METADATA = ("op_ts", "sequence")


class ValuesSourceOptions(SourceOptions):
    """Reads schema changes and row images from a JSON-lines file or from the pipeline file itself."""

    implementation: ClassVar[str] = "connectors.values.source:ValuesSource"
    namespaces: ClassVar[bool] = True
    data: ClassVar[frozenset[str]] = frozenset({"rows"})

    type: Literal["values"] = Field(description="Connector name.")
    path: FilePath | None = Field(
        None,
        min_length=1,
        description="JSON-lines file: one schema change or row image per line. Relative to the folder of the "
        "pipeline file.",
    )
    rows: tuple[dict[str, Any], ...] | None = Field(
        None, description="The same objects as a list in the pipeline file. Set either `path` or `rows`."
    )

    metadata_list: str | None = Field(
        None,
        alias="metadata.list",
        description="Metadata columns for transforms: `op_ts` (`ts_ms`), `sequence`.",
    )

    def metadata_names(self) -> tuple[str, ...]:
        """Return the names of `metadata.list`."""
        return tuple(name.strip() for name in (self.metadata_list or "").split(",") if name.strip())

    def problems(self) -> Iterator[Remark]:
        """Report unknown metadata names, and `path` and `rows` given together or not at all."""
        for name in self.metadata_names():
            if name not in _METADATA:
                yield Remark("metadata.list", f"no metadata named {name!r}", f"known: {', '.join(_METADATA)}")
        if (self.path is None) == (self.rows is None):
            yield Remark("path", "needs either `path` or `rows`", "name a JSON-lines file, or list the rows here")


class ValuesSinkOptions(SinkOptions):
    """Writes schema changes and row images as JSON lines, to a file or to the terminal."""

    implementation: ClassVar[str] = "connectors.values.sink:ValuesSink"
    accepts_table_options: ClassVar[bool] = True
    accepts_partition_keys: ClassVar[bool] = True
    flink_only: ClassVar[dict[str, str]] = {
        "print.enabled": "lines are written to `path`, the terminal by default",
        "materialized.in.memory": "lines are written to `path`, the terminal by default",
        "sink.api": "there is one way to write",
        "error.on.schema.change": "`cdc test` and the doubles of `cdc.testing` have faults for tests",
    }

    type: Literal["values"] = Field(description="Connector name.")
    path: FilePath = Field(
        "-",
        min_length=1,
        description="File to append to, relative to the folder of the pipeline file; `-` is the terminal.",
    )

"""Options of the values source and sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from cdc.options import Field, FilePath, Remark, SinkOptions, SourceOptions


class ValuesSourceOptions(SourceOptions):
    """Reads schema changes and row images that are written down: in a JSON-lines file, or in the pipeline file."""

    implementation: ClassVar[str] = "connectors.values.source:ValuesSource"

    type: Literal["values"] = Field(description="Connector name.")
    path: FilePath | None = Field(
        None,
        min_length=1,
        description="JSON-lines file: one schema change or row image a line. Relative to the folder of the pipeline "
        "file.",
    )
    rows: tuple[dict[str, Any], ...] | None = Field(
        None, description="The same objects as in the file, as a list in the pipeline file. Give `path` or `rows`."
    )

    def problems(self) -> Iterator[Remark]:
        """The lines come from one place."""
        if (self.path is None) == (self.rows is None):
            yield Remark("path", "needs either `path` or `rows`", "name a JSON-lines file, or list the rows here")


class ValuesSinkOptions(SinkOptions):
    """Writes schema changes and row images as JSON lines, to a file or to the terminal."""

    implementation: ClassVar[str] = "connectors.values.sink:ValuesSink"

    type: Literal["values"] = Field(description="Connector name.")
    path: FilePath = Field(
        "-",
        min_length=1,
        description="File to append to, relative to the folder of the pipeline file; `-` is the terminal.",
    )

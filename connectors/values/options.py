"""Options of the values source and sink."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from cdc.options import Field, Options


class ValuesSourceOptions(Options):
    """Reads schema changes and row images that are written down: in a JSON-lines file, or in the pipeline file."""

    implementation: ClassVar[str] = "connectors.values.source:ValuesSource"

    type: Literal["values"] = Field(description="Connector name.")
    path: str | None = Field(
        None,
        min_length=1,
        description="JSON-lines file: one schema change or row image a line. Relative to the folder of the pipeline file.",
    )
    rows: tuple[dict[str, Any], ...] | None = Field(
        None, description="The same objects as in the file, as a list in the pipeline file. Give `path` or `rows`."
    )

    @model_validator(mode="after")
    def _path_or_rows(self) -> ValuesSourceOptions:
        if (self.path is None) == (self.rows is None):
            raise ValueError("needs either `path` or `rows`")
        return self


class ValuesSinkOptions(Options):
    """Writes schema changes and row images as JSON lines, to a file or to the terminal."""

    implementation: ClassVar[str] = "connectors.values.sink:ValuesSink"

    type: Literal["values"] = Field(description="Connector name.")
    path: str = Field(
        "-",
        min_length=1,
        description="File to append to, relative to the folder of the pipeline file; `-` is the terminal.",
    )

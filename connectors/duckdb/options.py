"""Options of the DuckDB sink."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import field_validator

from cdc.options import Field, Options


class DuckDbSinkOptions(Options):
    """Writes into one DuckDB database file; a source database becomes a DuckDB schema of the same name."""

    implementation: ClassVar[str] = "connectors.duckdb.sink:DuckDbSink"

    type: Literal["duckdb"] = Field(description="Connector name.")
    path: str = Field(
        min_length=1,
        description="Database file, made when it does not exist. Relative to the folder of the pipeline file.",
    )
    memory_limit: str | None = Field(
        None,
        alias="memory-limit",
        pattern=r"^\d+(\.\d+)? ?([KMGTkmgt]i?)?[Bb]$",
        description="Most memory DuckDB may take on the driver, such as `2GB`. Default: DuckDB's, 80 % of the machine.",
    )
    threads: int | None = Field(
        None, ge=1, description="Threads DuckDB may use on the driver. Default: one per processor core."
    )
    lock_timeout_s: int = Field(
        60,
        alias="lock-timeout",
        ge=0,
        description="Seconds to wait for another process that has the file open, before the run fails. "
        "The sink holds the file only while it commits, so that others can read it between batches.",
    )

    @field_validator("path")
    @classmethod
    def _must_be_a_file(cls, path: str) -> str:
        if path.startswith(":memory:"):
            raise ValueError("an in-memory database cannot be read by anybody else; name a file, such as orders.duckdb")
        return path

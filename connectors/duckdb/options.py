"""Options of the DuckDB sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from cdc.options import Duration, Field, FilePath, Remark, SinkOptions, Size


class DuckDbSinkOptions(SinkOptions):
    """Writes to one DuckDB database file; a source database becomes a DuckDB schema of the same name."""

    implementation: ClassVar[str] = "connectors.duckdb.sink:DuckDbSink"

    drafted: ClassVar[dict[str, str]] = {"path": "{database}_mirror.duckdb"}

    type: Literal["duckdb"] = Field(description="Connector name.")
    path: FilePath = Field(
        min_length=1,
        description="Database file, created if it does not exist. Relative to the folder of the pipeline file. "
        "Name it differently from the databases in it: DuckDB refuses `shop.orders` as ambiguous in "
        "`shop.duckdb`.",
    )
    memory_limit: Size | None = Field(
        None,
        alias="memory-limit",
        ge=64 << 20,
        description="Maximum memory for DuckDB on the driver, such as `2 gb`. Default: 80 % of the machine.",
    )
    threads: int | None = Field(
        None, ge=1, description="Maximum number of DuckDB's threads on the driver. Default: one per processor core."
    )
    lock_timeout: Duration = Field(
        60.0,
        alias="lock-timeout",
        description="How long to wait for another process that has the file open, before the run fails. The sink "
        "only has the file open while it commits, so that others can read it between batches.",
    )

    def locations(self) -> tuple[str, ...]:
        """Return the file."""
        return (self.path,)

    def problems(self) -> Iterator[Remark]:
        """Refuse an in-memory database: it ends with the process."""
        yield from super().problems()
        if self.path.startswith(":"):
            yield Remark("path", "an in-memory database cannot be read by anybody else", "name a file: orders.duckdb")

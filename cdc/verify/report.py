"""Results of `cdc verify`, printed as lines for people or as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """The verdict on a table."""

    EQUAL = "equal"
    DIFFERENT = "different"
    OPEN = "open"
    """Cannot be decided now: the pipeline lags, or is copying the table."""
    SKIPPED = "skipped"
    """Cannot be decided at all: the sink may differ from the source."""


class DifferenceKind(StrEnum):
    """The kind of a difference between rows."""

    MISSING = "missing in the sink"
    EXTRA = "only in the sink"
    OTHER = "other values in the sink"


@dataclass(frozen=True, slots=True)
class RowReport:
    """One row that differs. `key`: the key values by column, as text; `columns`: the differing columns, each with the
    source's and the sink's value, empty where values must not be shown."""

    kind: DifferenceKind
    key: Mapping[str, str]
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        key = ", ".join(f"{name}={value}" for name, value in self.key.items())
        shown = (
            f"{name} is {values[0]} in the source, {values[1]} in the sink" if any(values) else name
            for name, values in self.columns.items()
        )
        return f"{self.kind}: {key or 'a row'}" + (f" ({'; '.join(shown)})" if self.columns else "")


@dataclass(frozen=True, slots=True)
class TableReport:
    """The report on one sink table.

    Attributes:
        table, sources: ids of the sink table and of its source tables.
        source_rows, sink_rows: row counts of the first scan; None when nothing was read.
        missing, extra, other: number of differing rows, by kind. `open`: number of undecided rows.
        all: whether the numbers are exact; otherwise they are minimums.
        rows: some of the differing rows.
        left_out: columns that were not compared.
        note: the reason for the state, where the numbers do not give it.
    """

    table: str
    sources: tuple[str, ...]
    state: Verdict
    source_rows: int | None = None
    sink_rows: int | None = None
    missing: int = 0
    extra: int = 0
    other: int = 0
    open: int = 0
    all: bool = True
    rows: tuple[RowReport, ...] = ()
    left_out: tuple[str, ...] = ()
    note: str = ""

    def lines(self) -> Iterator[str]:
        """The report as lines for people."""
        yield f"{self.table}: {self.state}{self._counts_text()}{f': {self.note}' if self.note else ''}"
        if self.left_out:
            yield f"  not compared: {', '.join(self.left_out)}"
        for row in self.rows:
            yield f"  {row}"
        more = self.missing + self.extra + self.other - len(self.rows)
        if self.rows and more > 0:
            yield f"  and {more} more"

    def _counts_text(self) -> str:
        if self.source_rows is None:
            return ""
        if self.state is Verdict.EQUAL:
            return f", {self.source_rows} rows"
        numbers = {
            DifferenceKind.MISSING: self.missing,
            DifferenceKind.EXTRA: self.extra,
            DifferenceKind.OTHER: self.other,
            "not decided": self.open,
        }
        least = "" if self.all else "at least "
        found = ", ".join(f"{least}{number} {kind}" for kind, number in numbers.items() if number)
        return f", {self.source_rows} rows in the source and {self.sink_rows} in the sink; {found}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The reports on all tables. `batch` and `committed`: the committed batch, and the source's offset after it."""

    pipeline: str
    batch: int
    committed: Mapping[str, Any]
    tables: tuple[TableReport, ...]

    @property
    def equal(self) -> bool:
        """Whether every table was compared and is equal."""
        return all(table.state is Verdict.EQUAL for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        return {"equal": self.equal, **asdict(self)}

    @property
    def summary(self) -> str:
        """The last line for people."""
        count = len(self.tables)
        equal = sum(table.state is Verdict.EQUAL for table in self.tables)
        return f"{equal} of {count} table{'' if count == 1 else 's'} equal"

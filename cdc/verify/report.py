"""Results of `cdc verify` as values that print: for people line by line, for programs as JSON."""

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
    """It cannot be told now: the pipeline is behind, or copies the table."""
    SKIPPED = "skipped"
    """It cannot be told at all: the sink need not have what the source has."""


class DifferenceKind(StrEnum):
    """The kind of a difference between rows."""

    MISSING = "missing in the sink"
    EXTRA = "only in the sink"
    OTHER = "other values in the sink"


@dataclass(frozen=True, slots=True)
class RowReport:
    """One row that differs. `key`: the values of its key by column, as text; `columns`: those that differ, each with
    the source's and the sink's value, empty where values are not to be shown."""

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
    """One sink table.

    Attributes:
        table, sources: ids of the sink table and of the source's tables that go to it.
        source_rows, sink_rows: as they were counted first; None when nothing was read.
        missing, extra, other: rows that differ, by kind. `open`: rows that could not be decided.
        all: whether the numbers are exact; else there are at least so many.
        rows: some of the rows that differ.
        left_out: columns that are not compared.
        note: why the state is what it is, where numbers do not say it.
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
    """All tables. `committed`: the batch and the source's offset that the sink had at the start."""

    pipeline: str
    batch: int
    committed: Mapping[str, Any]
    tables: tuple[TableReport, ...]

    @property
    def equal(self) -> bool:
        """Whether every table is, and was compared."""
        return all(table.state is Verdict.EQUAL for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """A JSON object with all there is."""
        return {"equal": self.equal, **asdict(self)}

    @property
    def summary(self) -> str:
        """The last line for people."""
        count = len(self.tables)
        equal = sum(table.state is Verdict.EQUAL for table in self.tables)
        return f"{equal} of {count} table{'' if count == 1 else 's'} equal"

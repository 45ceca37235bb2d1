"""Differing rows as text: the key, the columns that differ, and on request their values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.verify.recheck import Verdicts
from cdc.verify.report import DifferenceKind, RowReport

LONGEST = 80
"""Characters of a value."""
MASKED = "(masked)"


def kinds(verdicts: Verdicts, *, keyed: bool) -> dict[DifferenceKind, int]:
    """How many rows differ in which way. Of a table without a key a row counts as often as one side has it more."""
    here, there = verdicts.source.counts, verdicts.sink.counts
    different = verdicts.different
    more = np.abs(here - there)
    missing = different & ((there == 0) if keyed else (here > there))
    extra = different & ((here == 0) if keyed else (there > here))
    other = different & ~missing & ~extra
    return {
        DifferenceKind.MISSING: int(more[missing].sum()),
        DifferenceKind.EXTRA: int(more[extra].sum()),
        DifferenceKind.OTHER: int(np.maximum(more[other], 1).sum()),
    }


def shown_rows(
    verdicts: Verdicts, columns: Sequence[str], key: Sequence[str], masked: Collection[str], *, most: int, values: bool
) -> Iterator[RowReport]:
    """The first rows that differ. `values`: with the values of both sides, but for `masked` columns."""
    for place in np.flatnonzero(verdicts.different)[:most].tolist():
        here, there = verdicts.source.shown.get(place), verdicts.sink.shown.get(place)
        one = here if here is not None else there
        if one is None:  # it is not among those whose rows were kept
            continue
        names = key or (columns if values else ())
        texts = {name: _text(one.column(name)[0], name in masked) for name in names}
        kind = (
            DifferenceKind.MISSING if there is None else DifferenceKind.EXTRA if here is None else DifferenceKind.OTHER
        )
        if not key:
            kind = (
                DifferenceKind.MISSING
                if verdicts.source.counts[place] > verdicts.sink.counts[place]
                else DifferenceKind.EXTRA
            )
        found: dict[str, tuple[str, str]] = {}
        if here is not None and there is not None:
            found = {name: _both(here, there, name, name in masked, values) for name in _unequal(here, there)}
        yield RowReport(kind, texts, found)


def _unequal(here: pa.RecordBatch, there: pa.RecordBatch) -> list[str]:
    return [name for name in here.schema.names if not here.column(name)[0].equals(there.column(name)[0])]


def _both(here: pa.RecordBatch, there: pa.RecordBatch, name: str, masked: bool, values: bool) -> tuple[str, str]:
    if not values:
        return "", ""
    return _text(here.column(name)[0], masked), _text(there.column(name)[0], masked)


def _text(value: Any, masked: bool) -> str:
    if not value.is_valid:
        return "NULL"
    if masked:
        return MASKED
    plain = value.as_py() if not pa.types.is_temporal(value.type) else value.cast(pa.string()).as_py()
    text = plain.hex() if isinstance(plain, bytes) else str(plain)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    plainly = text == text.strip() and text not in ("", "NULL", MASKED)
    return text if plainly else f"'{text}'"  # else it would be read as nothing, or as what it is not

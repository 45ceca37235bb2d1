"""Options edited between two runs that affect existing rows, and a sink whose batches are not those of the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc.errors import SinkError, first_of
from cdc.options import Options, SinkOptions, SourceOptions
from cdc.schema import TableId
from cdc.sink import lacks_batches
from cdc.state.decisions import CommitLog
from cdc.state.fingerprint import Fingerprint
from cdc.tables.states import Schemas

if TYPE_CHECKING:
    from cdc.sink import Sink
    from cdc.spec.model import PipelineSpec
    from cdc.state.directory import StateDir


@dataclass(frozen=True, slots=True)
class EditedOption:
    """An option whose value differs from earlier runs: its key in the file, the effect on existing rows, and whether a
    run is refused because of it."""

    key: str
    text: str
    refused: bool = True


def fingerprint_of(spec: PipelineSpec) -> Fingerprint:
    """Return the fingerprint of a pipeline file: where rows are written, and the options that affect them."""
    sink = spec.sink
    locations, naming, fixed = (
        (sink.locations(), sink.naming(), sink.fixed()) if isinstance(sink, SinkOptions) else ((), None, None)
    )
    patterns = tuple(dict.fromkeys(each.name for each in spec.patterns))
    return Fingerprint(sink.type, locations, naming, fixed, patterns, of_source(spec.source))


def check_batches(found: int | None, committed: int, decided: int, where: str) -> None:
    """Raise SinkError if a sink whose last batch is `found` has other batches of the pipeline than its state.

    `found` is None for a sink that does not record it; `committed` and `decided` are the last ones of the state.
    """
    if found is not None and found > max(committed, decided):
        raise SinkError(
            f"has the batches of this pipeline up to {found}, its state only those up to {max(committed, decided)}: "
            "the state directory was replaced by an older copy or a savepoint",
            where=where,
            hint="restore the sink's data of the same time, too; or start over with another --state-dir",
        )
    if found is not None and found < committed:
        raise lacks_batches(found, committed, where)


def check_sink(spec: PipelineSpec, sink: Sink, state: StateDir, before: Fingerprint | None) -> None:
    """Raise SinkError as a run does if the sink lacks batches, or has others; `before`: settings of the last run.

    A run may commit meanwhile: what it has decided is read after what the sink has.
    """
    log, now = CommitLog(state.commits), fingerprint_of(spec)
    committed = log.committed()
    if committed >= 0 and before is not None and before.same_location(now):
        check_batches(sink.last_committed_batch(), committed, log.last(), ", ".join(now.locations))


def of_source(options: object) -> Mapping[str, str]:
    """Return the values of a source's options that a fingerprint stores: `fixed` ones and those of the start."""
    if not isinstance(options, SourceOptions):
        return {}
    keys = {field.alias or name: name for name, field in type(options).model_fields.items()}
    start = {key: getattr(options, name) for key, name in keys.items() if key.startswith(options.start_keys)}
    return {**{key: str(value or "not set") for key, value in start.items()}, **(options.fixed() or {})}


def edited_options(before: Fingerprint, source: object, sink: object, tables: Schemas | None) -> Iterator[EditedOption]:
    """Yield the options whose values differ from `before`, if that affects rows of these source tables.

    `tables` is None where it is unknown which tables have rows.
    """
    for part, options, before_values, now in (
        ("source", source, before.source, of_source(source)),
        ("sink", sink, before.fixed or {}, (sink.fixed() or {}) if isinstance(sink, SinkOptions) else {}),
    ):
        for key, text in before_values.items():
            if not isinstance(options, Options) or now.get(key, text) == text:
                continue
            edit = f"is {now[key]} now, the runs before had {text}"
            if key.startswith(options.start_keys):
                yield EditedOption(f"{part}.{key}", f"{edit}: {options.edit_effect(key)}", refused=False)
            elif tables is None or options.edit_matters(key, text, tables):
                yield EditedOption(f"{part}.{key}", f"{edit}: {options.why_fixed(key)}")


def relocated_rows(before: Mapping[str, str] | None, options: object, filled: Iterable[TableId]) -> str:
    """Return why a run is refused: tables with rows, and where these were written; empty when it is not.

    `before` is the `naming` of the sink's options in earlier runs; None when unknown.
    """
    now = options.naming() if isinstance(options, SinkOptions) else None
    if before is None or now is None or before == now:
        return ""
    assert isinstance(options, SinkOptions)
    containers = ((table, options.container(before, table), options.container(now, table)) for table in sorted(filled))
    moved = [f"{table} went to {old}, now to {new}" for table, old, new in containers if old != new]
    if not moved:
        return ""
    return f"rows would be written to another location in the sink: {first_of(moved, between='; ')}"

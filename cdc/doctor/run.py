"""`cdc doctor`: checks a pipeline's source, sink and machine, and returns findings."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc.errors import CdcError, EngineError, SinkError, SourceError
from cdc.finding import Finding, Level, error, ok
from cdc.offsets import source_offset
from cdc.process.disk import examine_folder
from cdc.source import Context, Offset
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.store import LocalStore

if TYPE_CHECKING:
    from cdc.spec.model import PipelineSpec

_EXIT_CODES = {"source": SourceError.exit_code, "sink": SinkError.exit_code, "machine": EngineError.exit_code}
_DISTRIBUTION = "cdc-pipelines"
_SHOWN = ("pyspark", "pyarrow", "duckdb")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Examined:
    """A finding about a part of the pipeline: `source`, `sink` or `machine`."""

    part: str
    finding: Finding

    def lines(self) -> Iterator[str]:
        """The findings as lines for people."""
        found = self.finding
        yield f"{found.level:<7}  {self.part}: {found.subject}: {found.message}"
        if found.fix:
            yield f"         -> {found.fix}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"part": self.part, **asdict(self.finding)}

    @property
    def exit_code(self) -> int:
        """The exit code of the command if this is the worst finding."""
        return _EXIT_CODES[self.part] if self.finding.level is Level.ERROR else 0


def examine(spec: PipelineSpec, state_dir: Path | None) -> Iterator[Examined]:
    """Run all checks; a failed check is a finding, and the others still run. Changes nothing."""
    from cdc.job.state_location import reading, state_root

    root, committed = state_root(state_dir, spec), None
    for finding in examine_machine(root):
        yield Examined("machine", finding)
    try:
        with reading(state_dir, spec) as state:
            committed = _committed(spec, state)
            for finding in _state(spec, state):
                yield Examined("machine", finding)
    except CdcError as failed:
        yield Examined("machine", _failed("state directory", failed))
    with tempfile.TemporaryDirectory(prefix="cdc-doctor-") as folder:
        store = LocalStore(Path(folder))
        yield from _with_errors("source", _source(spec, store, committed))
        yield from _with_errors("sink", _sink(spec, store))


def _state(spec: PipelineSpec, state: StateDir) -> Iterator[Finding]:
    """Findings about an existing state directory. Raises StateError."""
    pipeline = state.pipeline(source=spec.source.type)
    if pipeline is not None:
        batch = CommitLog(state.commits).committed()
        yield ok("state directory", f"pipeline {pipeline}, committed up to batch {batch}")


def _committed(spec: PipelineSpec, state: StateDir) -> Offset | None:
    """The pipeline's position; None if nothing is committed, or the state cannot be read."""
    try:
        if state.pipeline(source=spec.source.type) is None:
            return None
        log = CommitLog(state.commits)
        decision = log.get(log.committed()) if log.committed() >= 0 else None
    except CdcError:
        return None
    return None if decision is None else source_offset(decision.end)


def _source(spec: PipelineSpec, store: LocalStore, committed: Offset | None) -> Iterator[Finding]:
    source = spec.source.build(Context(spec.name, store.within("source")))
    try:
        yield from source.examine(committed)
    finally:
        source.stop()


def _sink(spec: PipelineSpec, store: LocalStore) -> Iterator[Finding]:
    yield from spec.sink.build(Context(spec.name, store.within("sink"))).examine()


def _with_errors(part: str, findings: Iterator[Finding]) -> Iterator[Examined]:
    """Yield the findings of `source` or `sink`; an error of the connector is one of them."""
    try:
        for finding in findings:
            yield Examined(part, finding)
    except CdcError as failed:
        yield Examined(part, _failed(part, failed))
    except ImportError as failed:
        yield Examined(part, error(part, f"the connector cannot be loaded: {failed}", "install what it needs"))
    except Exception as failed:  # noqa: BLE001 - a finding: the other checks still run
        yield Examined(part, _unexpected(part, failed))


def _unexpected(subject: str, failed: Exception) -> Finding:
    """A finding for an unexpected error: an unexpected response of a server, or a defect of the connector."""
    message = f"its answers are not understood: {type(failed).__name__}: {str(failed)[:200]}"
    return error(
        subject, message, "check that the address is that of such a server; CDC_DEBUG=1 `cdc plan` has the trace"
    )


def _failed(subject: str, failed: CdcError) -> Finding:
    return error(subject, f"{failed.where}: {failed.message}" if failed.where else failed.message, failed.hint)


def examine_machine(state_root: Path) -> Iterator[Finding]:
    """Findings about Java, packages, and the disk of the state directory."""
    yield _java()
    yield _packages()
    yield from examine_folder("state directory", state_root)


def _java() -> Finding:
    from cdc.job.spark.java import choose_java

    try:
        return ok("Java", str(choose_java(os.environ)))
    except EngineError as failed:
        return error("Java", failed.message, failed.hint)


def _packages() -> Finding:
    """The packages that this package requires; none for a source tree that is not installed."""
    try:
        declared = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        declared = []
    names = {found[0] for each in declared if "extra ==" not in each and (found := _NAME.match(each)) is not None}
    missing = sorted(name for name in names | {*_SHOWN} if _version(name) is None)
    if missing:
        return error("Python packages", f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    shown = ", ".join(f"{name} {_version(name)}" for name in _SHOWN)
    return ok("Python packages", f"Python {platform.python_version()}, {shown}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

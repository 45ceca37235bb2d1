"""The pipelines of a server's folder: a supervisor for each valid file, which follows the file's changes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import CdcError, NotNow, PipelineUnknown
from cdc.serve.folder import FileVersion, Folder, folder_of
from cdc.serve.supervisor import Supervisor
from cdc.status.file import last_status

if TYPE_CHECKING:
    from cdc.serve.control import LogLine, PipelineView
    from cdc.serve.host import Host
    from cdc.source import Siblings
    from cdc.spec.model import PipelineSpec


SAVEPOINT_S = 60.0
"""How long a savepoint waits for the end of the running batch."""


@dataclass(frozen=True, slots=True)
class StateRoot:
    """The state root, with a folder named after each pipeline; with a `store`, a URL, the state is below that."""

    root: Path
    store: str = ""

    def folder(self, spec: PipelineSpec) -> Path:
        """Return the folder of a pipeline; with a store, the local one. Raises StateError."""
        from cdc.job.state_location import working_copy

        name = folder_of(spec)
        return working_copy(self.root / name, f"{self.store}/{name}") if self.store else self.root / name

    def ran_last(self, folder: str) -> str:
        """Return the file of the last run in this pipeline folder; empty when unknown."""
        seen = last_status(self.root / folder)
        return "" if seen is None else seen.file

    def check(self, spec: PipelineSpec) -> None:
        """Raise StateError for a list of sinks after runs with a single sink here, and the other way round."""
        from cdc.job.state_location import check_one_sink, check_progress, folder_name

        (check_progress if spec.sink_name else check_one_sink)(spec, self.root / folder_name(spec.name))


class Pipelines:
    """Supervisors by pipeline name, and invalid files. Implements `Control` for page, REST API and notifications.

    One thread scans the folder; other methods are thread-safe.
    """

    def __init__(
        self, folder: Path, state_root: Path, state_store: str, host: Host, say: Callable[[str, str], None]
    ) -> None:
        """Start without pipelines. `host` is for the supervisors, `say` writes a line and its level."""
        self._path, self._host, self._say = folder, host, say
        self._state_root = StateRoot(state_root, state_store)
        self._folder = Folder(folder, self._state_root.ran_last)
        self._supervisors: dict[str, Supervisor] = {}
        self._wrong: dict[Path, FileVersion] = {}
        self._of_file: dict[Path, str] = {}
        self._ending: dict[Path, Supervisor] = {}
        self._lock = threading.Lock()

    def scan(self) -> None:
        """Process new, changed and deleted files. An error in one does not affect the others."""
        try:
            changes = self._folder.scan()
        except OSError as error:
            self._say(f"{self._path}: cannot be read, its pipelines continue: {error.strerror}", "error")
            return
        for key in changes.deleted:
            self._forget(key)
        for version in changes.read:
            if self._renamed(version):
                self._forget(version.key)
        for problem in dict.fromkeys(problem for version in changes.read for problem in version.problems):
            self._say(problem, "error")
        for version in changes.read:
            self._follow(version)

    def _renamed(self, version: FileVersion) -> bool:
        """Whether a file now defines another pipeline."""
        spec, name = version.spec, self._of_file.get(version.key)
        return spec is not None and not version.problems and name is not None and spec.label != name

    def _follow(self, version: FileVersion) -> None:
        name = self._of_file.get(version.key)
        supervisor = self._supervisors.get(name) if name is not None else None
        if version.spec is None or version.problems:
            self._wrong[version.key] = version
            if supervisor is not None:
                supervisor.file_errors = version.problems
            return
        self._wrong.pop(version.key, None)
        if supervisor is None:
            self._add(version)
            return
        self._say(f"{version.file}: has changed, {supervisor.spec.label} continues with it", "info")
        supervisor.file_errors = ()
        supervisor.change(version.spec)

    def _add(self, version: FileVersion) -> None:
        spec = version.spec
        if spec is None:
            return
        try:
            self._state_root.check(spec)
            supervisor = Supervisor(spec, self._state_root.folder(spec), self._host)
            supervisor.begin(self._ending.pop(supervisor.root, None))
        except (CdcError, OSError) as error:
            self._say(f"{version.file}: {error}", "error")
            self._wrong[version.key] = replace(version, spec=None, problems=(str(error),))
            return
        with self._lock:
            self._supervisors[spec.label] = supervisor
            self._of_file[version.key] = spec.label
        self._say(f"{version.file}: pipeline {spec.label}", "info")

    def _forget(self, key: Path) -> None:
        """Stop the pipeline of a deleted file or sink after the running batch. Its state is kept."""
        self._wrong.pop(key, None)
        with self._lock:
            name = self._of_file.pop(key, None)
            supervisor = self._supervisors.pop(name, None) if name is not None else None
        if supervisor is not None:
            supervisor.close()
            self._ending[supervisor.root] = supervisor
            reason = "has another name" if key in self._folder.versions else "was deleted"
            self._say(f"{key}: {reason}, pipeline {name} ends", "info")
            threading.Thread(target=supervisor.join, name=f"end-{name}", daemon=True).start()

    def by_name(self) -> Sequence[Supervisor]:
        """Return the supervisors, ordered by name."""
        with self._lock:
            return [self._supervisors[name] for name in sorted(self._supervisors)]

    def supervisor(self, name: str) -> Supervisor:
        """Return the supervisor of a pipeline. Raises PipelineUnknown, and NotNow for an invalid file."""
        with self._lock:
            supervisor = self._supervisors.get(name)
        if supervisor is None and (invalid := self._wrong_file(name)) is not None:
            problems = "; ".join(invalid.problems)
            raise NotNow(
                f"its file is invalid: {problems}", where=name, hint="correct the file; it is read again at once"
            )
        if supervisor is None:
            names = ", ".join(each.spec.label for each in self.by_name()) or "none"
            raise PipelineUnknown("there is no pipeline of that name", where=name, hint=f"there are: {names}")
        return supervisor

    def siblings(self, spec: PipelineSpec, scratch: Path) -> Siblings | None:
        """Return the runs into the other sinks of a pipeline's file; None for a single sink."""
        from cdc.job.control import siblings_of

        specs = [each.spec for each in self.by_name() if each.spec.file == spec.file]
        return siblings_of(spec, specs, scratch / folder_of(spec).partition(os.sep)[0])

    def pipelines(self) -> Sequence[PipelineView]:
        """Return all pipelines, by name, and invalid files without one."""
        views = [supervisor.view() for supervisor in self.by_name()]
        return sorted([*views, *(version.invalid() for version in self._invalid())], key=lambda view: view.name)

    def _invalid(self) -> Sequence[FileVersion]:
        """Return invalid files without a valid earlier version."""
        return [version for key, version in list(self._wrong.items()) if key not in self._of_file]

    def _wrong_file(self, name: str) -> FileVersion | None:
        """Return the invalid file shown under a name that no pipeline has."""
        with self._lock:
            if name in self._supervisors:
                return None
        return next((version for version in self._invalid() if version.shown_name == name), None)

    def pipeline(self, name: str) -> PipelineView:
        """Return one pipeline. Raises PipelineUnknown."""
        supervisor = self._supervisors.get(name)
        if supervisor is not None:
            return supervisor.view()
        found = next((view for view in self.pipelines() if view.name == name), None)
        return self.supervisor(name).view() if found is None else found

    def spec(self, name: str) -> PipelineSpec:
        """Return the valid version of its file in use. Raises PipelineUnknown."""
        return self.supervisor(name).spec

    def start(self, name: str) -> None:
        """Start a run now. Raises PipelineUnknown, NotNow."""
        self.supervisor(name).start()

    def stop(self, name: str, *, drain: bool = False) -> None:
        """Stop its run, and start no other until `start`. Raises PipelineUnknown."""
        self.supervisor(name).stop(drain=drain)

    def savepoint(self, name: str) -> Path:
        """Copy its state between two runs; returns the copy's folder. Raises PipelineUnknown, NotNow, StateError."""
        from cdc.job.savepoint import check_savepoint, create_savepoint

        pipeline = self.supervisor(name)
        check_savepoint(pipeline.spec, pipeline.root)
        return pipeline.between_runs(lambda: create_savepoint(pipeline.spec, pipeline.root), SAVEPOINT_S)

    def resync(self, name: str, table: str) -> None:
        """Re-snapshot a table. Raises PipelineUnknown, NotNow, StateError, SourceError."""
        from cdc.job.resync import request_resync

        pipeline = self.supervisor(name)
        request_resync(pipeline.spec, table, pipeline.root)

    def pause(self, name: str, table: str) -> str:
        """Pause a table; returns a message. Raises PipelineUnknown, NotNow, StateError, SourceError."""
        from cdc.job.pausing import request_pause

        pipeline = self.supervisor(name)
        return request_pause(pipeline.spec, table, pipeline.root)

    def resume(self, name: str, table: str) -> str:
        """Resume a table; returns a message. Raises PipelineUnknown, NotNow, StateError, SourceError."""
        from cdc.job.pausing import request_resume

        pipeline = self.supervisor(name)
        return request_resume(pipeline.spec, table, pipeline.root)

    def log(self, name: str, last: int = 100) -> Sequence[LogLine]:
        """Return the last lines of its log; none for an invalid file. Raises PipelineUnknown."""
        return () if self._wrong_file(name) is not None else self.supervisor(name).log.last(last)

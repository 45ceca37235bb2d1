"""Watches the pipeline files of a folder: finds new, changed and deleted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import SpecError, StateError
from cdc.printable import printable
from cdc.serve.attention import Waiting, reason
from cdc.serve.control import PipelineView

if TYPE_CHECKING:
    from cdc.spec.model import PipelineSpec

SUFFIXES = (".yaml", ".yml")
_NOT = (".test.yaml", ".test.yml")


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A version of a file, with one of its sinks where it has a list of them.

    `problems` are its mistakes with their positions; a version with both a `spec` and problems is valid, but conflicts
    with another file. `sink` is the name of a sink in a list.
    """

    file: Path
    digest: str
    spec: PipelineSpec | None = None
    problems: tuple[str, ...] = ()
    sink: str = ""

    @property
    def key(self) -> Path:
        """A unique path: the file, and the sink below it."""
        return self.file / self.sink if self.sink else self.file

    @property
    def shown_name(self) -> str:
        """The name to show for an invalid file."""
        return f"{self.file.stem}/{self.sink}" if self.sink else self.file.stem

    def invalid(self) -> PipelineView:
        """Return the view of an invalid file."""
        return PipelineView(
            name=printable(self.shown_name), file=printable(self.file), source="", sink="", state="invalid",
            state_dir="", file_errors=self.problems, attention=reason("invalid", (), Waiting(), 0.0),
        )  # fmt: skip

    @property
    def refused(self) -> bool:
        """Whether it cannot be used because of another file."""
        return self.spec is not None and bool(self.problems)


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """The difference between two scans of the folder: new and changed files, and keys of deleted ones."""

    read: tuple[FileVersion, ...] = ()
    deleted: tuple[Path, ...] = ()


@dataclass
class Folder:
    """Scans a folder. One thread.

    Pipeline files are `NAME.yaml` or `NAME.yml` directly in the folder, without tests of pipelines and hidden files.
    Two files with the same pipeline name, or names that give the same folder, would share a state directory: one of
    them is refused as long as the other exists. The file that has the name keeps it, even when it becomes invalid, as
    its earlier version keeps running; files that swap names get them. A name that is free goes to the file that
    `ran_last` in that folder, else to the one named like its pipeline, else to the first.
    """

    path: Path
    ran_last: Callable[[str], str] = lambda folder: ""
    _known: dict[Path, FileVersion] = field(default_factory=dict)
    _has: dict[Path, PipelineSpec] = field(default_factory=dict)

    def scan(self) -> FolderChanges:
        """Return the changes since the last scan. Raises OSError when the folder cannot be read."""
        files = sorted(path for path in self.path.iterdir() if _is_pipeline(path))
        read = {path: versions for path in files if (versions := self._changed(path)) is not None}
        changed = {version.key: version for versions in read.values() for version in versions}
        gone = tuple(
            key
            for key, version in self._known.items()
            if version.file not in files or (version.file in read and key not in changed)
        )
        for key in gone:
            del self._known[key]
            self._has.pop(key, None)
        if changed or gone:
            changed = {key: version for key, version in self._known.items() if version.refused} | changed
        return FolderChanges(tuple(each for each in self._with_names(changed.values()) if self._is_news(each)), gone)

    def _with_names(self, versions: Iterable[FileVersion]) -> Sequence[FileVersion]:
        """Assign names to versions or refuse them; a file that gives up a name precedes the one that gets it."""
        done, remaining = list[FileVersion](), sorted(versions, key=self._turn)
        while remaining:
            named = [self._with_name(version) for version in remaining]
            done += [version for version in named if not version.refused]
            refused = [version for version in named if version.refused]
            if len(refused) == len(remaining):
                ring = self._ring(refused)
                if not ring:
                    return [*done, *refused]
                self._has |= {version.key: version.spec for version in ring if version.spec is not None}
            remaining = refused
        return done

    def _ring(self, refused: Sequence[FileVersion]) -> Sequence[FileVersion]:
        """Return a cycle of files that exchange names: each wants the name of the next, the last that of the first."""
        wants = {version.key: version for version in refused}
        has = {folder_of(spec): key for key, spec in self._has.items()}
        for first in refused:
            ring, version = [first], first
            while version.spec is not None:
                name = has.get(folder_of(version.spec))
                owner = None if name is None else wants.get(name)
                if owner is first:
                    return ring
                if owner is None or owner in ring:
                    break
                ring.append(owner)
                version = owner
        return []

    def _is_news(self, version: FileVersion) -> bool:
        before, self._known[version.key] = self._known.get(version.key), version
        return version != before

    def _changed(self, path: Path) -> Sequence[FileVersion] | None:
        """Read the file with each of its sinks; None when it has not changed. Mistakes apply to all sinks."""
        known = [version for version in self._known.values() if version.file == path]
        try:
            str(path).encode()
            text = path.read_bytes()
        except UnicodeEncodeError:
            problem = f"{printable(path)}: its name is not UTF-8 (rename it)"
            return _wrong(known, FileVersion(path, "", problems=(problem,)))
        except OSError as error:
            return _wrong(known, FileVersion(path, "", problems=(f"{path}: cannot be read: {error.strerror}",)))
        from cdc.spec.check import digest as digest_of

        digest = digest_of(str(path), text)
        if any(version.digest == digest for version in known):
            return None
        found = _read(path, digest)
        return found if isinstance(found, tuple) else _wrong(known, found)

    def _turn(self, version: FileVersion) -> tuple[bool, bool, Path]:
        """Return the sort key for assigning names to pipelines."""
        spec = version.spec
        if spec is None:
            return True, True, version.key
        return self.ran_last(folder_of(spec)) != str(version.file), spec.name != version.file.stem, version.key

    def _with_name(self, version: FileVersion) -> FileVersion:
        """Assign the requested name, or refuse the version when another file has it."""
        spec, path = version.spec, version.file
        if spec is None:
            return version
        for key, has in self._has.items():
            if key != version.key and _collide(has, spec):
                same = (
                    f"is that of {has.file}" if has.label == spec.label else f"and that of {has.file} name one folder"
                )
                problem = f"{path}: its name {spec.label} {same} (give one of them another pipeline.name)"
                return replace(version, problems=(problem,))
        self._has[version.key] = spec
        return replace(version, problems=())

    @property
    def versions(self) -> Mapping[Path, FileVersion]:
        """The last read versions of the files, by key."""
        return self._known


def _wrong(known: Sequence[FileVersion], invalid: FileVersion) -> tuple[FileVersion, ...]:
    """Return an invalid version for each sink that the file had."""
    return tuple(replace(invalid, sink=version.sink) for version in known) or (invalid,)


def _read(path: Path, digest: str) -> tuple[FileVersion, ...] | FileVersion:
    """Read the file: a version per sink, or one with its problems."""
    from cdc.spec.check import check_file

    try:
        specs = check_file(str(path)).specs
        folder_of(specs[0])
    except SpecError as error:
        return FileVersion(path, digest, problems=tuple(str(problem) for problem in error.problems))
    except StateError as error:
        return FileVersion(path, digest, problems=(f"{path}: {error}",))
    return tuple(FileVersion(path, digest, spec, sink=spec.sink_name) for spec in specs)


def folder_of(spec: PipelineSpec) -> str:
    """Return the pipeline's folder in the state root, with a subfolder for one of several sinks.

    Raises StateError for a name that cannot be a folder's.
    """
    from cdc.job.state_location import folder_name, of_sink

    return str(of_sink(folder_name(spec.name), spec))


def _collide(has: PipelineSpec, spec: PipelineSpec) -> bool:
    """Whether two pipelines would share a folder or a name. Sinks of a file have subfolders of its folder."""
    from cdc.job.state_location import folder_name

    same = has.label == spec.label or folder_of(has) == folder_of(spec)
    return same or (has.file != spec.file and folder_name(has.name) == folder_name(spec.name))


def _is_pipeline(path: Path) -> bool:
    """Whether the path is a pipeline file, including a dangling link, which will be unreadable."""
    name = path.name
    if path.suffix not in SUFFIXES or name.endswith(_NOT) or name.startswith("."):
        return False
    return path.is_file() or (path.is_symlink() and not path.exists())

"""The pipeline files of a folder: found, read when they are new or have changed, and told when they are gone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import SpecError, StateError

if TYPE_CHECKING:
    from cdc.spec.model import PipelineSpec

SUFFIXES = (".yaml", ".yml")
_NOT = (".test.yaml", ".test.yml")


@dataclass(frozen=True, slots=True)
class Version:
    """A file as it was read. `spec` is None when `problems`, its mistakes with their places, are not empty."""

    file: Path
    digest: str
    spec: PipelineSpec | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look at the folder has found: new and changed files, and files that are gone."""

    read: tuple[Version, ...] = ()
    gone: tuple[Path, ...] = ()


@dataclass
class Folder:
    """Looks at a folder. One thread.

    A file is `NAME.yaml` or `NAME.yml` right in the folder; tests of pipelines, hidden files and folders are none. Two
    files with one name of a pipeline, or names that make one folder, would share a state directory: the second is
    refused.
    """

    path: Path
    _known: dict[Path, Version] = field(default_factory=dict)

    def look(self) -> Changes:
        """What is new since the last look. Raises OSError when the folder cannot be read."""
        files = sorted(path for path in self.path.iterdir() if _is_pipeline(path))
        gone = tuple(path for path in self._known if path not in files)
        for path in gone:
            del self._known[path]
        read = tuple(version for path in files if (version := self._changed(path)) is not None)
        return Changes(read, gone)

    def _changed(self, path: Path) -> Version | None:
        known = self._known.get(path)
        try:
            text = path.read_bytes()
        except OSError as error:
            version = Version(path, "", problems=(f"{path}: cannot be read: {error.strerror}",))
            changed = known is None or known.digest != ""
        else:
            digest = hashlib.sha256(text).hexdigest()
            changed = known is None or known.digest != digest
            version = self._read(path, digest) if changed else Version(path, digest)
        if not changed:
            return None
        self._known[path] = version
        return version

    def _read(self, path: Path, digest: str) -> Version:
        from cdc.job.state_location import folder_name
        from cdc.spec.check import check_file

        try:
            spec = check_file(str(path)).spec
            folder = folder_name(spec.name)
        except SpecError as error:
            return Version(path, digest, problems=tuple(str(problem) for problem in error.problems))
        except StateError as error:
            return Version(path, digest, problems=(f"{path}: {error}",))
        for other, version in self._known.items():
            if other == path or version.spec is None:
                continue
            if folder_name(version.spec.name) == folder:
                same = (
                    f"is that of {other}" if version.spec.name == spec.name else f"and that of {other} name one folder"
                )
                problem = f"{path}: its name {spec.name} {same} (give one of them another pipeline.name)"
                return Version(path, digest, problems=(problem,))
        return Version(path, digest, spec)

    @property
    def versions(self) -> Mapping[Path, Version]:
        """The files as they were last read."""
        return self._known


def _is_pipeline(path: Path) -> bool:
    name = path.name
    return path.suffix in SUFFIXES and not name.endswith(_NOT) and not name.startswith(".") and path.is_file()

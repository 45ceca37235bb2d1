"""The location of a pipeline's state: `--state-dir`, a folder next to the pipeline file, or an object store.

During a run, state in an object store has a working copy on this machine, in `$CDC_STATE_CACHE` or
`$XDG_CACHE_HOME/cdc/state`, and a lease of `$CDC_STATE_LEASE_S` seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cdc.errors import NotNow, StateError
from cdc.job.lock import HELD_HINT, RunLock, is_locked
from cdc.job.spark.java import cache_folder
from cdc.retry import RetryPolicy
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.state.remote.restore import restore
from cdc.state.remote.run import TTL_S, hold_working_copy, note_url, url_of
from cdc.state.remote.store import RemoteStore
from cdc.state.remote.stores import HDFS, SCHEMES, bucket_at, example

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/*)(.*)", re.DOTALL)
_KNOWN = frozenset({
    *SCHEMES, "adl", "cos", "dbfs", "file", "ftp", "gcs", "http", "https", "oss", "s3n", "wasb", "wasbs",
})  # fmt: skip
"""Schemes that are recognized as a URL without a slash after them."""
_SHORTEST_S, _LONGEST_S = 1.0, 600.0
_COMMAND = RetryPolicy(timeout_s=30.0)
"""How long a command waits for an unreachable store."""


@dataclass(frozen=True, slots=True)
class StateLocation:
    """The location of a state. `root` is the folder; with a `url`, the folder of the working copy."""

    root: Path
    url: str = ""

    @contextlib.contextmanager
    def locked_state(self, retry: RetryPolicy, notify: Callable[[str], None]) -> Iterator[StateDir]:
        """Context manager: the state, for a run that has locked the folder. Raises StateError."""
        with contextlib.ExitStack() as stack:
            if self.url:
                stack.enter_context(
                    hold_working_copy(self.url, self.root, retry, ttl_s=lease_s(os.environ), starting=notify)
                )
            yield StateDir(self.root)


def state_location(given: str | Path | None, spec: PipelineSpec) -> StateLocation:
    """The given location, or the default one. Raises StateError for an invalid one."""
    return parse_location(default_state_dir(spec) if given is None else given)


def parse_location(given: str | Path) -> StateLocation:
    """The location of a path or URL. Raises StateError for an invalid one."""
    url = _url(given)
    if url is None or url[1].lower() not in SCHEMES:
        root = local_path(given).absolute()
        if re.search("[\ud800-\udfff]", str(root)):  # the path is passed to Java as text
            hint = "rename the folder, or name another one as --state-dir"
            raise StateError("its name is not UTF-8", where=str(root), hint=hint)
        return StateLocation(root, url_of(root))
    bucket, _, prefix = url[3].strip("/").partition("/")
    prefix = "/".join(filter(None, prefix.split("/")))
    if not _may_have_name(url) or not bucket or not prefix:
        hint = f"write {example(url[1].lower())}/prefix, with a prefix for each pipeline"
        raise StateError("is not a location in an object store", where=str(given), hint=hint)
    name = f"{url[1].lower()}://{bucket}/{prefix}"
    short = hashlib.sha256(name.encode()).hexdigest()[:12]
    folder = f"{_file_name(prefix.rpartition('/')[2])[:40]}-{short}"
    cache = os.environ.get("CDC_STATE_CACHE", "")
    parent = of_this_machine(cache, "CDC_STATE_CACHE", "name a folder") if cache else cache_folder(os.environ) / "state"
    return StateLocation(parent.absolute() / folder, name)


def store_url(given: str) -> str:
    """The URL below which the state of each pipeline is stored. Raises StateError for an invalid one."""
    url = _url(given)
    if url is None or url[1].lower() not in SCHEMES:
        raise StateError("is not the URL of an object store", where=given, hint="give a folder as --state-root")
    if not _may_have_name(url) or not url[3].strip("/"):
        found = example(url[1].lower())
        raise StateError("names no store", where=given, hint=f"write {found} or {found}/prefix")
    return given.rstrip("/")


def root_of_states(given: Path) -> Path:
    """The local folder with a folder per pipeline. Raises StateError for a URL."""
    return of_this_machine(given, "the state root", "give the URL as --state-store of `cdc serve`")


def of_this_machine(given: str | Path, option: str, hint: str) -> Path:
    """A path, or the path in a URL of the scheme `file`. Raises StateError, with this hint, for other URLs."""
    url = _url(given)
    if url is not None and url[1].lower() != "file":
        raise StateError(f"{option} is a folder of this machine, not a URL", where=_url_text(url), hint=hint)
    return local_path(given)


def working_copy(root: Path, url: str) -> Path:
    """Mark a folder as the working copy of a URL. Raises StateError if it has a state of its own."""
    note_url(root, parse_location(url).url)
    return root


def lease_s(environment: Mapping[str, str]) -> float:
    """How many seconds a lease lasts without renewal. Raises StateError."""
    text = environment.get("CDC_STATE_LEASE_S", "")
    try:
        seconds = float(text) if text else TTL_S
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        hint = f"a number of seconds, {_SHORTEST_S:g} to {_LONGEST_S:g}"
        raise StateError(f"is {text!r}, which is not the duration of a lease", where="CDC_STATE_LEASE_S", hint=hint)
    return seconds


def state_root(given: str | Path | None, spec: PipelineSpec) -> Path:
    """The state directory, or the working copy, which is marked with its URL. Raises StateError."""
    found = state_location(given, spec)
    if found.url:
        note_url(found.root, found.url)
    return found.root


@contextlib.contextmanager
def reading(given: str | Path | None, spec: PipelineSpec) -> Iterator[StateDir]:
    """Context manager: the state for a read-only command; live if the pipeline runs on this machine.

    Raises StateError.
    """
    found = state_location(given, spec)
    state = _of_this_machine(found)
    if state is not None:
        yield state
        return
    with tempfile.TemporaryDirectory(prefix="cdc-state-") as folder:
        restore(bucket_at(found.url, _COMMAND), Path(folder))
        yield StateDir(Path(folder))


@contextlib.contextmanager
def changing(given: str | Path | None, spec: PipelineSpec) -> Iterator[StateDir]:
    """Context manager: the state for a command that stores a request, also during a run on this machine.

    Raises StateError, also if the pipeline runs on another machine; NotNow while a run starts or ends here.
    """
    found = state_location(given, spec)
    state = _of_this_machine(found)
    if state is not None:
        yield state
        return
    if is_locked(found.root):
        raise NotNow("a run starts or ends, or another command runs", where=str(found.root), hint="try again")
    with alone(found) as state:
        yield state


def _of_this_machine(found: StateLocation) -> StateDir | None:
    """The state of a folder, or of the run whose working copy is here; None if it is only in the store."""
    if not found.url:
        return StateDir(found.root)
    state = StateDir(found.root) if is_locked(found.root) else None
    return state if state is not None and isinstance(state.store, RemoteStore) else None


@contextlib.contextmanager
def alone(found: StateLocation, hint: str = HELD_HINT) -> Iterator[StateDir]:
    """Context manager: the state for a command that must not overlap with a run. Raises StateError if it would.

    `hint` is the error's next step.
    """
    lock = RunLock(found.root, hint=hint)
    lock.acquire()
    try:
        with found.locked_state(_COMMAND, lambda text: None) as state:
            yield state
    finally:
        lock.release()


def local_path(given: str | Path) -> Path:
    """A path, or the path in a URL of the scheme `file`. Raises StateError for other URLs."""
    url = _url(given)
    if url is None:
        return Path(given)
    scheme, slashes, path = url.groups()
    if scheme.lower() != "file":
        raise StateError(
            f"cannot keep state in {scheme}",
            where=_url_text(url),
            hint="name a folder, such as --state-dir /mnt/shared/cdc/shop, or s3://, gs:// or abfss:// with bucket and "
            "prefix, or hdfs:// with name node and folder",
        )
    if not slashes or not path:
        hint = f"write file:///{path or 'var/lib/cdc/shop'}, or the path alone"
        raise StateError("names no folder: the path in a file URL begins with /", where=str(given), hint=hint)
    if len(slashes) == 2:
        reason = f"file://{path.partition('/')[0]} names another machine"
        raise StateError(f"cannot keep state there: {reason}", where=str(given), hint=f"write file:///{path}")
    return Path("/", path)


def _url(given: str | Path) -> re.Match[str] | None:
    """The parts of a URL, None for a path. A Path of a URL has one slash, or none at the end."""
    url = _URL.fullmatch(str(given))
    return url if url is not None and (url[2] or not url[3] or url[1].lower() in _KNOWN) else None


def _may_have_name(url: re.Match[str]) -> bool:
    """Whether a name may follow the slashes of a store's URL. Not after `hdfs:///`, which has no name node."""
    return bool(url[2]) and not (url[1].lower() == HDFS and len(url[2]) > 2)


def _url_text(url: re.Match[str]) -> str:
    return f"{url[1]}://{url[3]}"


def default_state_dir(spec: PipelineSpec) -> Path:
    """`.cdc/<pipeline name>` next to the pipeline file; for one of several sinks `sinks/<name>` in it."""
    return Path(of_sink(Path(spec.file).absolute().parent / ".cdc" / folder_name(spec.name), spec))


def of_sink(given: str | Path, spec: PipelineSpec) -> str | Path:
    """The location of a sink's state within that of its pipeline; the same if there is only one sink."""
    return f"{str(given).rstrip('/')}/{SINKS}/{spec.sink_name}" if spec.sink_name else given


SINKS = "sinks"
"""The folder, within a pipeline's state, that has a state per sink."""


def check_progress(spec: PipelineSpec, root: Path) -> None:
    """Raise StateError if a pipeline with several sinks has run with one sink: that state would be ignored.

    `root` is the folder of the pipeline, `spec` the pipeline with one of the sinks.
    """
    if StateDir(root).pipeline(source=spec.source.type) is None:
        return
    raise StateError(
        "the state here is of a run with one sink, while each of several sinks has a state of its own",
        where=str(root),
        hint=f"to continue from it, move it into the folder of its sink, such as {root / SINKS / spec.sink_name}; "
        "or choose another --state-dir, and the tables are re-snapshotted",
    )


def check_one_sink(spec: PipelineSpec, root: Path) -> None:
    """Raise StateError if a pipeline with one sink has run with several: their state would be ignored, and all tables
    re-snapshotted."""
    if spec.sink_name or StateDir(root).pipeline(source=spec.source.type) is not None:
        return
    found = sorted(each.name for each in (root / SINKS).glob("*") if StateDir(each).initial_offset() is not None)
    if found:
        raise StateError(
            f"the state here is of runs into several sinks: {', '.join(found)}",
            where=str(root),
            hint=f"to continue from one of them, move the content of its folder, such as {root / SINKS / found[0]}, "
            "into this folder; or choose another --state-dir, and the tables are re-snapshotted",
        )


OF_THE_ROOT = frozenset({"lock", "savepoints", "serve.json"})
"""Names in a state root that are not folders of pipelines."""


def folder_name(name: str) -> str:
    """The folder name of a pipeline: its name with characters that every file system accepts.

    Raises StateError for a name without any, or one that the state root uses for its own files.
    """
    found = _file_name(name)
    if not found or found.lower() in OF_THE_ROOT:
        why = "has no letter" if not found else "is reserved in the folder of all state directories"
        raise StateError(f"the pipeline's name {why}", where=name, hint="give it another pipeline.name")
    return found


def _file_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in name).strip(".")

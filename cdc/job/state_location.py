"""Where a pipeline keeps its state: the folder that was asked for, one beside the pipeline file, or an object store.

A state in an object store has a working copy on this machine, in `$CDC_STATE_CACHE` or `$XDG_CACHE_HOME/cdc/state`,
while a run has it. A lease lasts for `$CDC_STATE_LEASE_S`.
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
from cdc.job.lock import RunLock, is_locked
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
"""Schemes that make a URL of what has no slash after it."""
_SHORTEST_S, _LONGEST_S = 1.0, 600.0
_COMMAND = RetryPolicy(timeout_s=30.0)
"""How long a command waits for a store that is away."""


@dataclass(frozen=True, slots=True)
class StateLocation:
    """`root` is the folder; with a `url`, that of the working copy."""

    root: Path
    url: str = ""

    @contextlib.contextmanager
    def locked_state(self, retry: RetryPolicy, notify: Callable[[str], None]) -> Iterator[StateDir]:
        """The state, of a run that has locked the folder. Raises StateError."""
        with contextlib.ExitStack() as stack:
            if self.url:
                stack.enter_context(
                    hold_working_copy(self.url, self.root, retry, ttl_s=lease_s(os.environ), starting=notify)
                )
            yield StateDir(self.root)


def state_location(given: str | Path | None, spec: PipelineSpec) -> StateLocation:
    """The place that was asked for. Raises StateError for one that cannot be."""
    return parse_location(default_state_dir(spec) if given is None else given)


def parse_location(given: str | Path) -> StateLocation:
    """The place of a path or URL. Raises StateError for one that cannot be."""
    url = _url(given)
    if url is None or url[1].lower() not in SCHEMES:
        root = local_path(given).absolute()
        if re.search("[\ud800-\udfff]", str(root)):  # Java gets it as text
            hint = "rename the folder, or name another one as --state-dir"
            raise StateError("its name is no UTF-8", where=str(root), hint=hint)
        return StateLocation(root, url_of(root))
    bucket, _, prefix = url[3].strip("/").partition("/")
    prefix = "/".join(filter(None, prefix.split("/")))
    if not _may_have_name(url) or not bucket or not prefix:
        hint = f"write {example(url[1].lower())}/prefix, with a prefix for each pipeline"
        raise StateError("names no place in a store", where=str(given), hint=hint)
    name = f"{url[1].lower()}://{bucket}/{prefix}"
    short = hashlib.sha256(name.encode()).hexdigest()[:12]
    folder = f"{_file_name(prefix.rpartition('/')[2])[:40]}-{short}"
    cache = os.environ.get("CDC_STATE_CACHE", "")
    kept = of_this_machine(cache, "CDC_STATE_CACHE", "name a folder") if cache else cache_folder(os.environ) / "state"
    return StateLocation(kept.absolute() / folder, name)


def store_url(given: str) -> str:
    """The URL of an object store below which each pipeline gets a place. Raises StateError for what is none."""
    url = _url(given)
    if url is None or url[1].lower() not in SCHEMES:
        raise StateError("is no URL of an object store", where=given, hint="give a folder as --state-root")
    if not _may_have_name(url) or not url[3].strip("/"):
        found = example(url[1].lower())
        raise StateError("names no store", where=given, hint=f"write {found} or {found}/prefix")
    return given.rstrip("/")


def root_of_states(given: Path) -> Path:
    """The folder with a folder for each pipeline. Raises StateError for a URL: it is on this machine."""
    return of_this_machine(given, "the state root", "give the URL as --state-store of `cdc serve`")


def of_this_machine(given: str | Path, what: str, hint: str) -> Path:
    """A path, or the path in a URL of the scheme `file`. Raises StateError, with this hint, for other URLs."""
    url = _url(given)
    if url is not None and url[1].lower() != "file":
        raise StateError(f"{what} is a folder of this machine, no URL", where=_url_text(url), hint=hint)
    return local_path(given)


def working_copy(root: Path, url: str) -> Path:
    """A folder that is to have the working copies of a URL. Raises StateError when it has a state of its own."""
    note_url(root, parse_location(url).url)
    return root


def lease_s(environment: Mapping[str, str]) -> float:
    """How long a lease lasts without a sign of life. Raises StateError."""
    text = environment.get("CDC_STATE_LEASE_S", "")
    try:
        seconds = float(text) if text else TTL_S
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        hint = f"a number of seconds, {_SHORTEST_S:g} to {_LONGEST_S:g}"
        raise StateError(f"is {text!r}, which is no length of a lease", where="CDC_STATE_LEASE_S", hint=hint)
    return seconds


def state_root(given: str | Path | None, spec: PipelineSpec) -> Path:
    """The folder of the state directory, or of the working copy: with its path, too, the state is found later.

    Raises StateError.
    """
    found = state_location(given, spec)
    if found.url:
        note_url(found.root, found.url)
    return found.root


@contextlib.contextmanager
def reading(given: str | Path | None, spec: PipelineSpec) -> Iterator[StateDir]:
    """The state for a command that changes nothing: of a run on this machine as it goes on, else as it is now.

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
    """The state for a command that leaves a request in it, also beside a run on this machine.

    Raises StateError, also when the pipeline runs on another machine, NotNow while its run here begins or ends.
    """
    found = state_location(given, spec)
    state = _of_this_machine(found)
    if state is not None:
        yield state
        return
    if is_locked(found.root):
        raise NotNow("a run begins or ends, or another command is at work", where=str(found.root), hint="ask again")
    with alone(found) as state:
        yield state


def _of_this_machine(found: StateLocation) -> StateDir | None:
    """A folder's state, or that of the run which has its working copy here; None where the store alone has it."""
    if not found.url:
        return StateDir(found.root)
    state = StateDir(found.root) if is_locked(found.root) else None
    return state if state is not None and isinstance(state.store, RemoteStore) else None


@contextlib.contextmanager
def alone(found: StateLocation) -> Iterator[StateDir]:
    """The state for a command that must not be beside a run. Raises StateError when there is one."""
    lock = RunLock(found.root)
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
    scheme, slashes, rest = url.groups()
    if scheme.lower() != "file":
        raise StateError(
            f"cannot keep state in {scheme}",
            where=_url_text(url),
            hint="name a folder, such as --state-dir /mnt/shared/cdc/shop, or s3://, gs:// or abfss:// with bucket and "
            "prefix, or hdfs:// with name node and folder",
        )
    if not slashes or not rest:
        hint = f"write file:///{rest or 'var/lib/cdc/shop'}, or the path alone"
        raise StateError("names no folder: the path in a file URL begins with /", where=str(given), hint=hint)
    if len(slashes) == 2:
        reason = f"file://{rest.partition('/')[0]} names another machine"
        raise StateError(f"cannot keep state there: {reason}", where=str(given), hint=f"write file:///{rest}")
    return Path("/", rest)


def _url(given: str | Path) -> re.Match[str] | None:
    """A URL: also what a Path has made of one, with one slash, or with none where nothing follows; None for a path."""
    url = _URL.fullmatch(str(given))
    return url if url is not None and (url[2] or not url[3] or url[1].lower() in _KNOWN) else None


def _may_have_name(url: re.Match[str]) -> bool:
    """Whether a URL of a store may have a name after its slashes. The name node of `hdfs:///` would be anyone's."""
    return bool(url[2]) and not (url[1].lower() == HDFS and len(url[2]) > 2)


def _url_text(url: re.Match[str]) -> str:
    return f"{url[1]}://{url[3]}"


def default_state_dir(spec: PipelineSpec) -> Path:
    """`.cdc/<pipeline name>` beside the pipeline file; of one sink of several `sinks/<name>` in it."""
    return Path(of_sink(Path(spec.file).absolute().parent / ".cdc" / folder_name(spec.name), spec))


def of_sink(given: str | Path, spec: PipelineSpec) -> str | Path:
    """The place of one sink's state in that of its pipeline: the same where there is one sink."""
    return f"{str(given).rstrip('/')}/{SINKS}/{spec.sink_name}" if spec.sink_name else given


SINKS = "sinks"
"""The folder of a pipeline's state with a state for each of its sinks."""


def check_progress(spec: PipelineSpec, root: Path) -> None:
    """Raise StateError where the pipeline of a list of sinks has run with one sink: nobody would go on from there.

    `root` is the folder of the pipeline, `spec` has one of the sinks.
    """
    if StateDir(root).pipeline(source=spec.source.type) is None:
        return
    raise StateError(
        "the progress here is of a run with one sink, and those of a list have each their own",
        where=str(root),
        hint=f"to go on from it, move all of it into the folder of its sink, such as {root / SINKS / spec.sink_name}; "
        "or choose another --state-dir, and the tables are re-snapshotted",
    )


def check_one_sink(spec: PipelineSpec, root: Path) -> None:
    """Raise StateError where the pipeline has run into the sinks of a list, and has one sink now: nobody would go on
    from there, and all tables would be re-snapshotted."""
    if spec.sink_name or StateDir(root).pipeline(source=spec.source.type) is not None:
        return
    found = sorted(each.name for each in (root / SINKS).glob("*") if StateDir(each).initial_offset() is not None)
    if found:
        raise StateError(
            f"the progress here is of runs into several sinks: {', '.join(found)}",
            where=str(root),
            hint=f"to go on from one of them, move all that is in its folder, such as {root / SINKS / found[0]}, into "
            "the one above; or choose another --state-dir, and the tables are re-snapshotted",
        )


OF_THE_ROOT = frozenset({"lock", "savepoints", "serve.json"})
"""What a state root has beside the folders of pipelines."""


def folder_name(name: str) -> str:
    """The folder of a pipeline of this name: its letters that every file system takes.

    Raises StateError for a name that has none, or whose folder would be one of the state root's own files.
    """
    found = _file_name(name)
    if not found or found.lower() in OF_THE_ROOT:
        why = "has no letter" if not found else "is a name that the folder of all state directories uses itself"
        raise StateError(f"the pipeline's name {why}", where=name, hint="give it another pipeline.name")
    return found


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).strip(".")

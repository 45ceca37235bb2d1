"""The state directory: everything a restart needs, and nothing else.

    <state>/pipeline.json         id and source of the pipeline, and the format of the directory
    <state>/fingerprint.json      where rows go: sink, place, routes of the runs before
    <state>/lock                  who is running it (flock, and the pid of the Java process)
    <state>/initial_offset.json   where the pipeline started; written once
    <state>/commits/<batch>.json  the decision on a batch, between prepare and commit
    <state>/commits/payloads/     commit messages and the like of decided handles (`cdc.state.decisions`)
    <state>/notes/                names that tasks have noted and no decision covers (`cdc.state.notes`)
    <state>/notes/reports/        what the source told of rows that a sink commits in its tasks (`cdc.state.reports`)
    <state>/commits/committed     the last batch that is known to be committed
    <state>/commits/resync/       copies of tables that were asked for, and after which batch they come
    <state>/tables.jsonl          schemas and states of the tables, batch by batch (`cdc.tables.log`)
    <state>/splits/<batch>.json   how a batch that is not committed yet is cut into tasks
    <state>/answers/              what AI models have answered in batches that are not committed yet
    <state>/checkpoint/           Spark's offset and commit logs
    <state>/source/, sink/        the connectors' own documents, logs and bulk data (schema history, staged rows)
    <state>/control/              requests to the run (drain, stop)
    <state>/notices.jsonl         what the source has met, and in notices_shown.json how much of it was shown
    <state>/status.json           what the last run did and how it is, for people and other tools (`cdc.status`)
    <state>/history.jsonl         lag and rates by the minute, for a week, for the web page
    <state>/snapshot.json         how far the copying of tables is, for other tools to read

Only the user who runs the pipeline can read it: rows wait in it.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any

from cdc.errors import NotNow, StateError
from cdc.state.durable import create_folder, remove, state_error, sweep
from cdc.state.notes import Notes
from cdc.state.remote.store import store_at
from cdc.state.store import RESTORE, Store

FORMAT = 4
"""Of the directory. Whoever changes what is written so that another version would go wrong with it raises it."""
FOLDERS = ("commits", "splits", "source", "sink", "control")
_PIPELINE = "pipeline.json"
_INITIAL_OFFSET = "initial_offset.json"
_PLANS = 32
"""So many batches' offsets are in an object store; a restart needs those of two or three."""


class StateDir:
    """The state directory of one pipeline. Picklable; used by the driver and by the stream reader process."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.store: Store = store_at(self.root)
        self._control = self.root / "control"

    def open(self, *, name: str, source: str) -> str:
        """Create or check the directory; the pipeline's id. Driver, once per run, while it holds the lock.

        Raises StateError when it cannot be written, belongs to a pipeline with another source, is damaged, or has
        another format.
        """
        self._create_folders()
        fields = self.store.read_json(_PIPELINE)
        if fields is None:
            slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "pipeline"
            fields = {"format": FORMAT, "pipeline": f"{slug}-{secrets.token_hex(4)}", "source": source}
            self.store.write_json(_PIPELINE, fields, indent=1)
        return self._checked(fields, source)

    def _create_folders(self) -> None:
        try:
            for folder in FOLDERS:
                create_folder(self.root / folder)
        except OSError as error:
            raise state_error(self.root, error) from error
        for folder in ("", *FOLDERS):
            sweep(self.root / folder)

    def pipeline(self, *, source: str) -> str | None:
        """The id of the pipeline that runs here, None when none ever has. Any process, also while it runs.

        Raises StateError as `open` does.
        """
        fields = self.store.read_json(_PIPELINE)
        return None if fields is None or self.initial_offset() is None else self._checked(fields, source)

    def ran_pipeline(self, *, source: str) -> str:
        """The id of the pipeline that runs here. Raises NotNow when none ever has, and as `pipeline` does."""
        pipeline = self.pipeline(source=source)
        if pipeline is None:
            hint = "give the --state-dir that the pipeline runs with"
            raise NotNow("no pipeline has run here yet", where=self.store.where(), hint=hint)
        return pipeline

    def _checked(self, fields: dict[str, Any], source: str) -> str:
        where = self.store.where(_PIPELINE)
        if not fields.keys() >= {"format", "pipeline", "source"} or not isinstance(fields["format"], int):
            raise StateError("cannot be read: a key is missing", where=where, hint=RESTORE)
        if fields["format"] != FORMAT:
            raise self._other_format(fields["format"])
        if fields["source"] != source:
            raise StateError(
                f"belongs to a pipeline that reads {fields['source']}, this one reads {source}",
                where=str(self.root),
                hint="choose another --state-dir, or remove this one to start over",
            )
        return str(fields["pipeline"])

    def _other_format(self, number: int) -> StateError:
        at = self._position()
        reached = f"; the pipeline has come to {at}" if at else ""
        begin = ", or begin there at that position (cdc import FILE POSITION)" if at else ""
        return StateError(
            f"has format {number}, this version of cdc reads format {FORMAT}{reached}",
            where=str(self.root),
            hint="use the version of cdc that wrote it; or give another --state-dir: empty the sink's tables, they are "
            f"re-snapshotted then{begin}",
        )

    def _position(self) -> str:
        """The source's offset after the last decided batch, as JSON; empty when none is."""
        batches = [int(name.removesuffix(".json")) for name in self.commits.names() if name[:-5].isdigit()]
        decision = self.commits.read_json(f"{max(batches)}.json") if batches else None
        end = (decision or {}).get("end") or {}
        return json.dumps({name: value for name, value in end.items() if name != "batch"}) if end else ""

    @property
    def commits(self) -> Store:
        """Where the decisions are."""
        return self.store.within("commits")

    @property
    def splits(self) -> Store:
        """How the batches under way are cut into tasks."""
        return self.store.within("splits")

    @property
    def answers(self) -> Store:
        """The answers of AI models in the batches under way."""
        return self.store.within("answers")

    @property
    def notes(self) -> Notes:
        """Names that tasks have noted."""
        return Notes(self.store.within("notes"))

    @property
    def source(self) -> Store:
        """The store of the source connector."""
        return self.store.within("source")

    @property
    def sink(self) -> Store:
        """The store of the sink connector."""
        return self.store.within("sink")

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint folder."""
        return self.root / "checkpoint"

    def adopt_plan(self, batch: int) -> None:
        """Spark has logged where a batch ends: with the next write that is in the store. Repeatable."""
        for name in (f"offsets/{batch}", "metadata"):
            self.store.adopt(f"checkpoint/{name}")
        self.store.forget(f"checkpoint/offsets/{batch - _PLANS}")

    def initial_offset(self) -> dict[str, Any] | None:
        """Where the pipeline started, None before its first start."""
        return self.store.read_json(_INITIAL_OFFSET)

    def store_initial_offset(self, offset: dict[str, Any]) -> None:
        """Keep the first offset for good: Spark asks for it again when the first batch has to be replayed."""
        self.store.write_json(_INITIAL_OFFSET, offset)

    @property
    def stop_file(self) -> Path:
        """There once a stop was asked for."""
        return self._control / "stop"

    def request_stop(self) -> None:
        """Ask the stream reader to plan no more batches. Driver."""
        self._touch(self.stop_file)

    def stop_requested(self) -> bool:
        """Whether a stop was asked for. Stream reader process, before each batch."""
        return self.stop_file.exists()

    def request_drain(self) -> None:
        """Ask the run to commit what the log holds now, and to end. Any process."""
        self._touch(self._control / "drain")

    def drain_requested(self) -> bool:
        """Whether that was asked for. Driver."""
        return (self._control / "drain").exists()

    def confirm_stop(self) -> None:
        """Tell the driver that no batch is running and none will be planned. Stream reader process."""
        self._touch(self._control / "stopped")

    def stop_confirmed(self) -> bool:
        """Whether the stream reader has seen the request. Driver."""
        return (self._control / "stopped").exists()

    def _touch(self, path: Path) -> None:
        try:
            path.touch(0o600)
        except OSError as error:
            raise state_error(path, error) from error

    def clear_control(self) -> None:
        """Forget requests of an earlier run. Driver, before the start."""
        for name in ("stop", "stopped", "drain"):
            remove(self._control / name)

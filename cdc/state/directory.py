"""The state directory: everything a restart needs, and nothing else.

    <state>/pipeline.json         id and source of the pipeline, and the format of the directory
    <state>/fingerprint.json      sink and settings of earlier runs that edits are checked against
    <state>/lock                  the running process (flock), and the pid of its Java process
    <state>/initial_offset.json   the offset at which the pipeline started; written once
    <state>/commits/<batch>.json  the decision on a batch, between prepare and commit
    <state>/commits/payloads/     commit messages and other payloads of decided handles (`cdc.state.decisions`)
    <state>/commits/committed     the last batch that is known to be committed
    <state>/notes/                names that tasks have noted and no decision covers (`cdc.state.notes`)
    <state>/notes/reports/        the source's reports about rows that a sink commits in its tasks (`cdc.state.reports`)
    <state>/requests/             pending user requests: resync, pause, resume (`cdc.tables.requests`)
    <state>/tables.jsonl          schemas and states of the tables, by batch (`cdc.tables.log`)
    <state>/splits/<batch>.json   the splits of a batch that is not committed yet
    <state>/answers/              answers of AI models in batches that are not committed yet
    <state>/checkpoint/           Spark's offset and commit logs
    <state>/source/, sink/        the connectors' own documents, logs and bulk data (schema history, staged rows)
    <state>/control/              requests to the run (drain, stop)
    <state>/notices.jsonl         notices of the source; notices_shown.json has how many of them were shown
    <state>/status.json           status of the last run, for people and other tools (`cdc.status`)
    <state>/history.jsonl         lag and rates by the minute, for a week, for the web page
    <state>/snapshot.json         progress of snapshots, for other tools

Only the user who runs the pipeline can read it, as it contains rows.
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
"""The format of the directory, increased by every change that older or newer versions could misread."""
FOLDERS = ("commits", "splits", "source", "sink", "control")
_PIPELINE = "pipeline.json"
_INITIAL_OFFSET = "initial_offset.json"
_PLANS = 32
"""Batches whose offsets are kept in an object store; a restart needs those of two or three."""


class StateDir:
    """The state directory of one pipeline. Picklable; used by the driver and by the stream reader process."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.store: Store = store_at(self.root)
        self._control = self.root / "control"

    def open(self, *, name: str, source: str) -> str:
        """Create or check the directory; return the pipeline's id. Driver, once per run, while it holds the lock.

        Raises StateError if it cannot be written, belongs to a pipeline with another source, is damaged or incomplete,
        or has another format.
        """
        self._create_folders()
        fields = self.store.read_json(_PIPELINE)
        if fields is None and (self.initial_offset() is not None or self.commits.names()):
            raise StateError("is missing, while the pipeline has run", where=self.store.where(_PIPELINE), hint=RESTORE)
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
        """The id of the pipeline in this directory, None if it never ran. Any process, also during a run.

        Raises StateError as `open` does.
        """
        fields = self.store.read_json(_PIPELINE)
        return None if fields is None or self.initial_offset() is None else self._checked(fields, source)

    def ran_pipeline(self, *, source: str) -> str:
        """The id of the pipeline in this directory. Raises NotNow if it never ran, and as `pipeline`."""
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
        reached = f"; the pipeline has reached {at}" if at else ""
        begin = ", or begin there at that position (cdc import FILE POSITION)" if at else ""
        return StateError(
            f"has format {number}, this version of cdc reads format {FORMAT}{reached}",
            where=str(self.root),
            hint="use the version of cdc that wrote it; or give another --state-dir: empty the sink's tables, they are "
            f"re-snapshotted then{begin}",
        )

    def _position(self) -> str:
        """The source's offset after the last decided batch, as JSON; empty without one."""
        batches = [int(name.removesuffix(".json")) for name in self.commits.names() if name[:-5].isdigit()]
        decision = self.commits.read_json(f"{max(batches)}.json") if batches else None
        end = (decision or {}).get("end") or {}
        return json.dumps({name: value for name, value in end.items() if name != "batch"}) if end else ""

    @property
    def commits(self) -> Store:
        """The store of the decisions."""
        return self.store.within("commits")

    @property
    def splits(self) -> Store:
        """The store of the splits of batches in progress."""
        return self.store.within("splits")

    @property
    def answers(self) -> Store:
        """The store of the answers of AI models in batches in progress."""
        return self.store.within("answers")

    @property
    def notes(self) -> Notes:
        """The notes of tasks."""
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
        """Take in the offsets that Spark has logged for a batch; durable after the next write. Repeatable."""
        for name in (f"offsets/{batch}", "metadata"):
            self.store.adopt(f"checkpoint/{name}")
        self.store.forget(f"checkpoint/offsets/{batch - _PLANS}")

    def initial_offset(self) -> dict[str, Any] | None:
        """The offset at which the pipeline started, None before its first start."""
        return self.store.read_json(_INITIAL_OFFSET)

    def store_initial_offset(self, offset: dict[str, Any]) -> None:
        """Store the first offset for good: Spark requests it again when it replays the first batch."""
        self.store.write_json(_INITIAL_OFFSET, offset)

    @property
    def stop_file(self) -> Path:
        """The file that exists once a stop is requested."""
        return self._control / "stop"

    def request_stop(self) -> None:
        """Request that the stream reader plans no more batches. Driver."""
        self._touch(self.stop_file)

    def stop_requested(self) -> bool:
        """Whether a stop is requested. Stream reader process, before each batch."""
        return self.stop_file.exists()

    def request_drain(self) -> None:
        """Request that the run ends after everything that the log holds now is committed. Any process."""
        self._touch(self._control / "drain")

    def drain_requested(self) -> bool:
        """Whether a drain is requested. Driver."""
        return (self._control / "drain").exists()

    def confirm_stop(self) -> None:
        """Confirm to the driver that no batch is running and none will be planned. Stream reader process."""
        self._touch(self._control / "stopped")

    def stop_confirmed(self) -> bool:
        """Whether the stream reader has confirmed the stop. Driver."""
        return (self._control / "stopped").exists()

    def _touch(self, path: Path) -> None:
        try:
            path.touch(0o600)
        except OSError as error:
            raise state_error(path, error) from error

    def clear_control(self) -> None:
        """Remove requests to an earlier run. Driver, before the start."""
        for name in ("stop", "stopped", "drain"):
            remove(self._control / name)

"""Folders of a server's pipelines below its state root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdc.serve.folder import folder_of
from cdc.spec.model import PipelineSpec
from cdc.status.file import last_status


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

"""The folders of a server's pipelines, below its state root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdc.serve.folder import folder_of
from cdc.spec.model import PipelineSpec
from cdc.status.file import last_status


@dataclass(frozen=True, slots=True)
class StateRoot:
    """A folder for each pipeline, of its name; with a `store`, a URL, the state is below that."""

    root: Path
    store: str = ""

    def folder(self, spec: PipelineSpec) -> Path:
        """The folder of a pipeline; with a store, that of this machine. Raises StateError."""
        from cdc.job.state_location import working_copy

        name = folder_of(spec)
        return working_copy(self.root / name, f"{self.store}/{name}") if self.store else self.root / name

    def ran_last(self, folder: str) -> str:
        """The file of the last run of the pipeline with this folder; empty when that is not known."""
        seen = last_status(self.root / folder)
        return "" if seen is None else seen.file

    def check(self, spec: PipelineSpec) -> None:
        """Raise StateError for a list whose pipeline has run with one sink here, and for one sink after a list."""
        from cdc.job.state_location import check_one_sink, check_progress, folder_name

        (check_progress if spec.sink_name else check_one_sink)(spec, self.root / folder_name(spec.name))

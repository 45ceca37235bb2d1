"""Labels: the names of loads in the server, a pure function of pipeline, batch, table, partition and part.

    <prefix>_<pipeline>_<batch>_<table hash>_<partition>_<part>[_g<generation>][_r<again>]

Both servers refuse a label that is in use, so a label makes a load happen exactly once. All labels of a pipeline start
with `LabelSpace.start`, and `read` extracts the batch from a label found in the server: leftovers are recognized
without stored state. Pure; driver and executors.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from cdc.schema import TableId
from cdc.sink import TaskAttempt

LONGEST = 128
"""Maximum length: Doris `^[-_A-Za-z0-9:]{1,128}$` (label_regex_length), StarRocks `^[-\\w]{1,128}$` (FeNameFormat)."""
LONGEST_PREFIX = 32
MOST_LABELS = 20
"""Number of labels per load: one whose label is already committed takes the next."""
_LONGEST_PIPELINE = 49
_PREFIX = re.compile(r"[-_A-Za-z0-9]*")
_FOREIGN = re.compile(r"[^-_A-Za-z0-9]")


def check_prefix(prefix: str) -> str:
    """Return the prefix of the options. Raises ValueError when it does not fit into a label."""
    if not _PREFIX.fullmatch(prefix) or len(prefix) > LONGEST_PREFIX:
        raise ValueError(f"must be up to {LONGEST_PREFIX} letters, digits, - and _")
    return prefix


@dataclass(frozen=True, slots=True)
class Label:
    """A parsed label; `table` is the hash of the table id."""

    text: str
    batch: int
    table: str
    partition: int
    part: int


@dataclass(frozen=True, slots=True)
class LabelSpace:
    """All labels of one pipeline.

    Attributes:
        pipeline: the pipeline's id: unique, stable over restarts.
        prefix: from the options, may be empty.
    """

    pipeline: str
    prefix: str = ""

    @property
    def start(self) -> str:
        """Prefix of every label of this pipeline, and of no other's."""
        name = _FOREIGN.sub("-", self.pipeline)
        if name != self.pipeline or len(name) > _LONGEST_PIPELINE:
            name = f"{name[: _LONGEST_PIPELINE - 9]}-{_hash(self.pipeline)}"
        return f"{self.prefix}_{name}_" if self.prefix else f"{name}_"

    def label(
        self, batch: int, table: TableId, partition: int, part: int = 0, again: int = 0, generation: int = 0
    ) -> str:
        """Return the label of one load, at most `LONGEST` characters. `again`: number of used-up labels of this load.

        `generation`: how often decided loads of the batch were lost (`TaskAttempt.generation`).
        """
        text = f"{self.start}{batch}_{table_hash(table)}_{partition}_{part}"
        text += f"_g{generation}" if generation else ""
        return f"{text}_r{again}" if again else text

    def choices(self, task: TaskAttempt, table: TableId, part: int) -> tuple[str, ...]:
        """Return the labels of one load in the order in which they are tried."""
        return tuple(
            self.label(task.batch, table, task.partition, part, again, task.generation) for again in range(MOST_LABELS)
        )

    def read(self, label: str) -> Label | None:
        """Parse a label; None when it is not one of this pipeline."""
        if not label.startswith(self.start):
            return None
        match = re.fullmatch(r"(\d+)_([0-9a-f]{8})_(\d+)_(\d+)(?:_g\d+)?(?:_r\d+)?", label[len(self.start) :])
        return Label(label, int(match[1]), match[2], int(match[3]), int(match[4])) if match else None


def table_hash(table: TableId) -> str:
    """Return 8 hex digits that stand for a table id in labels."""
    return _hash(f"{len(table.database)}:{table.database}.{table.table}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

"""The handle of a task for one table: `{"id": identity of the table, "version": 14}`, and its files as the payload."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc.sink import Prepared

MESSAGE_VERSION = 14
"""Of the serialization that Paimon calls `CommitMessageSerializer`."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one table of one task: Paimon's commit messages about them, and their paths."""

    messages: Sequence[bytes]
    paths: Sequence[str]

    @classmethod
    def of(cls, prepared: Prepared) -> Files:
        """The files of a handle."""
        fields = json.loads(prepared.payload)
        return cls([base64.b64decode(text) for text in fields["messages"]], fields["paths"])

    @property
    def names(self) -> set[str]:
        """The paths without their folders."""
        return {path.rsplit("/", 1)[1] for path in self.paths}

    def handle(self, identity: str) -> tuple[dict[str, Any], bytes]:
        """The handle and its payload."""
        messages = [base64.b64encode(message).decode() for message in self.messages]
        payload = json.dumps({"messages": messages, "paths": list(self.paths)})
        return {"id": identity, "version": MESSAGE_VERSION}, payload.encode()

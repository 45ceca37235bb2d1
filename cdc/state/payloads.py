"""Payloads of decided handles (`Prepared.payload`): bytes in files beside the decisions, named by their content.

    <state>/commits/payloads/<batch>/<first 32 hex digits of the SHA-256>

The decision has size and SHA-256 of each. A file is on disk before the decision that names it, in the object store too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.state.durable import new_file, state_error
from cdc.state.store import RESTORE, Store

_FOLDER = "payloads"


@dataclass(frozen=True, slots=True)
class Payloads:
    """The payloads of all batches; `store` is that of the decisions. Driver."""

    store: Store

    def write(self, batch: int, payload: bytes) -> dict[str, Any]:
        """Put a payload; its size and SHA-256, for `read`. Raises StateError."""
        digest = hashlib.sha256(payload).hexdigest()
        path = self._path(batch, digest)
        try:
            if not (path.is_file() and path.read_bytes() == payload):
                with new_file(path) as file:
                    file.write(payload)
                self.store.keep(path)
        except OSError as error:
            raise state_error(path, error) from error
        return {"bytes": len(payload), "sha256": digest}

    def read(self, batch: int, described: Mapping[str, Any], table: str) -> bytes:
        """A payload as it was written. Raises StateError when it is not there, or other bytes are."""
        path = self._path(batch, described["sha256"])
        try:
            payload = path.read_bytes()
        except OSError as error:
            reason = f"the commit payload of {table} in batch {batch} cannot be read: {error.strerror}"
            raise StateError(reason, where=str(path), hint=RESTORE) from error
        if len(payload) != described["bytes"] or hashlib.sha256(payload).hexdigest() != described["sha256"]:
            reason = (
                f"the commit payload of {table} in batch {batch} is damaged: {len(payload)} bytes, the decision has "
                f"{described['bytes']} with SHA-256 {described['sha256'][:16]}"
            )
            raise StateError(reason, where=str(path), hint=RESTORE)
        return payload

    def remove(self, batch: int) -> None:
        """Remove the payloads of a batch."""
        self.store.drop(self.store.bulk(_FOLDER) / str(batch))

    def _path(self, batch: int, digest: str) -> Path:
        return self.store.bulk(_FOLDER) / str(batch) / digest[:32]

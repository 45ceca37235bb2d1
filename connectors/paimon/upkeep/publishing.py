"""Publish a snapshot of merged files or manifests, unless another commit came first. Runs in the driver.

The Rust package cannot commit a compaction, and the Python one publishes by a rename that is not conditional on every
file system. So the snapshot's file is created here: by a link on a local disk, by a conditional put on S3, or by the
catalog itself if it has versions (REST).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from connectors.paimon.library import Catalog
from connectors.paimon.object_store import path_style
from connectors.paimon.tables import LakeTable

COMPACT = "COMPACT"
NO_IDENTIFIER = 2**63 - 1
_LONGEST = timedelta(seconds=30)
"""For how long putting one file is retried; upkeep gets another chance later."""
_TRIES = {"commit.max-retries": "2"}
"""The retries of a commit whose outcome is uncertain."""


def committer(catalog: Catalog, table: LakeTable, user: str) -> Any:
    """The library's committer, with `publish` as its way of publishing."""
    from pypaimon.write.file_store_commit import FileStoreCommit

    return FileStoreCommit(_publisher(catalog, table), table.library.copy(_TRIES), user)


def publish(catalog: Catalog, table: LakeTable, base: Any, snapshot: Any) -> bool:
    """Publish a snapshot after `base`; False when another one exists already."""
    with _publisher(catalog, table) as publisher:
        return bool(publisher.commit(base.uuid, snapshot, []))


def _publisher(catalog: Catalog, table: LakeTable) -> Any:
    scheme = urlsplit(table.library.table_path).scheme
    if table.library.catalog_environment.supports_version_management or scheme not in ("", "file", "s3", "s3a"):
        return table.library.new_snapshot_commit()
    from pypaimon.snapshot.renaming_snapshot_commit import RenamingSnapshotCommit

    class Conditional(RenamingSnapshotCommit):  # type: ignore[misc]
        """The library's commit, except that the snapshot's file is only created if it does not exist."""

        def commit(self, base_snapshot_uuid: str | None, snapshot: Any, statistics: Sequence[Any]) -> bool:
            from pypaimon.common.json_util import JSON

            path = self.snapshot_manager.get_snapshot_path(snapshot.id)
            if not create(catalog, path, JSON.to_json(snapshot, indent=2).encode()):
                return False
            self._commit_latest_hint(snapshot.id)
            return True

    return Conditional(table.library.snapshot_manager())


def create(catalog: Catalog, path: str, content: bytes) -> bool:
    """Create a file with this content atomically; False when a file of that name exists."""
    parts = urlsplit(path)
    if parts.scheme in ("s3", "s3a"):
        return _put_if_absent(catalog, parts.netloc, parts.path.lstrip("/"), content)
    local_path = path.removeprefix("file://")
    part = f"{local_path}.{uuid4().hex}.tmp"
    try:
        with open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, local_path)
    except FileExistsError:
        return False
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return True


def _put_if_absent(catalog: Catalog, bucket: str, key: str, content: bytes) -> bool:
    from obstore import put
    from obstore.exceptions import AlreadyExistsError, PreconditionError
    from obstore.store import S3Store

    options = catalog.options
    names = {"s3.endpoint": "endpoint", "s3.access-key": "access_key_id", "s3.secret-key": "secret_access_key",
             "s3.region": "region", "s3.session.token": "session_token"}  # fmt: skip
    config: Any = {option: options[name] for name, option in names.items() if name in options}
    config["virtual_hosted_style_request"] = not path_style(options)
    plain = config.get("endpoint", "").startswith("http://")
    limits: Any = {"max_retries": 3, "retry_timeout": _LONGEST}
    store = S3Store(bucket, config=config, client_options={"allow_http": plain}, retry_config=limits)
    try:
        put(store, key, content, mode="create")
    except (AlreadyExistsError, PreconditionError):
        return False
    return True

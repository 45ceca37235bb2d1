"""Commit decided batches: one snapshot per table, with the pipeline as commit user and the batch as identifier.

The user's newest snapshot tells whether a batch is committed. When all snapshots of the user have expired, the files
themselves are looked up instead, in the oldest remaining snapshot and in the newest. A batch that is not committed is
committed by the Rust package if all of its files exist. (That package's `filter_and_commit` would repeat these checks,
and takes twice as long as the commit itself.) Runs in the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc.errors import CommitFailed, LoadsLost, SinkError, SinkUnavailable
from cdc.process.faults import crash_point
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.sink import Prepared
from connectors.paimon.handles import Files
from connectors.paimon.library import Catalog, native
from connectors.paimon.tables import LakeTable, find_table, live_files
from connectors.shared.lake.two_phase import another_past, by_table, check_identity, check_newest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LakeCommits:
    """Commits batches. Picklable.

    Args:
        user: the commit user of the pipeline.
        threads: how many tables are committed at the same time.
        newest: the last batch that this process has committed to each table since the last schema change.
    """

    catalog: Catalog
    user: str
    threads: int
    retry: RetryPolicy
    newest: dict[TableId, int] = field(default_factory=dict)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit the handles of every table; may be repeated. Raises LoadsLost, CommitFailed, SinkUnavailable."""
        by_table(prepared, self.threads, lambda *work: self._table(batch, *work))

    def _table(self, batch: int, table: TableId, handles: Sequence[Prepared]) -> None:
        self.retry.call(lambda: self._commit_once(batch, table, handles), f"the commit of batch {batch} to {table}")
        crash_point("mid-commit", batch)

    def _commit_once(self, batch: int, table: TableId, handles: Sequence[Prepared]) -> None:
        found = find_table(self.catalog, table)
        first = min(handle.partition for handle in handles)
        check_identity(table, None if found is None else found.identity, handles)
        assert found is not None
        if is_in(self.catalog, found, self.user, batch, handles, self.newest.get(table, -1)):
            log.info("%s: batch %d is in already", table, batch)
            self.newest[table] = batch
            return
        try:
            with self.catalog.guard(str(table)):
                if missing := lost_file(found, handles):
                    lost = {str(table): first} if found.key else {}
                    uncertain = () if found.key else (str(table),)
                    raise LoadsLost(
                        f"the prepared file {missing} is gone", where=str(table), tables=lost, uncertain=uncertain
                    )
                commit_files(found, self.user, batch, handles)
                self.newest[table] = batch
        except (SinkUnavailable, LoadsLost):
            raise
        except SinkError as error:
            raise CommitFailed(error.message, where=str(table), hint=error.hint) from error


def lost_file(table: LakeTable, handles: Sequence[Prepared]) -> str:
    """The first file of the handles that does not exist; empty when all do."""
    files = table.library.file_io
    paths = (path for handle in handles for path in Files.of(handle).paths)
    return next((path for path in paths if not files.exists(path)), "")


def commit_files(table: LakeTable, user: str, batch: int, handles: Sequence[Prepared]) -> None:
    """Commit a snapshot with the handles' files. Raises the library's errors."""
    from pypaimon_rust.datafusion import CommitMessage

    messages = [
        CommitMessage.deserialize(message, version=handle.handle["version"])
        for handle in handles
        for message in Files.of(handle).messages
    ]
    builder = native(table.library).new_stream_write_builder().with_commit_user(user)
    builder.new_commit().commit(batch, messages)


def is_in(
    catalog: Catalog, table: LakeTable, user: str, batch: int, handles: Sequence[Prepared], committed: int = -1
) -> bool:
    """Whether the batch is committed: the user's newest snapshot, or an expired one, has added these files.

    Raises SinkError when the user's newest snapshot is of a later batch, or of this batch with other files, and
    LoadsLost when the table no longer has the `committed` batch.
    """
    names = set[str]().union(*(Files.of(handle).names for handle in handles))
    with catalog.guard(str(table.id)):
        manager = table.library.snapshot_manager()
        newest = manager.get_latest_snapshot()
        if newest is None:
            check_newest(table.id, -1, committed)
            return False
        retained = range(newest.id, max(0, newest.id - _LOOKED_AT), -1)
        snapshots = (newest if number == newest.id else manager.get_snapshot_by_id(number) for number in retained)
        oldest = newest
        for snapshot in snapshots:
            if snapshot is None:
                break
            if snapshot.commit_user == user:
                found = int(snapshot.commit_identifier)
                if found > batch or (found == batch and names - _added_files(table, snapshot)):
                    raise another_past(table.id, found, batch)
                check_newest(table.id, found, committed)
                return found == batch
            oldest = snapshot
    if oldest.id == 1:
        check_newest(table.id, -1, committed)
        return False
    file_names = {entry.file.file_name for one in (newest, oldest) for entry in live_files(catalog, table, one)}
    return bool(names & file_names)


def _added_files(table: LakeTable, snapshot: Any) -> set[str]:
    """The names of the files that a snapshot added."""
    from pypaimon.manifest.manifest_file_manager import ManifestFileManager
    from pypaimon.manifest.manifest_list_manager import ManifestListManager

    delta = ManifestListManager(table.library).read_delta(snapshot)
    return {entry.file.file_name for entry in ManifestFileManager(table.library).read_entries_parallel(delta)}


_LOOKED_AT = 10_000

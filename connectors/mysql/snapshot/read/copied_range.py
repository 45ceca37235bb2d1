"""The log of tables being snapshotted: skips rows that a chunk already has. Executor."""

from __future__ import annotations

from hashlib import md5

from cdc.source import Report
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.schema.schemas import Schemas
from connectors.mysql.snapshot.filter.server_query import ServerQuery
from connectors.mysql.snapshot.filter.tail_filter import TailFilter
from connectors.mysql.snapshot.plan.chunk_plan import shared_plan, shared_watermarks
from connectors.mysql.snapshot.plan.requests import MOVED
from connectors.mysql.snapshot.plan.splits import CopiedRange


def tail_filter(wanted: CopiedRange, store: Store, streams: Streams, schemas: Schemas) -> TailFilter:
    """Create the filter for a range of the log."""
    start = wanted.part.start
    return TailFilter(
        shared_plan(store).copies(wanted.upto),
        wanted.before,
        shared_watermarks(store).refresh(),
        sequence_of(start.file, start.position, wanted.part.files_ahead),
        schemas.history.tables(wanted.part.schemas),
        ServerQuery(streams.session),
    )


def report_uncertain(wanted: CopiedRange, kept: TailFilter, report: Report) -> None:
    """Report tables for re-snapshot whose rows are ambiguous because the range was read on another server.

    Positions of one server mean nothing on the other, so changes around the position of a chunk read inside the range
    would be lost or duplicated.
    """
    part = wanted.part
    for table in kept.uncertain(sequence_of(part.end.file, part.end.position, part.files_ahead)):
        name = f"{MOVED}{wanted.upto}-{md5(str(table).encode(), usedforsecurity=False).hexdigest()[:16]}"
        report({"uncertain": [[table.database, table.table], name]})

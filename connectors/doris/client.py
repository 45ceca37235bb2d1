"""Doris's HTTP interface: loads, commits, and the state of labels. Used in driver and executors; picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from cdc.schema import TableId
from connectors.doris.replies import (
    TransactionState,
    TxnReply,
    backends_reply,
    load_reply,
    refusal,
    state_reply,
    txn_reply,
)
from connectors.shared.servers.address import Address
from connectors.shared.streamload.http import HttpClient, Upload
from connectors.shared.streamload.pack import Packing


@dataclass(frozen=True, slots=True)
class DorisClient:
    """Client of one cluster; every call is tried once.

    The errors are those of `connectors.shared.streamload.http` and of `replies`.

    Attributes:
        query_backends: whether loads go straight to the back ends that a front end lists.
    """

    http: HttpClient
    query_backends: bool = False

    def load(self, table: TableId, headers: Mapping[str, str], packing: Packing = "") -> Upload:
        """Begin a stream load, and return the upload that the rows are written to."""
        path = f"/api/{quote(table.database, safe='')}/{quote(table.table, safe='')}/_stream_load"
        return self._loading().upload(path, headers, packing)

    def commit(self, database: str, txn: int) -> TxnReply:
        """Commit a precommitted transaction. Raises CommitUnknown when the answer is lost."""
        return self._finish(database, {"txn_id": str(txn), "txn_operation": "commit"})

    def abort(self, database: str, txn: int) -> TxnReply:
        """Abort a transaction that is prepared or being prepared. Raises CommitUnknown when the answer is lost."""
        return self._finish(database, {"txn_id": str(txn), "txn_operation": "abort"})

    def state(self, database: str, label: str) -> TransactionState:
        """The state of the newest transaction that has the label."""
        path = f"/api/{quote(database, safe='')}/get_load_state?{urlencode({'label': label})}"
        return state_reply(self.http.request("GET", path, repeatable=True))

    def transaction_of(self, table: TableId, label: str) -> int | None:
        """The id of the transaction that has the label; None when the label is free.

        It begins a load under the label: Doris refuses that before reading a row, and the refusal has the id. This
        works in every version and for every account that may load, whereas the syntax and the privileges of SHOW
        TRANSACTION differ between versions.
        """
        upload = self.load(table, {"label": label, "two_phase_commit": "true", "format": "csv"})
        if upload.early is None:
            upload.cancel()
            return None
        reply = load_reply(upload.early)
        if not reply.label_exists:
            raise refusal(reply.message, f"{table}, label {label}")
        return reply.txn if reply.txn > 0 else None

    def error_lines(self, url: str) -> str:
        """The first lines of a load's ErrorURL, which needs no login; empty when it cannot be read."""
        return self.http.fetch(url)

    def _finish(self, database: str, headers: Mapping[str, str]) -> TxnReply:
        path = f"/api/{quote(database, safe='')}/_stream_load_2pc"
        return txn_reply(self.http.request("PUT", path, headers))

    def _loading(self) -> HttpClient:
        """The client of the server that takes the next load."""
        if not self.query_backends:
            return self.http
        servers = self.http.servers
        found = backends_reply(self.http.request("GET", "/api/backends?is_alive=true", repeatable=True))
        secure = servers.frontends[0].secure
        return HttpClient(replace(servers, backends=tuple(Address(host, port, secure) for host, port in found)))

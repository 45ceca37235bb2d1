"""Doris' HTTP interface: loads, commits, states of labels. Driver and executors; picklable."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from cdc.schema import TableId
from connectors.doris.replies import State, TxnReply, backends_reply, state_reply, txn_reply
from connectors.shared.servers.address import Address
from connectors.streamload.http import HttpClient, Servers, Upload
from connectors.streamload.pack import Packing


class DorisClient:
    """One cluster. Errors as in `connectors.streamload.http` and `connectors.doris.replies`."""

    def __init__(self, servers: Servers, *, ask_backends: bool = False) -> None:
        """With `ask_backends`, loads go straight to the back ends that a front end lists."""
        self._http, self._ask_backends = HttpClient(servers), ask_backends

    def __reduce__(self) -> tuple[object, ...]:
        return _client, (self._http.servers, self._ask_backends)

    def load(self, table: TableId, headers: Mapping[str, str], packing: Packing = "") -> Upload:
        """Begin a stream load; the rows are written to what is returned."""
        path = f"/api/{quote(table.database, safe='')}/{quote(table.table, safe='')}/_stream_load"
        return self._loading().upload(path, headers, packing)

    def commit(self, database: str, txn: int) -> TxnReply:
        """Commit a precommitted transaction. Raises CommitUnknown when the answer is lost."""
        return self._finish(database, {"txn_id": str(txn), "txn_operation": "commit"})

    def abort(self, database: str, txn: int) -> TxnReply:
        """Abort a transaction that is prepared or being prepared. Raises CommitUnknown when the answer is lost."""
        return self._finish(database, {"txn_id": str(txn), "txn_operation": "abort"})

    def state(self, database: str, label: str) -> State:
        """The state of a label's newest transaction."""
        path = f"/api/{quote(database, safe='')}/get_load_state?{urlencode({'label': label})}"
        return state_reply(self._http.request("GET", path, repeatable=True))

    def error_lines(self, url: str) -> str:
        """The first reasons at a load's ErrorURL, which needs no login; empty when it cannot be read."""
        return self._http.fetch(url)

    def _finish(self, database: str, headers: Mapping[str, str]) -> TxnReply:
        path = f"/api/{quote(database, safe='')}/_stream_load_2pc"
        return txn_reply(self._http.request("PUT", path, headers))

    def _loading(self) -> HttpClient:
        """Who takes loads; the list of back ends is asked for once in a process."""
        if self._ask_backends:
            servers = self._http.servers
            found = backends_reply(self._http.request("GET", "/api/backends?is_alive=true", repeatable=True))
            secure = servers.frontends[0].secure
            backends = tuple(Address(host, port, secure) for host, port in found)
            return HttpClient(Servers(servers.frontends, servers.account, backends, servers.tls, servers.limits))
        return self._http


def _client(servers: Servers, ask_backends: bool) -> DorisClient:
    return DorisClient(servers, ask_backends=ask_backends)

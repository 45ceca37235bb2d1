"""The back end's HTTP: stream loads and the second phase."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

from cdc_standins.doris.engine import Engine
from cdc_standins.doris.errors import BadRows, LabelExists, LoadError, from_front_end
from cdc_standins.doris.headers import LoadHeaders, check_label, check_transport, read_headers
from cdc_standins.doris.load import Loaded, LoadPlan
from cdc_standins.doris.transactions import PRECOMMITTED, PREPARE, Transaction, number_of
from cdc_standins.faults import Answer
from cdc_standins.http_server import BLOCK_BYTES, ClientGone, Cut, Request, Response, json_response
from cdc_standins.load_text import RowCounter, unpacked

_EXISTING = {PREPARE: "RUNNING", PRECOMMITTED: "PRECOMMITTED"}
PUBLISH_TIMEOUT = "[PUBLISH_TIMEOUT]TStatus: transaction commit successfully, BUT data will be visible later"


class BackEnd:
    """Handler of the back end's port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, request: Request) -> Response:
        """Answer one request."""
        try:
            return self._route(request)
        except Answer as answer:
            return answer.response

    def _route(self, request: Request) -> Response:
        match (request.method, request.parts):
            case ("PUT", ["api", db, table, "_stream_load"]):
                return StreamLoad(self._engine, request, db, table).run()
            case ("PUT", ["api", db, "_stream_load_2pc"] | ["api", db, _, "_stream_load_2pc"]):
                return self._two_phase(request, db)
            case ("GET", ["api", "health"]):
                return json_response({"status": "OK", "msg": "To Be Added"})
            case ("GET", ["api", "_load_error_log"]):
                lines = self._engine.error_logs.get(request.query.get("file", ""))
                return Response(404, b"no such file") if lines is None else Response(200, "\n".join(lines).encode())
            case _:
                return Response(404, b"not found")

    def _two_phase(self, request: Request, db: str) -> Response:
        headers = request.headers
        label, operation = headers.get("label", ""), headers.get("txn_operation", "")
        where: dict[str, Any] = {"db": db, "label": label, "operation": operation}
        try:
            fault = self._engine.faults.meet("be.2pc", **where)
            if fault is not None:
                raise from_front_end(str(fault.args.get("message", "get tableList write lock timeout")))
            message = self._finish(request, db, operation)
            status = "Success"
        except LoadError as error:
            status, message = error.code, error.text
        if status == "Success":
            self._engine.faults.meet("be.2pc.done", **where)
        return json_response({"status": status, "msg": message}, indent=4)

    def _finish(self, request: Request, db: str, operation: str) -> str:
        """Commit or abort; the message of success. Raises LoadError."""
        number = number_of(request.headers.get("txn_id", ""))
        if operation not in ("commit", "abort"):
            raise LoadError("INTERNAL_ERROR", "transaction operation should be 'commit' or 'abort'")
        engine = self._engine
        if not engine.catalog.has_database(db):
            raise from_front_end(f"unknown database, database={db}")
        if engine.transactions.by_id(number) is None:
            raise from_front_end(f"transaction [{number}] not found")
        self._check_rights(request, db, number)
        if operation == "abort":
            engine.transactions.abort(db, number)
        else:
            with engine.catalog.lock:
                one = engine.transactions.by_id(number)
                if one is not None and one.state == PRECOMMITTED and engine.catalog.by_id(one.table_id) is None:
                    raise from_front_end(f"unknown table, tableId={one.table_id}")
                engine.transactions.commit(db, number)
            engine.publisher.poke()
        return f"transaction [{number}] {operation} successfully."

    def _check_rights(self, request: Request, db: str, number: int) -> None:
        credentials = request.basic()
        if not self._engine.accounts.checks(credentials):
            if credentials is None:
                raise LoadError("NOT_AUTHORIZED", "no valid Basic authorization")
            raise from_front_end(f"Access denied for {credentials[0]}@127.0.0.1")
        one = self._engine.transactions.by_id(number)
        user = (credentials or ("", ""))[0]
        if one is not None and not self._engine.accounts.may(user, "LOAD_PRIV", db, one.table):
            raise from_front_end("Access denied; you need (at least one of) the (LOAD) privilege(s) for this operation")


class StreamLoad:
    """One load, from the headers to the answer."""

    def __init__(self, engine: Engine, request: Request, db: str, table: str) -> None:
        self._engine, self._request, self._db, self._table = engine, request, db, table
        self._label = request.headers.get("label", "") or str(uuid.uuid4())
        self._txn: Transaction | None = None
        self._begun = time.monotonic()
        self._times: dict[str, int] = {}

    def run(self) -> Response:
        """Carry the load out; every answer is HTTP 200. Raises Cut, Answer, ClientGone."""
        try:
            self._fault("be.load")
            reply = self._run()
        except LabelExists as error:
            reply = self._reply("Label Already Exists", f"[LABEL_ALREADY_EXISTS]{error}",
                                ExistingJobStatus=_EXISTING.get(error.state, "FINISHED"))  # fmt: skip
        except BadRows as error:
            self._roll_back(str(error))
            reply = self._bad_rows(error)
        except LoadError as error:
            self._roll_back(str(error))
            reply = self._reply("Fail", str(error))
        except (ClientGone, Cut, Answer):
            self._roll_back("[INTERNAL_ERROR]cancelled: sender is gone")
            raise
        if reply["Status"] in ("Success", "Publish Timeout"):
            try:
                self._fault("be.load.done")
            except LoadError as error:  # the answer says no though the load took effect
                reply = self._reply("Fail", str(error))
        return json_response(reply, indent=4)

    def _run(self) -> dict[str, Any]:
        request, engine = self._request, self._engine
        credentials = request.basic()
        if credentials is None:
            raise LoadError("NOT_AUTHORIZED", "no valid Basic authorization")
        check_transport(request.headers, engine.options)
        headers = self._begin(credentials)
        table = engine.catalog.find(self._db, self._table)
        if table is None:
            raise from_front_end(f"Unknown table '{self._table}'")
        if engine.options["count_only"]:
            return self._count(headers)
        plan = LoadPlan(table, headers, engine.now)
        loaded = plan.read(self._watched(self._blocks(headers.codec)))
        return self._finish(headers, loaded)

    def _begin(self, credentials: tuple[str, str]) -> LoadHeaders:
        """Begin the transaction as the front end does, then check the rest of the headers."""
        engine = self._engine
        user = credentials[0].partition("@")[0]
        if not engine.accounts.checks(credentials):
            raise from_front_end(f"Access denied for {user}@127.0.0.1")
        if not engine.accounts.may(user, "LOAD_PRIV", self._db, self._table):
            raise from_front_end(
                f"Access denied; you need (at least one of) the (LOAD) privilege(s) for this operation, "
                f"user '{user}'@'127.0.0.1' for table '{self._table}'"
            )
        if not engine.catalog.has_database(self._db):
            raise from_front_end(f"unknown database, database={self._db}")
        check_label(self._label)
        timeout_s = int(self._request.headers.get("timeout", engine.options["load_timeout_s"]))
        with engine.catalog.lock:
            table = engine.catalog.find(self._db, self._table)
            if table is None:
                raise from_front_end(f"unknown table, table={self._table}")
            begun = time.monotonic()
            self._txn = engine.transactions.begin(
                Transaction(0, self._db, self._label, self._table, table.id, table.generation, timeout_s)
            )
            self._times["BeginTxnTimeMs"] = int((time.monotonic() - begun) * 1000)
        headers = read_headers(self._request.headers)
        if headers.two_phase and table.unique and engine.options["cloud"]:
            raise LoadError("INTERNAL_ERROR", "stream load 2pc is unsupported for mow table")
        self._txn.two_phase = headers.two_phase
        return headers

    def _watched(self, blocks: Iterator[memoryview]) -> Iterator[memoryview]:
        """The body's blocks, past the faults armed for the middle of it."""
        seen = 0
        for block in blocks:
            seen += len(block)
            if seen > int(self._engine.options["load_max_bytes"]):
                raise Cut  # a body in chunks says too late how long it is
            self._fault("be.load.body", bytes=seen)
            yield block

    def _finish(self, headers: LoadHeaders, loaded: Loaded) -> dict[str, Any]:
        engine, one = self._engine, self._need()
        one.rows, one.bytes = loaded.total, self._request.body.bytes_read
        if loaded.rows.num_rows:
            engine.data.stage(one.id, loaded.rows)
        return self._end(headers)

    def _count(self, headers: LoadHeaders) -> dict[str, Any]:
        """The load of a stand-in that only counts: nothing is stored, all is loaded."""
        engine, one = self._engine, self._need()
        counter = RowCounter(headers.text.delimiter)
        if headers.codec:
            text = bytearray().join(self._blocks(headers.codec))
            counter.feed(text, len(text))
        else:
            buffer = bytearray(4 * BLOCK_BYTES)
            for count in self._request.body.into(buffer):
                counter.feed(buffer, count)
        one.rows, one.bytes = counter.rows, self._request.body.bytes_read
        with engine.catalog.lock:
            engine.counters["rows"] += one.rows
            engine.counters["bytes"] += one.bytes
            engine.counters["loads"] += 1
        return self._end(headers)

    def _blocks(self, codec: str) -> Iterator[memoryview]:
        """Blocks of the body, uncompressed; each is valid until the next one."""
        if codec:
            try:
                yield memoryview(unpacked(self._request.body.read(), codec))
            except OSError as error:
                raise LoadError("INTERNAL_ERROR", f"decompress failed: {error}") from error
            return
        buffer = bytearray(BLOCK_BYTES)
        view = memoryview(buffer)
        for count in self._request.body.into(buffer):
            yield view[:count]

    def _end(self, headers: LoadHeaders) -> dict[str, Any]:
        """Precommit, or commit and wait until it is visible."""
        engine, one = self._engine, self._need()
        counts = {"NumberTotalRows": one.rows, "NumberLoadedRows": one.rows}
        if headers.two_phase:
            engine.transactions.precommit(one)
            return self._reply("Success", "OK", **counts)
        engine.transactions.commit_now(one)
        engine.publisher.poke()
        if not engine.publisher.wait_visible(one, float(engine.options["publish_timeout_s"])):
            return self._reply("Publish Timeout", PUBLISH_TIMEOUT, **counts)
        return self._reply("Success", "OK", **counts)

    def _bad_rows(self, error: BadRows) -> dict[str, Any]:
        counts = {"NumberTotalRows": error.total, "NumberLoadedRows": 0, "NumberFilteredRows": error.filtered,
                  "NumberUnselectedRows": error.unselected}  # fmt: skip
        return self._reply("Fail", str(error), **counts, **self._log(error.reasons))

    def _log(self, reasons: list[str]) -> dict[str, Any]:
        name = f"__shard_0/error_log_insert_stmt_{uuid.uuid4().hex}"
        self._engine.error_logs[name] = [f"Reason: {reason}" for reason in reasons]
        url = f"http://127.0.0.1:{self._engine.be_port}/api/_load_error_log?file={name}"
        return {"ErrorURL": url, "FirstErrorMsg": reasons[0] if reasons else ""}

    def _reply(self, status: str, message: str, **more: Any) -> dict[str, Any]:
        spent = int((time.monotonic() - self._begun) * 1000)
        txn = -1 if self._txn is None else self._txn.id
        two_phase = self._request.headers.get("two_phase_commit") == "true"
        reply: dict[str, Any] = {
            "TxnId": txn, "Label": self._label, "Comment": self._request.headers.get("comment", ""),
            "TwoPhaseCommit": "true" if two_phase else "false", "Status": status,
        }  # fmt: skip
        if "ExistingJobStatus" in more:
            reply["ExistingJobStatus"] = more.pop("ExistingJobStatus")
        reply["Message"] = message
        for name in ("NumberTotalRows", "NumberLoadedRows", "NumberFilteredRows", "NumberUnselectedRows"):
            reply[name] = more.pop(name, 0)
        reply |= {"LoadBytes": self._request.body.bytes_read, "LoadTimeMs": spent,
                  "BeginTxnTimeMs": self._times.get("BeginTxnTimeMs", 0), "StreamLoadPutTimeMs": 0,
                  "ReadDataTimeMs": 0, "WriteDataTimeMs": spent, "ReceiveDataTimeMs": spent,
                  "CommitAndPublishTimeMs": 0}  # fmt: skip
        return reply | more

    def _roll_back(self, reason: str) -> None:
        if self._txn is not None:
            self._engine.transactions.roll_back(self._txn, reason)

    def _need(self) -> Transaction:
        assert self._txn is not None
        return self._txn

    def _fault(self, point: str, **where: Any) -> None:
        """Meet a fault here: `refuse` fails the load with its message."""
        fault = self._engine.faults.meet(point, db=self._db, table=self._table, label=self._label, **where)
        if fault is None:
            return
        raise LoadError("INTERNAL_ERROR", str(fault.args.get("message", "the stand-in was told to refuse")))

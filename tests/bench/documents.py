"""Measurement of documents as the sink: MySQL to OpenSearch through the whole tool, beside a plain loop.

`make bench ARGS='--only documents'`. The plain loop sends the same documents, in bodies that are ready and as large as
the tool's, over as many connections, into an index like the tool's that is empty, then again, then the deletes of all:
each workload is compared with its like. It has the machine for itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3
from readers import Bench, per_million
from spend import cpu_of
from whole import WholeTool
from workload import DATABASE, Generator

from cdc_services.search.install import find
from cdc_services.search.server import SearchServer

Figures = dict[str, Any]
_ALIAS, _PLAIN = f"{DATABASE}.orders_large", "plain"
_CONNECTIONS, _BODY_BYTES = 3, 5 << 20
"""The defaults of `sink.connections` and `sink.bulk.size`."""

_PAGE = 5_000
_BUSY, _PAUSE_S = 429, 0.1


def documents(bench: Bench, generator: Generator, rows: int) -> Figures:
    """Documents per second of inserts, updates and deletes, and of the plain loop. Needs `orders` with rows."""
    installation = find("opensearch")
    if installation is None:
        raise RuntimeError("no OpenSearch here: run `make services`")
    server = SearchServer(installation)
    try:
        sink = {"type": "elasticsearch", "hosts": server.url, "index.settings.number_of_replicas": "0"}
        tool = WholeTool(bench, generator, "into_opensearch", sink)
        tool.begin()
        found: Figures = {"start_up": tool.start_up, "version": server.version, "workloads": {}}
        works = (
            ("inserts", generator.large_table),
            ("updates", generator.update_large_table),
            ("deletes", generator.delete_large_table),
        )
        for what, write in works:
            bench.say(f"documents: {write.__name__} of {rows:,} rows")
            workload = write(rows)
            before = cpu_of(server.pid or 0)
            figures = tool.measure(workload)
            spent = cpu_of(server.pid or 0) - before
            if "plain_loop" not in found:
                bench.say("documents: the plain loop")
                found["plain_loop"] = _plain_loop(server, bench.folder / "bodies", rows)
            figures["server_cpu_s_per_million"] = per_million(spent, rows)
            alone = found["plain_loop"][what]
            figures["of_plain_loop"] = round(figures["rows_per_s"] / alone["rows_per_s"], 2)
            found["workloads"][workload.name] = figures
    finally:
        server.close()
    generator.run("DROP TABLE orders_large")
    return found


def _plain_loop(server: SearchServer, folder: Path, rows: int) -> dict[str, Figures]:
    """Send the documents of the tool's index into a new one like it, again as updates, and the deletes of them."""
    folder.mkdir()
    bodies, deletes = [], []
    for number, (body, delete) in enumerate(_bodies(server)):
        bodies.append(folder / str(number))
        bodies[-1].write_bytes(body)
        deletes.append(folder / f"{number}.deletes")
        deletes[-1].write_bytes(delete)
    (definition,) = server.ask("GET", f"/{_ALIAS}").values()
    settings = definition["settings"]["index"]
    kept = {name: settings[name] for name in ("number_of_shards", "number_of_replicas", "gc_deletes")}
    mappings = {**definition["mappings"], "_meta": {}}
    server.ask("PUT", f"/{_PLAIN}", {"settings": kept, "mappings": mappings})
    pool = urllib3.PoolManager(maxsize=_CONNECTIONS)

    def send(body: Path) -> None:
        answer = None
        while answer is None or answer.status == _BUSY:  # as the tool does it
            time.sleep(0.0 if answer is None else _PAUSE_S)
            answer = pool.request(
                "POST", f"{server.url}/_bulk?filter_path=errors", body=body.read_bytes(),
                headers={"Content-Type": "application/x-ndjson"},
            )  # fmt: skip
        if answer.status != 200 or answer.json() != {"errors": False}:
            raise RuntimeError(f"HTTP {answer.status}: {answer.data[:300]!r}")

    found = {}
    for what, sent, left in (("inserts", bodies, rows), ("updates", bodies, rows), ("deletes", deletes, 0)):
        before, began = cpu_of(server.pid or 0), time.monotonic()
        with ThreadPoolExecutor(_CONNECTIONS) as threads:
            list(threads.map(send, sent))
        wall, spent = time.monotonic() - began, cpu_of(server.pid or 0) - before
        found[what] = {
            "wall_s": round(wall, 2), "rows_per_s": round(rows / wall), "bodies": len(sent),
            "server_cpu_s_per_million": per_million(spent, rows),
        }  # fmt: skip
        server.ask("POST", f"/{_PLAIN}/_refresh")
        count = int(server.ask("GET", f"/{_PLAIN}/_count")["count"])
        if count != left:
            raise RuntimeError(f"the index has {count} documents after the {what} of the plain loop, not {left}")
    server.ask("DELETE", f"/{_PLAIN}")
    return found


def _bodies(server: SearchServer) -> Iterator[tuple[bytes, bytes]]:
    """Bulk bodies of all documents behind the alias, as the tool sends them, in the order of the index, each with the
    body that deletes its documents."""
    server.ask("POST", f"/{_ALIAS}/_refresh")
    asked = {"size": _PAGE, "sort": ["_doc"], "version": True}
    answer = server.ask("POST", f"/{_ALIAS}/_search?scroll=5m", asked)
    held, deletes = bytearray(), bytearray()
    while hits := answer["hits"]["hits"]:
        for hit in hits:
            action = {
                "_index": _PLAIN, "_id": hit["_id"], "version": hit["_version"], "version_type": "external_gte",
            }  # fmt: skip
            document = json.dumps(hit["_source"], ensure_ascii=False, separators=(",", ":"))
            held += f"{json.dumps({'index': action})}\n{document}\n".encode()
            deletes += f"{json.dumps({'delete': action})}\n".encode()
            if len(held) >= _BODY_BYTES:
                yield bytes(held), bytes(deletes)
                held.clear()
                deletes.clear()
        answer = server.ask("POST", "/_search/scroll", {"scroll": "5m", "scroll_id": answer["_scroll_id"]})
    if held:
        yield bytes(held), bytes(deletes)

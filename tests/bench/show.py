"""The results as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Figures = dict[str, Any]
WARM = "Debezium, warm"
RAW = "raw drain"


def tables(results: Figures) -> Iterator[str]:
    """All lines."""
    found = results["machine"]
    yield ""
    yield f"{found['cpu']}, {found['cores']} cores, {found['memory_gb']} GB; MySQL {found.get('mysql', '-')}"
    parts = {
        "decode": _decode, "whole": _whole, "rules": _rules, "ruled_tables": _ruled_tables, "kafka": _kafka,
        "loads": _loads, "snapshot": _snapshot, "cluster": _cluster, "lakes": _lakes, "whole_lakes": _whole_lakes,
        "several_sinks": _several_sinks, "databases": _databases, "documents": _documents,
    }  # fmt: skip
    for name, part in parts.items():
        if name in results:
            yield from _failed(name, results[name]) or part(results[name])
    yield ""
    yield from _lines(("what", "figure", "other load, cores"), list(_single(results)))


def _decode(found: Figures) -> Iterator[str]:
    for name, tools in found["workloads"].items():
        rows = []
        warm, raw = (tools.get(tool, {}).get("cpu_s_per_million") for tool in (WARM, RAW))
        for tool, run in tools.items():
            if "skipped" in run:
                rows.append((tool, run["skipped"], "", "", "", "", "", ""))
                continue
            cpu, (least, most) = run["cpu_s_per_million"], run["cpu_s_per_million_range"]
            rows.append(
                (
                    tool, f"{run['rows_per_s']:,}", f"{cpu:.3f}", f"{least:.3f} to {most:.3f}", f"{run['rss_mb']:,.0f}",
                    _ratio(warm, cpu), _ratio(cpu, raw), f"{run['other_cores']:.1f}",
                )
            )  # fmt: skip
        yield ""
        yield f"decode: {name}"
        heads = ("reader", "rows/s", "CPU s per M rows", "range", "RSS MB", "Debezium warm / it", "it / raw drain")
        yield from _lines((*heads, "other load"), rows)
    for tool, reason in found["skipped"].items():
        yield f"{tool} was not measured: {reason}"


def _rules(found: Figures) -> Iterator[str]:
    for name, run in found["runs"].items():
        yield from _whole({"start_up": found["start_up"][name], "workloads": {name: run}})
    more, ratio = found["cpu_s_per_million_more"], found["rows_per_s_ratio"]
    told = all(run["cpu_s_per_million"] for run in found["runs"].values())
    cost = f"{more:.2f} CPU s per M rows" if told else "less than the start-up differs"
    yield f"the rule costs {cost}; rows/s with it are {ratio:.2f} times those without"


def _ruled_tables(found: Figures) -> Iterator[str]:
    rows = [
        (
            name, str(run["tables"]), f"{run['batch_s']:.2f}", f"{run['cpu_s']:.2f}", str(run["spark_jobs"]),
            f"{run['other_cores']:.1f}",
        )
        for name, run in found.items()
    ]  # fmt: skip
    yield ""
    yield "one transaction over all tables into DuckDB"
    yield from _lines(("tables", "number", "batch s", "CPU s", "Spark jobs", "other load"), rows)


def _kafka(found: Figures) -> Iterator[str]:
    read = [
        (
            name, f"{run['bytes_per_message']:,}", f"{run['rows_per_s']:,}", f"{run['cpu_s_per_million']:.2f}",
            f"{run['loop_cpu_s_per_million']:.2f}", f"{run['other_cores']:.1f}",
        )
        for name, run in found["read"].items()
    ]  # fmt: skip
    yield ""
    yield "Kafka topics into DuckDB, start-up subtracted, beside a plain consume loop"
    heads = ("messages", "bytes each", "rows/s", "CPU s per M rows", "of the loop", "other load")
    yield from _lines(heads, read)
    write = [
        (name, f"{run['rows_per_s']:,.0f}", f"{run['cpu_s_per_million']:.2f}") for name, run in found["write"].items()
    ]
    yield ""
    yield "changes into Kafka: encoding alone, the sink, a plain produce loop over the same messages"
    yield from _lines(("what", "rows/s", "CPU s per M rows"), write)
    whole, fresh = found["whole"], found["fresh"]
    yield ""
    yield (
        f"MySQL into Kafka, debezium-json, exactly once: {whole['rows_per_s']:,} rows/s, after the first batch "
        f"{whole['rows_per_s_after_first_batch'] or 0:,}; {whole['cpu_s_per_million'] or 0:.2f} CPU s per M rows "
        f"(other load {whole['other_cores']:.1f})"
    )
    yield (
        f"from a commit to a read_committed consumer at {fresh['rows_per_s']:,} rows/s: p50 {fresh['p50_s']:.2f} s, "
        f"p99 {fresh['p99_s']:.2f} s (other load {fresh['other_cores']:.1f})"
    )
    sizes = ", ".join(f"{run['pss_mb']:,.0f} MB with {rows} messages" for rows, run in found["memory"].items())
    yield f"memory of a run that finds a backlog: {sizes}"


def _loads(found: Figures) -> Iterator[str]:
    for kind, figures in found.items():
        whole = {"start_up": figures["start_up"], "workloads": {"orders_insert": figures["orders_insert"]}}
        yield from _whole(whole, f"a {kind} stand-in")
        rows = [
            (what, figure, "" if other is None else f"{other:.1f}")
            for name in ("freshness", "many_tables")
            for what, figure, other in _shown(name, figures[name])
        ]
        yield ""
        yield from _lines(("into the storing stand-in", "figure", "other load, cores"), rows)


def _snapshot(found: Figures) -> Iterator[str]:
    read, writers = found["read"], found["writers"]
    small, large = found["duckdb"], found["large_duckdb"]
    rows = [
        (
            f"{run['rows']:,} rows into {sink}", f"{run['rows_per_s']:,}",
            f"{run['rows_per_s_after_first_batch'] or 0:,}", f"{run['cpu_s_per_million']:.2f}", str(run["batches"]),
            "" if run["pss_mb"] is None else f"{run['pss_mb']:,.0f}", f"{run['other_cores']:.1f}",
        )
        for sink, run in (("DuckDB", small), ("DuckDB", large), ("a doris stand-in", found["large_doris"]))
    ]  # fmt: skip
    only = (f"{read['rows_per_s']:,}", "", f"{read['cpu_s_per_million']:.2f}", "", "", f"{read['other_cores']:.1f}")
    yield ""
    yield f"snapshot of {found['rows']:,} rows of orders"
    heads = ("what", "rows/s", "after 1st batch", "CPU s per M rows", "batches", "PSS MB", "other load")
    yield from _lines(heads, [("reading to Arrow, one process", *only), *rows])
    yield f"memory into DuckDB: {100 * large['pss_mb'] / small['pss_mb'] - 100:+.0f} % for ten times the rows"
    text = f"p99 of its commits {writers['p99_alone_ms']} ms alone, {writers['p99_beside_ms']} ms beside it"
    text += f", {writers['p99_beside_select_ms']} ms beside one plain SELECT"
    text += f", {writers['p99_beside_background_ms']} ms beside it with --background"
    yield f"a writer of 2,000 rows/s: {text}; {writers['lock_waits']} lock waits"


def _lakes(found: Figures) -> Iterator[str]:
    for name, figures in found.items():
        heads = list(dict.fromkeys(head for run in figures.values() for head in run))
        rows = [(of, *(str(run.get(head, "")) for head in heads)) for of, run in figures.items()]
        yield ""
        yield from _lines((f"sinks of lakes: {name}", *heads), rows)


def _whole_lakes(found: Figures) -> Iterator[str]:
    heads = list(dict.fromkeys(head for run in found.values() for head in run))
    yield ""
    yield from _lines(("the whole tool, CPU s per M rows", *heads), [
        (kind, *(str(run.get(head, "")) for head in heads)) for kind, run in found.items()
    ])  # fmt: skip


def _cluster(found: Figures) -> Iterator[str]:
    rows = [
        (
            sink,
            place,
            f"{run['rows_per_s']:,.0f}",
            f"{run['rows_per_s_after_first_batch']:,.0f}",
            f"{run['cpu_s_per_million_after_first_batch']:.2f}",
            f"{run['other_cores']:.1f}",
        )
        for sink, both in found.items()
        for place, run in both["at"].items()
    ]
    yield ""
    yield "the same inserts with the same cores"
    heads = ("into", "where", "rows/s", "after 1st batch", "CPU s per M rows after it", "other load")
    yield from _lines(heads, rows)
    for sink, both in found.items():
        text = f"{both['ratio']:.2f} times the rows/s of local[2], {both['cpu_ratio']:.2f} times the CPU seconds"
        yield f"{sink}: the cluster has {text}"


def _several_sinks(found: Figures) -> Iterator[str]:
    rows = [
        (
            name, f"{run['cpu_s_per_million']:.2f}", f"{run['server_cpu_s_per_million']:.2f}",
            f"{run['log_sent']:.1f}", f"{run['start_cpu_s']:.1f}", f"{run['wall_s']:.1f}", f"{run['other_cores']:.1f}",
        )
        for name, run in found["runs"].items()
    ]  # fmt: skip
    yield ""
    yield "the same inserts into one DuckDB file, and into two"
    heads = ("into", "CPU s per M rows", "server's", "log sent, times", "start CPU s", "s with it", "other load")
    yield from _lines(heads, rows)
    ratios = found["ratios"]
    yield (
        f"two sinks take {ratios['cpu_s_per_million']:.2f} times the CPU of one, "
        f"{ratios['server_cpu_s_per_million']:.2f} times that of the server"
    )


def _databases(found: Figures) -> Iterator[str]:
    yield from _whole(found, "MySQL")
    load = found["load_data"]
    yield f"LOAD DATA of the same rows by the server's client: {load['rows_per_s']:,} rows/s in {load['wall_s']:.1f} s"
    shares = ", ".join(f"{name} {run['of_load_data']:.2f}" for name, run in found["workloads"].items())
    yield f"of that: {shares}"
    yield f"{_servers(found)}; beside {load['server_cpu_s_per_million']:.1f}"
    fresh = ", ".join(f"{name} {run['p50_s']:.2f} / {run['p99_s']:.2f} s" for name, run in found["freshness"].items())
    yield f"freshness at 500 rows/s, p50 / p99: {fresh}; p99 ratio {found['p99_ratio']:.2f}"


def _documents(found: Figures) -> Iterator[str]:
    yield from _whole(found, f"OpenSearch {found['version']}")
    plain = found["plain_loop"]
    for what, alone in plain.items():
        rate, wall = alone["rows_per_s"], alone["wall_s"]
        yield f"a plain loop over the same documents, {what}: {rate:,} documents/s in {wall:.1f} s"
    yield "of that: " + ", ".join(f"{name} {run['of_plain_loop']:.2f}" for name, run in found["workloads"].items())
    spent = ", ".join(f"{alone['server_cpu_s_per_million']:.1f}" for alone in plain.values())
    yield f"{_servers(found)}; the plain loop: {spent}"


def _servers(found: Figures) -> str:
    """CPU of the sink's server."""
    spent = {name: run["server_cpu_s_per_million"] for name, run in found["workloads"].items()}
    shown = ", ".join(f"{name} {cpu:.1f}" for name, cpu in spent.items() if cpu is not None)
    return f"CPU s of the server per M rows: {shown}"


def _whole(found: Figures, sink: str = "DuckDB") -> Iterator[str]:
    rows = [
        (
            name, f"{run['rows_per_s']:,}", f"{run['rows_per_s_after_first_batch'] or 0:,}",
            f"{run['cpu_s_per_million']:.2f}" if run["cpu_s_per_million"] else "-",
            f"{run['cpu_s_per_million_all']:.2f}", str(run["batches"]), f"{run['other_cores']:.1f}",
        )
        for name, run in found.get("workloads", {}).items()
    ]  # fmt: skip
    yield ""
    start = found["start_up"]
    yield f"whole tool into {sink}; start and stop alone: {start['wall_s']:.1f} s, {start['cpu_s']:.1f} CPU s"
    heads = ("workload", "rows/s", "after 1st batch", "CPU s per M rows", "with start-up", "batches", "other load")
    yield from _lines(heads, rows)


def _single(results: Figures) -> Iterator[tuple[str, str, str]]:
    for name in ("freshness", "memory", "many_tables", "serve", "verify", "cli", "first", "page", "idle"):
        found = results.get(name)
        if found is None:
            continue
        if "failed" in found:
            yield name, str(found["failed"]).splitlines()[0][:80], ""
            continue
        for what, figure, other in _shown(name, found):
            yield what, figure, "" if other is None else f"{other:.1f}"


def _shown(name: str, found: Figures) -> Iterator[tuple[str, str, float | None]]:
    if "skipped" in found:
        yield name, str(found["skipped"]), None
        return
    if name in ("serve", "verify", "first", "page"):
        for what, figure in found.items():
            if isinstance(figure, int | float) and what != "other_cores":
                yield f"{name}: {what}", f"{figure:,}", found.get("other_cores")
        return
    other = found.get("other_cores")
    if name == "freshness":
        text = f"p50 {found['p50_s']:.2f} s, p99 {found['p99_s']:.2f} s, max {found['max_s']:.2f} s"
        yield f"freshness at {found['rows_per_s']:,} rows/s", f"{text}, {found['cpu_cores']:.2f} cores", other
    elif name == "memory":
        small = found["small"]["pss_mb"]
        for size in found.values():
            text = f"{size['pss_mb']:,.0f} MB ({100 * size['pss_mb'] / small - 100:+.0f} %)"
            yield f"memory, {size['log_mb']:,.0f} MB backlog", text, size["other_cores"]
    elif name == "many_tables":
        text = f"{found['batch_s']:.2f} s, {found['spark_jobs']} Spark job(s)"
        yield f"batch of {found['tables']:,} tables", text, other
    elif name == "cli":
        yield "cdc --help", f"{found['help_s']:.2f} s", other
        yield "cdc validate", f"{found['validate_s']:.2f} s", other
    else:
        yield "idle", f"{found['percent_of_a_core']:.1f} % of a core", other


def _failed(name: str, found: Figures) -> list[str]:
    return ["", f"{name}: failed: {found['failed']}"] if "failed" in found else []


def _ratio(numerator: float | None, denominator: float | None) -> str:
    return f"{numerator / denominator:,.1f}" if numerator and denominator else "-"


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    for row in (heads, ["-" * width for width in widths], *rows):
        first, *others = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()

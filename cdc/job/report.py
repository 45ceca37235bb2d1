"""Reports of a run to its user: log lines (text or JSON), a live status line on a terminal, a summary at the end."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any

from cdc.printable import printable, printable_json
from cdc.progress import BatchReport, ProgressTotals
from cdc.state.durable import NO_ROOM

_CLEAR = "\r\x1b[2K"
_UP = "\x1b[1A\x1b[2K"
_USUAL_WIDTH = 80


class Reporter:
    """Writes log lines to `err`, the summary to `out`. The status line appears only if `err` is a terminal.

    `sink` is set in a pipeline with several sinks: lines begin with it, and there is no status line. `written_s` is
    when the last log line was written (`time.monotonic`).
    """

    def __init__(
        self, log_format: str, out: IO[str] | None = None, err: IO[str] | None = None, *, sink: str = ""
    ) -> None:
        self._json, self._sink = log_format == "json", sink
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._live = self._err.isatty() and not self._json and not sink
        self._started = self.written_s = time.monotonic()
        self._shown = 0  # lines that stand below the log
        self._full = ""  # why the last text could not be written
        self._lock = threading.Lock()  # lines also come from the thread that reads what Spark prints

    def line(self, message: str, level: str = "info", **fields: Any) -> None:
        """Write one log line with its fields. Fields are plain JSON values and never hold secrets."""
        text = self._formatted(message, level, fields)
        with self._lock:
            missed = self._full
            self._write(self._err, f"{self._erased()}{text}\n")
            if missed and not self._full:
                missing = f"lines before this one may be missing: the log could not be written ({missed})"
                self._write(self._err, self._formatted(missing, "warning", {}) + "\n")
            self.written_s = time.monotonic()

    def _formatted(self, message: str, level: str, fields: Mapping[str, Any]) -> str:
        now = datetime.now(UTC)
        if self._json:
            shown = printable_json({"message": message, **fields})
            of_sink = {"sink": self._sink} if self._sink else {}
            return json.dumps({"time": now.isoformat(timespec="milliseconds"), "level": level, **of_sink, **shown})
        tail = "".join(f" {name}={printable(value)}" for name, value in fields.items())
        mark = "" if level == "info" else f"{level}: "
        of_sink_text = f"{self._sink}: " if self._sink else ""
        return f"{now.strftime('%H:%M:%S')} {of_sink_text}{mark}{printable(message)}{tail}"

    def _write(self, stream: IO[str], text: str) -> None:
        """Write a text. A full disk under the log ends no run: the next line that can be written tells of it."""
        self._full = ""
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._full = str(error.strerror)

    def batch(self, report: BatchReport) -> None:
        """Write one line per committed batch; on a terminal the status line replaces it."""
        if self._live or not (report.rows or report.tables):
            return
        fields: dict[str, Any] = {} if report.lag_s is None else {"lag_s": round(report.lag_s, 3)}
        if self._json:
            fields["committed_s"] = round(report.committed_s, 3)
        self.line(
            "batch committed",
            batch=report.batch,
            tables=len(report.tables),
            rows=report.rows,
            duration_s=round(report.duration_s, 3),
            **fields,
        )

    def status(self, now: ProgressTotals, running: int | None, bars: Sequence[str] = ()) -> None:
        """Redraw the status line below the `bars`. No effect if stderr is not a terminal."""
        if not self._live:
            return
        lag = "-" if now.lag_s is None else f"{now.lag_s:.1f} s"
        batch = "waiting" if now.last_batch is None else f"batch {now.last_batch} ({now.last_duration_s:.2f} s)"
        parts = [f"{len(now.tables)} tables", f"{now.rows:,} rows", f"{now.rate:,.0f} rows/s", f"lag {lag}", batch]
        if running is not None:
            parts.append(f"running {running}")
        if now.lag_bytes:
            parts.append(f"{now.lag_bytes / 1e6:,.1f} MB to read")
        if now.note:
            parts.append(now.note)
        with self._lock:
            width = _width(self._err) - 1
            shown = "\n".join(" ".join(printable(text).split("\n"))[:width] for text in (*bars, " | ".join(parts)))
            self._write(self._err, _CLEAR + _UP * max(0, self._shown - 1) + shown)
            self._shown = 1 + len(bars)

    def summary(
        self, now: ProgressTotals, behavior: str = "", copied: Sequence[str] = (), *, failed: bool = False
    ) -> None:
        """Print the summary: one row per sink table, the counts by reason, and re-snapshots (`copied`).

        `behavior` is the policy for schema changes; the number of those held back is from the counts. Nothing is
        printed for a run that `failed` before its first commit.
        """
        self._write(self._err, self._erased())
        if failed and not now.batches:
            return
        elapsed = time.monotonic() - self._started
        if self._json:
            tables = {
                str(table): {
                    "inserts": totals.inserts,
                    "updates": totals.updates,
                    "deletes": totals.deletes,
                    "schema_changes": totals.schema_changes,
                }
                for table, totals in sorted(now.tables.items())
            }
            again: dict[str, Any] = {"re_snapshotted": list(copied)} if copied else {}
            self.line(
                "summary",
                rows=now.rows,
                batches=now.batches,
                tables=tables,
                counts=dict(now.counts),
                schema_changes=behavior,
                **again,
            )
            return
        lines = [f"sink {self._sink}:"] if self._sink else []
        changes, batches = _counted(now.rows, "change", "changes"), _counted(now.batches, "batch", "batches")
        lines += [*_table(now), f"{changes} in {batches}, {elapsed:.1f} s"]
        lines += [f"schema changes: {behavior}{_held_back(now)}"] if behavior else []
        lines += [f"counted: {reason}: {number:,}" for reason, number in sorted(now.counts.items())]
        # In one call: other runs print too.
        self._write(self._out, "".join(f"{printable(text)}\n" for text in (*lines, *copied)))
        full, self._full = self._full, ""
        if full:
            self.line(f"the summary cannot be written: {full}", level="warning")

    def _erased(self) -> str:
        """The characters that erase what stands below the log, from now on nothing."""
        shown, self._shown = self._shown, 0
        return _CLEAR + _UP * (shown - 1) if shown else ""


def _counted(number: int, one: str, plural: str) -> str:
    return f"{number:,} {one if number == 1 else plural}"


def _held_back(now: ProgressTotals) -> str:
    held = sum(number for reason, number in now.counts.items() if reason.startswith(("held-back ", "refused-by-sink ")))
    return f", {held:,} held back" if held else ""


def _width(terminal: IO[str]) -> int:
    """The width of the terminal in columns: a line that wraps could not be redrawn."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def new_counts(before: Mapping[str, int], now: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the reasons whose count has grown, with the increase."""
    for reason, number in now.items():
        if number > before.get(reason, 0):
            yield reason, number - before.get(reason, 0)


def _table(now: ProgressTotals) -> Iterator[str]:
    header = ("table", "inserts", "updates", "deletes", "schema changes")
    rows = [
        (str(table), f"{t.inserts:,}", f"{t.updates:,}", f"{t.deletes:,}", f"{t.schema_changes:,}")
        for table, t in sorted(now.tables.items())
    ]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, tuple("-" * width for width in widths), *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()

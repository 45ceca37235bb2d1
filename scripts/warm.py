"""Fills the cache folder, once per machine and version, by reading the demo's binlog.

The decoder's kernels are compiled: without this the first pipeline run does it, in every one of its processes at the
same time. Spark's classes go into an archive, with which every run starts seconds sooner.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cdc.job.class_archive import archive_path
from cdc.job.java import choose_java
from cdc.source import Context, Limits, Source
from cdc.spec.check import check_file
from cdc.state.store import LocalStore
from connectors.mysql.snapshot.read.warm import warm_snapshot_kernels
from connectors.streamload.warm import warm as warm_load_text

DEMO = Path(__file__).resolve().parent.parent / "pipelines" / "demo.yaml"
LIMITS = Limits(max_bytes=64 << 20, max_rows=1_000_000)


def main() -> int:
    """Decode everything; say how long it took."""
    sys.stdout.write("compiling the decoder for this processor (once)\n")
    sys.stdout.flush()
    started = time.monotonic()
    options = check_file(str(DEMO)).spec.source
    with tempfile.TemporaryDirectory() as folder:
        rows = sum(decoded(options.build(Context("warm", LocalStore(Path(folder))))))
    sys.stdout.write(f"decoder ready: {rows:,} row images in {time.monotonic() - started:.0f} s\n")
    with ThreadPoolExecutor(1) as beside:
        archived = beside.submit(archive_classes)  # a process of its own, which needs the decoder and nothing else
        started = time.monotonic()
        warm_snapshot_kernels()
        sys.stdout.write(f"snapshot reader ready in {time.monotonic() - started:.0f} s\n")
        started = time.monotonic()
        warm_load_text()
        sys.stdout.write(f"load text ready in {time.monotonic() - started:.0f} s\n")
        archived.result()
    return 0


def archive_classes() -> None:
    """Run the demo once, so that Java writes its archive of classes. Runs work without it, only slower to start."""
    path = archive_path(os.environ, choose_java(os.environ))
    if path.exists():
        return
    sys.stdout.write("archiving Spark's classes, so that runs start sooner (once)\n")
    sys.stdout.flush()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        text = DEMO.read_text(encoding="utf-8")
        text = text.replace("demo/shop", f"{DEMO.parent}/demo/shop").replace("../.cdc/", f"{folder}/")
        Path(folder, "demo.yaml").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "cdc", "run", f"{folder}/demo.yaml", "--state-dir", f"{folder}/state"]
        run = {**os.environ, "CDC_CLASS_ARCHIVE": "make"}
        done = subprocess.run(command, env=run, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = f"{time.monotonic() - started:.0f} s"
    if path.exists():
        sys.stdout.write(f"class archive ready: {path.stat().st_size >> 20} MiB in {seconds}\n")
    else:
        why = "this Java wrote none" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]
        sys.stdout.write(f"no class archive ({why}): runs start without it\n")


def decoded(source: Source) -> Iterator[int]:
    """Row images of each block of the whole log."""
    start = source.initial_offset()
    while (end := source.latest_offset(start, LIMITS, 0.0)) != start:
        for split in source.splits(start, end, 1):
            yield from (len(block) for block in source.read(split, lambda _reason, _number: None, lambda _report: None))
        start = end
    source.stop()


if __name__ == "__main__":
    sys.exit(main())

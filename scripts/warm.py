"""Fills the cache folder, once per machine and version: `python scripts/warm.py decoder`, then `... rest`.

The decoder's kernels are compiled by reading the demo's binlog: without this the first pipeline run does it, in every
one of its processes at the same time. The rest, which the demo does without: the kernels of the snapshot and of stream
loads and of Kafka's messages, and an archive of Spark's classes, with which every run starts seconds sooner.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

from decoder_kernels import (
    compile_compressed,
    compile_documents,
    compile_events,
    compile_rows,
    compile_text,
    compile_values,
)
from install import say, still_going

from cdc.source import Context, Limits, Source
from cdc.spec.check import check_file
from cdc.state.store import LocalStore

DEMO = Path(__file__).resolve().parent.parent / "pipelines" / "demo.yaml"
LIMITS = Limits(max_bytes=64 << 20, max_rows=1_000_000)


def main(step: str) -> int:
    """One step; says what it does and how long it took."""
    with still_going("compiling"):
        STEPS[step]()
    return 0


def warm_decoder() -> None:
    """Compile the kernels in two processes, then decode everything that the demo's log holds."""
    gc.disable()  # the compiler makes millions of objects and little garbage: a tenth of the time
    say("compiling the decoder for this processor, in two processes (once)")
    started, context = time.monotonic(), get_context("fork")  # a new process would load the compiler again
    documents = context.Event()
    beside = context.Process(target=_compile_beside, args=(documents,))
    beside.start()
    compile_values()
    say(f"  values: {time.monotonic() - started:.0f} s")
    while beside.is_alive() and not documents.wait(0.1):
        pass  # if it fails, this process compiles the rest
    say(f"  documents: {time.monotonic() - started:.0f} s")
    compile_rows()
    say(f"  rows: {time.monotonic() - started:.0f} s")
    beside.join()
    options = check_file(str(DEMO)).spec.source
    with tempfile.TemporaryDirectory() as folder:
        rows = sum(decoded(options.build(Context("warm", LocalStore(Path(folder))))))
    say(f"decoder ready: {rows:,} row images in {time.monotonic() - started:.0f} s")


def _compile_beside(documents: Event) -> None:
    """What the other process of `warm_decoder` compiles; sets the event when the first half of it is done."""
    compile_documents()
    documents.set()
    compile_events()
    compile_text()


def warm_rest() -> None:
    """What makes later runs start sooner; each part of it is made by the run that needs it when it is not there."""
    rest = _rest()
    say(f"preparing later runs: bytecode, {', '.join(rest)}, Spark's classes (once; Ctrl-C does no harm)")
    compiling = [sys.executable, "-m", "compileall", "-qq", "-j", "2", sysconfig.get_path("purelib")]
    subprocess.run(compiling, check=False)  # some packages bring files for other Pythons
    if find_spec("pytest"):  # else each process of the first tests would rewrite and compile all of them
        subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-qq"], stdout=subprocess.DEVNULL, check=False
        )
    with ThreadPoolExecutor(1) as beside:
        archived = beside.submit(archive_classes)  # a process of its own, which needs the decoder and nothing else
        for what, compile_it in rest.items():
            started = time.monotonic()
            compile_it()
            say(f"{what} ready in {time.monotonic() - started:.0f} s")
        archived.result()


def _rest() -> dict[str, Callable[[], object]]:
    """The kernels that the demo does without, by name. Imported here: loading them would delay the decoder."""
    from connectors.kafka.read.warm import warm_avro, warm_kernels
    from connectors.kafka.warm import warm
    from connectors.mysql.snapshot.read.warm import warm_snapshot_kernels
    from connectors.shared.streamload.warm import warm as warm_load_text

    return {
        "snapshot reader": warm_snapshot_kernels, "load text": warm_load_text,
        "messages to Kafka": warm, "messages from Kafka": warm_kernels, "messages in Avro": warm_avro,
        "compressed transactions": compile_compressed,
    }  # fmt: skip


def archive_classes() -> None:
    """Run the demo once, so that Java writes its archive of classes. Runs work without it, only slower to start."""
    from cdc.job.spark.class_archive import archive_path  # the decoder is made while Spark is being installed
    from cdc.job.spark.java import choose_java

    path = archive_path(os.environ, choose_java(os.environ))
    if path.exists():
        return
    say("archiving Spark's classes")
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
        say(f"class archive ready: {path.stat().st_size >> 20} MiB in {seconds}")
    else:
        why = "this Java wrote none" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]
        say(f"no class archive ({why}): runs start without it")


def decoded(source: Source) -> Iterator[int]:
    """Row images of each block of the whole log."""
    try:
        start = source.initial_offset()
        while (end := source.latest_offset(start, LIMITS, 0.0)) != start:
            for split in source.splits(start, end, 1):
                yield from (
                    len(block) for block in source.read(split, lambda _reason, _number: None, lambda _report: None)
                )
            start = end
    finally:
        source.stop()


STEPS = {"decoder": warm_decoder, "rest": warm_rest}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

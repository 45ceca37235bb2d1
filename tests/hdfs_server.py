"""A name node and a data node of this machine, from one jar beside those of PySpark, and an imitation of their client.

`CDC_TEST_HDFS_JAR` names Hadoop's hadoop-client-minicluster jar, of the version that PySpark has (3.5.0).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar, cast

import pyspark

from cdc.job.spark.java import choose_java
from cdc_services.process import ServerProcess, free_port, last_words

F = TypeVar("F", bound=Callable[..., Any])
JAR = "CDC_TEST_HDFS_JAR"
_READY_S = 120.0


@dataclass
class HdfsServer:
    """Whatever is in it is replicated once. `folder` has its data; `port` is the name node's."""

    folder: Path
    jar: Path
    port: int
    nodes: dict[str, ServerProcess] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Of the root."""
        return f"hdfs://127.0.0.1:{self.port}"

    def start(self, *names: str) -> None:
        """Start `namenode` or `datanode`."""
        for name in names:
            main = f"org.apache.hadoop.hdfs.server.{name}.{name.removesuffix('node').capitalize()}Node"
            self.nodes[name] = ServerProcess(self._command(main), self.folder / f"{name}.log")

    def end(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop or kill a node."""
        self.nodes.pop(name).end(how)

    def wait(self) -> None:
        """Until a file can be written, which needs both nodes."""
        from cdc.retry import RetryPolicy
        from cdc.state.remote.hdfs import HdfsBucket

        HdfsBucket(f"{self.url}/ready", RetryPolicy(timeout_s=_READY_S, longest_pause_s=0.5)).put("ready", b"1")

    def admin(self, *words: str) -> None:
        """A command of `hdfs dfsadmin`."""
        command = self._command("org.apache.hadoop.hdfs.tools.DFSAdmin", *words)
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def configure(self) -> None:
        """Write the settings and format the name node."""
        here = {"fs.defaultFS": self.url, "hadoop.http.authentication.simple.anonymous.allowed": "true"}
        settings = {
            "dfs.namenode.name.dir": (self.folder / "name").as_uri(),
            "dfs.datanode.data.dir": (self.folder / "blocks").as_uri(),
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.address": f"127.0.0.1:{free_port()}",
            "dfs.heartbeat.interval": "1",
        }
        _write(self.folder / "conf" / "core-site.xml", here)
        _write(self.folder / "conf" / "hdfs-site.xml", settings)
        (self.folder / "conf" / "log4j2.properties").write_text(
            "rootLogger.level=warn\nrootLogger.appenderRef.a.ref=a\nappender.a.type=Console\nappender.a.name=a\n"
            "appender.a.layout.type=PatternLayout\nappender.a.layout.pattern=%d %p %c{1} %m%n\n",
            encoding="utf-8",
        )
        format_ = self._command("org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-nonInteractive")
        done = subprocess.run(format_, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the name node cannot be formatted: {(done.stdout + done.stderr)[-1500:]}")

    def _command(self, main: str, *arguments: str) -> list[str]:
        jars = Path(pyspark.__file__).parent / "jars"
        machine = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self.folder}"]
        logging = f"-Dlog4j2.configurationFile={self.folder / 'conf' / 'log4j2.properties'}"
        java = choose_java(os.environ).runtime / "bin" / "java"
        path = f"{self.folder / 'conf'}:{self.jar}:{jars}/*"
        return [str(java), *machine, logging, "-cp", path, main, *arguments]


def _write(path: Path, settings: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    path.write_text(f"<configuration>{''.join(lines)}</configuration>", encoding="utf-8")


@contextmanager
def hdfs_server(folder: Path) -> Iterator[HdfsServer]:
    """While the block runs the nodes do. Raises RuntimeError with their last words."""
    server = HdfsServer(folder, Path(os.environ[JAR]), free_port())
    server.configure()
    server.start("namenode", "datanode")
    try:
        try:
            server.wait()
        except Exception as error:
            raise RuntimeError("\n".join(last_words(folder / f"{name}.log") for name in server.nodes)) from error
        yield server
    finally:
        for name in list(server.nodes):
            server.end(name)


@dataclass
class Status:
    """Of one file or folder, as the client tells it."""

    path: str
    isdir: bool
    modification_time: int


@dataclass
class _File:
    data: bytes = b""
    closed: bool = False
    put_ms: int = 0


def _alone(call: F) -> F:
    """As the name node does one thing after the other."""

    @wraps(call)
    def alone(self: ImitatedHdfs, *arguments: Any) -> Any:
        with self.lock:
            return call(self, *arguments)

    return cast(F, alone)


class ImitatedHdfs:
    """What the client does with the files of one cluster, in memory, with the name node's refusals.

    Only what was seen of Hadoop 3.5. A file that is not closed has no bytes for a reader, and is not renamed.
    """

    def __init__(self) -> None:
        self.files, self.folders = dict[str, _File](), {"/"}
        self.now_s, self.lock = time.time, threading.RLock()

    @_alone
    def get_file_info(self, path: str) -> Status:
        self._known(path)
        file = self.files.get(path)
        return Status(path, file is None, file.put_ms if file else 0)

    @_alone
    def list_status(self, path: str, recursive: bool) -> list[Status]:
        self._known(path)
        within = sorted(each for each in (*self.files, *self.folders) if each.startswith(f"{path}/"))
        return [self.get_file_info(each) for each in within if recursive or "/" not in each[len(path) + 1 :]]

    @_alone
    def read(self, path: str) -> _Reader:
        if path not in self.files:
            raise FileNotFoundError(f"File does not exist: {path}\n\tat org.apache.hadoop")
        file = self.files[path]
        return _Reader(file.data if file.closed else b"")

    @_alone
    def create(self, path: str, options: object) -> _Writer:
        if path in self.files or path in self.folders:
            raise FileExistsError(f"{path} for client 127.0.0.1 already exists\n\tat org.apache.hadoop")
        self.mkdirs(str(PurePosixPath(path).parent), 0o755, True)
        self.files[path] = _File(put_ms=int(self.now_s() * 1000))
        return _Writer(self, self.files[path])

    @_alone
    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None:
        assert create_parent
        self.folders |= {path, *map(str, PurePosixPath(path).parents)}

    @_alone
    def rename(self, source: str, target: str, overwrite: bool) -> None:
        if source not in self.files:
            raise FileNotFoundError(f"rename source {source} is not found.\n\tat org.apache.hadoop")
        assert self.files[source].closed
        if str(PurePosixPath(target).parent) not in self.folders:
            raise FileNotFoundError(f"rename destination parent {target} not found.\n\tat org.apache.hadoop")
        if target in self.files and not overwrite:
            raise FileExistsError(f"rename destination {target} already exists\n\tat org.apache.hadoop")
        self.files[target] = self.files.pop(source)

    @_alone
    def delete(self, path: str) -> bool:
        if path in self.folders:
            if any(each.startswith(f"{path}/") for each in (*self.files, *self.folders)):
                refused = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
                raise RuntimeError(
                    f'RPCError("{refused}", "`{path} is non empty\': Directory is not empty\\n\\tat org")'
                )
            self.folders.remove(path)
            return True
        return self.files.pop(path, None) is not None

    def _known(self, path: str) -> None:
        if path not in self.files and path not in self.folders:
            raise FileNotFoundError(path)


@dataclass
class _Reader:
    data: bytes

    def read(self, size: int) -> bytes:
        part, self.data = self.data[:size], self.data[size:]
        return part


@dataclass
class _Writer:
    hdfs: ImitatedHdfs
    file: _File

    def write(self, data: bytes) -> None:
        self.file.data += data

    def hsync(self) -> None:
        pass

    def close(self) -> None:
        self.file.closed, self.file.put_ms = True, int(self.hdfs.now_s() * 1000)

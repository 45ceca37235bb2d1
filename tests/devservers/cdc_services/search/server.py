"""A running search server: an address to send requests to, and the kind that this process starts and ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdc_services.own_server import OwnServer
from cdc_services.process import ServerProcess, free_port, last_words
from cdc_services.search.install import HERE, SearchInstallation
from cdc_services.workspace import Workspace

_READY_S = 180.0
_HEAP = "384m"
_LONGEST_IN_A_BYTE = 127


class SearchServer(OwnServer):
    """One node that this process started, in a folder of its own. It dies with this process, however that ends.

    `url` is its address. `settings` go to the server's configuration file.
    """

    def __init__(
        self, installation: SearchInstallation, settings: Mapping[str, str] | None = None, *, port: int = 0
    ) -> None:
        self._installation, self._settings = installation, dict(settings or {})
        self._workspace = Workspace("search")
        self.folder = self._workspace.path
        self.port, self._transport = port or free_port(), free_port()
        self._words = Path(os.devnull)
        for name in ("config", "data", "logs", "tmp"):
            (self.folder / name).mkdir()
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def product(self) -> str:
        """`opensearch` or `elasticsearch`."""
        return self._installation.distribution.product

    @property
    def version(self) -> str:
        """Such as `2.19.6`."""
        return self._installation.version

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, or start again after `stop` or `kill9` with the same data. Waits until all indexes are recovered."""
        if self.running:
            raise RuntimeError("the server is already running")
        self._configure()
        self._process = ServerProcess([*_another_user(), *self._command()], self.log, self._words)
        deadline = time.monotonic() + _READY_S
        while not self._ready():
            if not self.running or time.monotonic() > deadline:
                words = last_words(self.log)
                self._end(signal.SIGKILL)
                raise RuntimeError(f"{self.product} does not start: {words}")
            time.sleep(0.1)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request, the JSON of its answer. Raises urllib.error.HTTPError."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)

    def _ready(self) -> bool:
        try:
            health = self.ask("GET", "/_cluster/health?wait_for_no_initializing_shards=true&timeout=2s")
        except (OSError, ValueError):
            return False
        return health["status"] != "red" and not health["timed_out"]

    def _configure(self) -> None:
        settings: dict[str, str] = {
            "cluster.name": "trials", "node.name": "one", "discovery.type": "single-node", "network.host": "127.0.0.1",
            "http.port": str(self.port), "transport.port": str(self._transport),
            "path.data": str(self.folder / "data"), "path.logs": str(self.folder / "logs"),
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }  # fmt: skip
        if (self._installation.home / "modules" / "x-pack-security").exists():
            settings["xpack.security.enabled"] = "false"
        settings |= self._settings
        lines = (f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
        (self.folder / "config" / f"{self.product}.yml").write_text("".join(lines), encoding="utf-8")
        shutil.copyfile(HERE / "log4j2.properties", self.folder / "config" / "log4j2.properties")
        if self._installation.distribution.launched:
            self._words = self.folder / "words"
            told = {"path.home": str(self._installation.home), **settings}
            self._words.write_bytes(_launching(told, self.folder / "config"))

    def _guard(self) -> list[str]:
        """What keeps the server's modules within their rights."""
        if self._installation.distribution.launched:
            return [
                "-Djava.security.manager=allow",
                "--add-opens=java.base/java.io=ALL-UNNAMED",
                "--add-modules=jdk.net",
            ]
        if not self._installation.distribution.agent:
            return ["-Djava.security.manager=allow", "-Djava.locale.providers=SPI,COMPAT"]
        threads = "org.opensearch.secure_sm.SecuredForkJoinWorkerThreadFactory"
        return [
            f"-javaagent:{self._installation.home / 'agent' / 'opensearch-agent.jar'}",
            "--add-modules=jdk.incubator.vector",
            f"-Djava.util.concurrent.ForkJoinPool.common.threadFactory={threads}",
        ]

    def _command(self) -> list[str]:
        home, short = self._installation.home, "opensearch" if self.product == "opensearch" else "es"
        main = "OpenSearch" if self.product == "opensearch" else "Elasticsearch"
        flavor = [] if self.product == "opensearch" else ["-Des.distribution.flavor=default"]
        return [
            "env", f"LIBFFI_TMPDIR={self.folder / 'tmp'}", str(self._installation.java),
            f"-Xms{_HEAP}", f"-Xmx{_HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xss1m",
            "-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Djna.nosys=true", "-Dio.netty.noUnsafe=true",
            "-Dio.netty.noKeySetOptimization=true", "-Dio.netty.recycler.maxCapacityPerThread=0",
            "-Dio.netty.allocator.numDirectArenas=0", "-Dlog4j.shutdownHookEnabled=false", "-Dlog4j2.disable.jmx=true",
            *self._guard(),
            f"-Djava.io.tmpdir={self.folder / 'tmp'}", f"-Djna.tmpdir={self.folder / 'tmp'}",
            f"-D{short}.path.home={home}", f"-D{short}.path.conf={self.folder / 'config'}",
            f"-D{short}.distribution.type=zip", *flavor, *self._program(f"org.{self.product}.bootstrap.{main}"),
        ]  # fmt: skip

    def _program(self, main: str) -> list[str]:
        libraries = self._installation.home / "lib"
        if self._installation.distribution.launched:
            return ["--module-path", str(libraries), "-m", f"org.elasticsearch.server/{main}"]
        return ["-cp", str(libraries / "*"), main]


def _launching(settings: Mapping[str, str], config: Path) -> bytes:
    """A launcher's words to the server: a daemon, quiet, no file for its id, no password, all settings, its folder.

    A server that is no daemon ends with its standard input.
    """
    text = b"\0"
    pairs = b"".join(_string(name) + text + _string(value) for name, value in settings.items())
    return b"\1\1\0\0" + bytes([len(settings)]) + pairs + _string(str(config))


def _string(value: str) -> bytes:
    """A short text in the format of the server's streams. Raises RuntimeError for another one."""
    if len(value) > _LONGEST_IN_A_BYTE or not value.isascii():
        raise RuntimeError(f"the server's folders have to have short names in ASCII: {value}")
    return bytes([len(value)]) + value.encode()


def _another_user() -> list[str]:
    """The words that run the server, which refuses root, under another user id; who owns its files does not change.

    Raises RuntimeError where root may make no user namespace.
    """
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
        return prefix
    raise RuntimeError("the server refuses to run as root, and no user namespace can be made: be another user")

"""A running Kafka broker: an address to connect to, and the kind that this process starts and ends."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from cdc_services.kafka.install import KafkaInstallation
from cdc_services.own_server import OwnServer
from cdc_services.process import ServerProcess, free_port
from cdc_services.workspace import Workspace

_READY_S = 120.0
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "16777216",
}


class StartedBroker(OwnServer):
    """A broker that this process started, in a folder of its own. It dies with this process, however that ends.

    `bootstrap` is its address. Topics are not created by writing to them, unless `settings` say so. On `login_port`
    clients log in (SASL without TLS) as `settings` have it. On `tls_port` there is TLS, with the key and the
    certificate in `identity`, a PEM file.
    """

    def __init__(
        self,
        installation: KafkaInstallation,
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        login_port: int = 0,
        tls_port: int = 0,
        identity: Path | None = None,
    ) -> None:
        self._installation = installation
        self._settings = dict(settings or {})
        self._workspace = Workspace("kafka")
        self.folder = self._workspace.path
        self.port = port or free_port()
        self._control = free_port()
        self.login_port, self.tls_port, self._identity = login_port, tls_port, identity
        try:
            shutil.copytree(installation.template, self.folder / "data")
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def bootstrap(self) -> str:
        """`host:port`, as clients want it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start again after `stop` or `kill9`: same port, same data. Waits until it answers. Raises RuntimeError."""
        if self.running:
            raise RuntimeError("the broker is already running")
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self._lines().items()), encoding="utf-8")
        self._process = ServerProcess(self._installation.command("kafka.Kafka", str(path)), self.log)
        self._wait_until_ready()

    def restart(self) -> None:
        """`stop`, then `start`."""
        self.stop()
        self.start()

    def _lines(self) -> dict[str, str]:
        clients = f"PLAINTEXT://127.0.0.1:{self.port}"
        if self.login_port:
            clients += f",SASL_PLAINTEXT://127.0.0.1:{self.login_port}"
        identity = {}
        if self.tls_port:
            clients += f",SSL://127.0.0.1:{self.tls_port}"
            identity = {f"listener.name.ssl.ssl.keystore.{key}": value for key, value in self._keystore().items()}
        place = {
            "controller.quorum.voters": f"1@127.0.0.1:{self._control}",
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{self._control}",
            "advertised.listeners": clients,
            "log.dirs": str(self.folder / "data"),
        }
        return {**_SETTINGS, **place, **identity, **self._settings}

    def _keystore(self) -> dict[str, str]:
        return {"type": "PEM", "location": str(self._identity)}

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while not self._listens():
            if not self.running:
                self._process = None
                raise RuntimeError(f"the broker ended while it started: {self.last_words()}")
            if time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                raise RuntimeError(f"the broker does not listen after {_READY_S:.0f} s: {self.last_words()}")
            time.sleep(0.05)

    def _listens(self) -> bool:
        # A broker opens its listener for clients last, once the controller has let it in.
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

"""A server as a child process that cannot outlive the one that started it."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OWN_PORTS = range(15_000, 27_000)
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    # Linux ends this child when the thread that started it is gone, however that one ended (prctl(2)).
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class ServerProcess:
    """One run of a server program; its output goes to `log`. Start it from a thread that lives as long as it should.

    `told` is a file that the program reads as its standard input.
    """

    def __init__(self, command: Sequence[str], log: Path, told: Path = Path(os.devnull)) -> None:
        self.log = log
        with log.open("ab") as out, told.open("rb") as words:
            self._child = subprocess.Popen(
                list(command), stdin=words, stdout=out, stderr=out, preexec_fn=_die_with_parent
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Still running."""
        return self._child.poll() is None

    def end(self, how: signal.Signals, timeout_s: float = 60.0) -> None:
        """Send a signal and wait for the end; after `timeout_s` seconds kill. A process that is gone is fine."""
        if self.alive:
            self._child.send_signal(how)
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def last_words(log: Path, characters: int = 2000) -> str:
    """The end of a log: for an error message."""
    return log.read_text(errors="replace")[-characters:].strip() if log.exists() else ""


def free_port() -> int:
    """A TCP port on the loopback interface that nobody listens on now, below those that systems give to connections: a
    server that is killed and started again finds it free. As long as this process lives, no other one is given it,
    though its server does not listen yet or any more. Raises OSError when there is none."""
    for port in random.SystemRandom().sample(_OWN_PORTS, 100):
        if port_is_free(port) and _keep(port):
            return port
    raise OSError(f"a hundred ports of {_OWN_PORTS.start} to {_OWN_PORTS.stop} were tried, and none is free")


def _keep(port: int) -> bool:
    """Take a port for this process, by a name that Linux keeps for whoever was first until it ends (unix(7))."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0cdc-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()
    return True


def port_is_free(port: int) -> bool:
    """Whether nobody listens on this TCP port of the loopback interface, nor on that of all."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def user_option() -> tuple[str, ...]:
    """Database servers refuse to run as root unless told so."""
    return ("--user=root",) if os.geteuid() == 0 else ()

"""What a command costs: wall time, CPU of its process tree, peak memory, and how busy the machine was otherwise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
CONTAIN = Path(__file__).with_name("contain.py")


@dataclass(frozen=True, slots=True)
class Spent:
    """`cpu_s` is user+sys of all processes of the tree; `pss_mb` the highest sum of their proportional set sizes;
    `anonymous_mb` the part of it that is no file; both None when memory was not sampled."""

    code: int
    wall_s: float
    cpu_s: float
    other_cores: float
    pss_mb: float | None = None
    anonymous_mb: float | None = None


def tree(root: int) -> list[int]:
    """A process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            fields = stat_fields(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from `state` on (proc(5)); empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_of(pid: int, *, with_ended_children: bool = True) -> float:
    """CPU seconds of a process so far; 0 when it is gone."""
    fields = stat_fields(pid)
    last = 15 if with_ended_children else 13
    return sum(int(value) for value in fields[11:last]) / TICKS if fields else 0.0


def cpu_of_tree(root: int) -> float:
    """CPU seconds of all descendants of a process, with those that have ended; without the process itself."""
    return sum(cpu_of(pid) for pid in tree(root)[1:]) + _ended_children(root)


def _ended_children(pid: int) -> float:
    fields = stat_fields(pid)
    return sum(int(value) for value in fields[13:15]) / TICKS if fields else 0.0


def memory_of_tree(root: int) -> tuple[float, float]:
    """(PSS, anonymous PSS) of all descendants in MB."""
    total = anonymous = 0
    for pid in tree(root)[1:]:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
        total += sizes.get("Pss", 0)
        anonymous += sizes.get("Pss_Anon", 0)
    return total / 1024, anonymous / 1024


def busy_s() -> float:
    """CPU seconds that the whole machine was busy since it started, stolen time included."""
    values = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = values
    return (user + nice + system + irq + softirq + steal) / TICKS


class OtherLoad:
    """How many cores were busy with what is neither measured, nor the database server, nor this program."""

    def __init__(self, known: Sequence[int]) -> None:
        self._known = [*known, os.getpid()]
        self._before, self._started = self._now(), time.monotonic()

    def cores(self, measured_cpu_s: float) -> float:
        """Since the object was made."""
        busy, known = (after - before for after, before in zip(self._now(), self._before, strict=True))
        wall = max(time.monotonic() - self._started, 0.01)
        return round(max(0.0, busy - known - measured_cpu_s) / wall, 2)

    def _now(self) -> tuple[float, float]:
        return busy_s(), sum(cpu_of(pid, with_ended_children=False) for pid in self._known)


class Contained:
    """A running command inside `contain.py`, which adopts and counts every process the command leaves behind."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        memory: bool = False,
        known: Sequence[int] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err, self._cost = folder / "stdout", folder / "stderr", folder / "cost.json"
        self._load, self._started = OtherLoad(known), time.monotonic()
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._child = subprocess.Popen(
                [sys.executable, str(CONTAIN), str(self._cost), *command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **(environ or {})},
            )  # fmt: skip
        self._peak = (0.0, 0.0)
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampled = memory
        if memory:
            self._sampler.start()

    @property
    def pid(self) -> int:
        """The containing process; the command is its child."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Not ended yet."""
        return self._child.poll() is None

    def stop(self) -> Spent:
        """SIGTERM, then `wait`."""
        self._child.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self, timeout_s: float = 1800) -> Spent:
        """Wait for the end; what it cost."""
        try:
            self._child.wait(timeout_s)
        except BaseException:
            self._child.kill()
            raise
        cost = json.loads(self._cost.read_text())
        wall = time.monotonic() - self._started
        pss, anonymous = (round(value, 1) for value in self._peak)
        return Spent(
            cost["code"], round(wall, 3), round(cost["cpu_s"], 3), self._load.cores(cost["cpu_s"]),
            pss if self._sampled else None, anonymous if self._sampled else None,
        )  # fmt: skip

    def words(self) -> str:
        """The end of what it wrote, for an error message."""
        return (self.out.read_text(errors="replace")[-1000:] + self.err.read_text(errors="replace")[-2000:]).strip()

    def _sample(self) -> None:
        while self.running:
            pss, anonymous = memory_of_tree(self.pid)
            self._peak = (max(self._peak[0], pss), max(self._peak[1], anonymous))
            time.sleep(0.2)

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
from dataclasses import dataclass, replace
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
CONTAIN = Path(__file__).with_name("contain.py")
_SAMPLE_S = 0.1
"""Between samples of memory. With twice that, the 150 ms in which a small batch is loaded are missed in some runs."""


@dataclass(frozen=True, slots=True)
class Spent:
    """`cpu_s` is user+sys of all processes of the tree; `pss_mb` the highest sum of their proportional set sizes;
    `anonymous_mb` the highest sum of what is no file; both None when nothing was sampled. `pss_by_role` is the moment
    of the peak, `cpu_by_role` the last sample of every process, so it is a little short."""

    code: int
    wall_s: float
    cpu_s: float
    other_cores: float
    pss_mb: float | None = None
    anonymous_mb: float | None = None
    pss_by_role: Mapping[str, float] | None = None
    cpu_by_role: Mapping[str, float] | None = None


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


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a tree: what it is, PSS and anonymous PSS in MB, CPU seconds without ended children."""

    role: str
    pss_mb: float
    anonymous_mb: float
    cpu_s: float


def processes(root: int) -> dict[int, Process]:
    """The descendants of a process that can be looked at, by pid."""
    found = {}
    for pid in tree(root)[1:]:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in text.splitlines()[1:]}
        cpu = cpu_of(pid, with_ended_children=False)
        found[pid] = Process(_role(command), sizes.get("Pss", 0.0), sizes.get("Pss_Anon", 0.0), cpu)
    return found


def _role(command: list[bytes]) -> str:
    """`java`, the module that a Python process runs, or the program's name."""
    words = [word.decode(errors="replace") for word in command if word]
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    names = [Path(word).name for word in words[:2]]
    return names[-1] if names and names[0].startswith("python") else (names or ["?"])[0]


def by_role(found: Mapping[int, Process], figure: str) -> dict[str, float]:
    """One figure summed up per role."""
    total: dict[str, float] = {}
    for process in found.values():
        total[process.role] = round(total.get(process.role, 0.0) + getattr(process, figure), 2)
    return total


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


_started: set[Contained] = set()


def kill_all() -> None:
    """End every command that has been started and not been waited for."""
    for running in list(_started):
        running.kill()


class Contained:
    """A running command inside `contain.py`, which adopts and counts every process the command leaves behind."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        sample: bool = False,
        known: Sequence[int] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err, self._cost = folder / "stdout", folder / "stderr", folder / "cost.json"
        self._load, self._started = OtherLoad(known), time.monotonic()
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._child = subprocess.Popen(
                [sys.executable, str(CONTAIN), str(self._cost), *command],
                stdin=subprocess.PIPE, stdout=out, stderr=err, env={**os.environ, **(environ or {})},
            )  # fmt: skip
        _started.add(self)
        self._peak: dict[int, Process] = {}
        self._anonymous_mb = 0.0
        self._seen: dict[int, Process] = {}
        self._sampled = sample
        if sample:
            threading.Thread(target=self._sample, daemon=True).start()

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
        finally:
            self.kill()
        cost = json.loads(self._cost.read_text())
        wall = time.monotonic() - self._started
        spent = Spent(cost["code"], round(wall, 3), round(cost["cpu_s"], 3), self._load.cores(cost["cpu_s"]))
        if not self._sampled:
            return spent
        peak = by_role(self._peak, "pss_mb")
        return replace(
            spent,
            pss_mb=round(sum(peak.values()), 1),
            anonymous_mb=round(self._anonymous_mb, 1),
            pss_by_role=peak,
            cpu_by_role=by_role(self._seen, "cpu_s"),
        )

    def kill(self) -> None:
        """End the command and everything it has started, at once; nothing when all have ended."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()
        _started.discard(self)

    def words(self) -> str:
        """The end of what it wrote, for an error message."""
        return (self.out.read_text(errors="replace")[-1000:] + self.err.read_text(errors="replace")[-2000:]).strip()

    def _sample(self) -> None:
        highest = 0.0
        while self.running:
            now = processes(self.pid)
            self._seen |= now
            total = sum(process.pss_mb for process in now.values())
            self._anonymous_mb = max(self._anonymous_mb, sum(process.anonymous_mb for process in now.values()))
            if total > highest:
                highest, self._peak = total, now
            time.sleep(_SAMPLE_S)

"""Faults at named points of the protocol: a test arms one, the server meets it the next `times` times it comes by.

Points that both servers have; each server's package lists its own besides (`doris.points`, `starrocks.points`):

    fe.load        the front end got a load, before it redirects      fe.state      a question for a label's state
    be.load        the back end got a load, nothing happened yet      be.load.body  within its body, `after_bytes` (1)
    be.load.done   the load took effect, before the answer            sql           a statement (`like`: part of it)
    sql.done       the statement took effect, before the answer       publish       before rows become visible

Actions, the argument `action` (default `cut`):

    cut            end the connection without an answer; at `*.done` this is the lost answer
    status         answer HTTP `code` (503) with `body`, nothing else happens at this point
    slow           wait `seconds` (1), then go on
    hold           wait until `StandIn.release(point)`
    kill           SIGKILL this process here
    be_down        close the back end's port here and cut; it listens again after `StandIn.be_up()` or a restart
    refuse         answer that the load or call failed, with `message`; the server's package says how
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_standins.http_server import Cut, Response

ACTIONS = ("cut", "status", "slow", "hold", "kill", "be_down", "refuse")


class Answer(Exception):
    """Raised where a fault answers instead of the server: an HTTP handler returns `response`."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


@dataclass(slots=True)
class Fault:
    """One armed fault: `match` holds what must be equal in the place it is met (such as table, label)."""

    point: str
    times: int
    action: str = "cut"
    args: dict[str, Any] = field(default_factory=dict)
    match: dict[str, Any] = field(default_factory=dict)


class Faults:
    """The faults armed in one stand-in. `meet` is called by the servers at each point, from any thread."""

    def __init__(self, points: Mapping[str, str], extra_actions: tuple[str, ...] = ()) -> None:
        self.points = dict(points)
        self._actions = ACTIONS + extra_actions
        self._lock = threading.Condition()
        self._armed: list[Fault] = []
        self._released: dict[str, int] = {}
        self.met: dict[str, int] = {}
        self.on_be_down: Callable[[], None] = lambda: None

    def arm(self, point: str, times: int = 1, *, action: str = "cut", match: Any = None, **args: Any) -> None:
        """Arm a fault; ValueError for a point or action that does not exist. `times` -1 means always."""
        if point not in self.points:
            raise ValueError(f"no point {point!r}: there are {', '.join(sorted(self.points))}")
        if action not in self._actions:
            raise ValueError(f"no action {action!r}: there are {', '.join(self._actions)}")
        with self._lock:
            self._armed.append(Fault(point, times, action, args, dict(match or {})))

    def clear(self) -> None:
        """Disarm everything and let go what is held."""
        with self._lock:
            self._armed.clear()
            self._released = {point: self._released.get(point, 0) + 1 for point in self.points}
            self._lock.notify_all()

    def release(self, point: str) -> None:
        """Let go what a `hold` at this point holds, and disarm that."""
        with self._lock:
            self._armed = [fault for fault in self._armed if (fault.point, fault.action) != (point, "hold")]
            self._released[point] = self._released.get(point, 0) + 1
            self._lock.notify_all()

    def armed(self) -> list[dict[str, Any]]:
        """What is armed now, for the control port."""
        with self._lock:
            return [{"point": f.point, "times": f.times, "action": f.action, **f.args} for f in self._armed]

    def take(self, point: str, **where: Any) -> Fault | None:
        """The fault armed for this point and place, used up by one; None mostly.

        A kill is carried out here, under the lock: whom `clear` answered meets a server that goes on living.
        """
        if not self._armed:
            return None
        with self._lock:
            for fault in self._armed:
                if fault.point == point and self._fits(fault, where):
                    self.met[point] = self.met.get(point, 0) + 1
                    fault.times -= 1
                    if fault.times == 0:
                        self._armed.remove(fault)
                    if fault.action == "kill":
                        os.kill(os.getpid(), signal.SIGKILL)
                    return fault
        return None

    def meet(self, point: str, **where: Any) -> Fault | None:
        """Carry out the fault armed here: returns (None, or the fault when the action is the server's own or `refuse`).

        Raises `Cut` for cut and be_down, `Answer` for status.
        """
        fault = self.take(point, **where)
        if fault is None or self.carry_out(fault):
            return None
        return fault

    def carry_out(self, fault: Fault) -> bool:
        """What `meet` does with the fault it took; False leaves it to the caller."""
        action, args = fault.action, fault.args
        if action == "slow":
            time.sleep(float(args.get("seconds", 1)))
        elif action == "hold":
            self._hold(fault.point)
        elif action == "status":
            raise Answer(Response(int(args.get("code", 503)), str(args.get("body", "")).encode(), close=True))
        elif action in ("cut", "be_down"):
            if action == "be_down":
                self.on_be_down()
            raise Cut
        else:
            return False
        return True

    def _hold(self, point: str) -> None:
        with self._lock:
            before = self._released.get(point, 0)
            self._lock.wait_for(lambda: self._released.get(point, 0) != before)

    @staticmethod
    def _fits(fault: Fault, where: dict[str, Any]) -> bool:
        like = fault.args.get("like")
        if like is not None and str(like).lower() not in str(where.get("sql", "")).lower():
            return False
        if int(where.get("bytes", 0)) < int(fault.args.get("after_bytes", 0)):
            return False
        return all(where.get(name) == wanted for name, wanted in fault.match.items())

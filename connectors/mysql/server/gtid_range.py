"""Parts of a log identified by GTIDs: the same transactions on every server that has them, at whatever position."""

from __future__ import annotations

from bisect import bisect_right
from typing import TypeAlias

from connectors.mysql.gtid import GtidSet, MariaDbGtid

Gtids: TypeAlias = "GtidSet | MariaDbGtid"


def lacking(have: str, wanted: str, *, mariadb: bool) -> Gtids:
    """Return the transactions of `wanted` that a server with `have` lacks.

    MariaDB: also the last transaction of a domain if it has the same number but comes from another server.
    """
    if not mariadb:
        return GtidSet.parse(wanted).minus(GtidSet.parse(have))
    mine, theirs = MariaDbGtid.parse(have), MariaDbGtid.parse(wanted)
    forked = [entry for entry in theirs.domains if any(_same_number(entry, own) for own in mine.domains)]
    return mine.lacking(theirs).add_all(forked)


def _same_number(entry: tuple[int, int, int], own: tuple[int, int, int]) -> bool:
    return entry[0] == own[0] and entry[2] == own[2] and entry[1] != own[1]


class GtidRange:
    """The transactions of `upto` that are not in `after`, ticked off one by one as they arrive in a log.

    Not thread-safe. `source` and `number` are those of `event_bodies.Gtid`.
    """

    def __init__(self, after: str, upto: str, *, mariadb: bool) -> None:
        self._mariadb = mariadb
        if mariadb:
            begin = {str(domain): number for domain, _, number in MariaDbGtid.parse(after).domains}
            ends = {str(domain): number for domain, _, number in MariaDbGtid.parse(upto).domains}
            found = {domain: (begin.get(domain, 0) + 1, last) for domain, last in ends.items()}
            self._intervals = {domain: [run] for domain, run in found.items() if run[0] <= run[1]}
            self._left = len(self._intervals)
        else:
            wanted = GtidSet.parse(upto).minus(GtidSet.parse(after))
            self._intervals = {_name(*source): list(intervals) for source, intervals in wanted.sources}
            self._left = wanted.count()

    @property
    def complete(self) -> bool:
        """Whether every transaction has arrived."""
        return self._left == 0

    def has(self, source: str, number: int) -> bool:
        """Return whether a transaction belongs to the range."""
        intervals = self._intervals.get(self._key(source), [])
        index = bisect_right(intervals, (number, 1 << 63)) - 1
        return index >= 0 and intervals[index][0] <= number <= intervals[index][1]

    def tick_off(self, source: str, number: int) -> bool:
        """Tick off a GTID; returns whether it is of the range. MariaDB: a domain is complete with its last number."""
        found = self.has(source, number)
        if found and (not self._mariadb or number == self._intervals[self._key(source)][0][1]):
            self._left -= 1
        return found

    def _key(self, source: str) -> str:
        return source.partition("-")[0] if self._mariadb else source


def _name(uuid: str, tag: str) -> str:
    return f"{uuid}:{tag}" if tag else uuid

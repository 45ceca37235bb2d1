"""GTID sets: the transactions already seen.

MySQL's is a set of intervals per source, MariaDB's the last number per domain. Text formats: MySQL manual "GTID Format
and Storage" (tags since 8.3), MariaDB knowledge base "Global Transaction ID". All values are frozen; every operation
returns a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Interval: TypeAlias = tuple[int, int]
"""First and last number, both inclusive."""

_Source: TypeAlias = tuple[str, str]  # (uuid, tag); the tag is empty when there is none

_UUID = re.compile(r"\{?([0-9a-fA-F]{8})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{12})\}?")
_TAG = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,31}")
_RANGE = re.compile(r"(\d{1,19})(?:\s*-\s*(\d{1,19}))?")
_LAST_NUMBER = 2**63 - 2


@dataclass(frozen=True, slots=True)
class GtidSet:
    """A MySQL GTID set. `str()` gives the server's own spelling on one line; make one with `parse` or `add`.

    Attributes:
        sources: intervals by (uuid, tag), sources sorted, intervals sorted and never touching; equal sets are equal.
    """

    sources: tuple[tuple[_Source, tuple[Interval, ...]], ...] = ()

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read `uuid:1-5:7:tag:1-3,uuid:...` as the server writes or accepts it.

        Raises ValueError with the invalid part.
        """
        found: dict[_Source, list[Interval]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            for source, interval in _parse_source(part):
                found.setdefault(source, []).append(interval)
        return cls._of({source: _merge_intervals(intervals) for source, intervals in found.items()})

    def __str__(self) -> str:
        parts: list[str] = []
        last_uuid = ""
        for (uuid, tag), intervals in self.sources:
            numbers = ":".join(str(first) if first == last else f"{first}-{last}" for first, last in intervals)
            body = f"{tag}:{numbers}" if tag else numbers
            if uuid == last_uuid:
                parts[-1] += f":{body}"
            else:
                parts.append(f"{uuid}:{body}")
            last_uuid = uuid
        return ",".join(parts)

    def __bool__(self) -> bool:
        return bool(self.sources)

    def add(self, sid: str, first: int, last: int) -> GtidSet:
        """Return this set with the transactions `first` to `last` of `uuid` or `uuid:tag` added."""
        return self.add_all([(sid, first, last)])

    def add_all(self, runs: Iterable[tuple[str, int, int]]) -> GtidSet:
        """Return this set with all (sid, first, last) runs added, in one pass."""
        found = {source: list(intervals) for source, intervals in self.sources}
        for sid, first, last in runs:
            found.setdefault(_source(sid), []).append(_interval(first, last, sid))
        return self._of({source: _merge_intervals(intervals) for source, intervals in found.items()})

    def contains(self, other: GtidSet) -> bool:
        """Return True when every transaction of `other` is in this set (the server's `GTID_SUBSET(other, self)`)."""
        return not other.minus(self)

    def union(self, other: GtidSet) -> GtidSet:
        """Return the transactions of either set."""
        found = {source: list(intervals) for source, intervals in self.sources}
        for source, intervals in other.sources:
            found.setdefault(source, []).extend(intervals)
        return self._of({source: _merge_intervals(intervals) for source, intervals in found.items()})

    def minus(self, other: GtidSet) -> GtidSet:
        """Return the transactions of this set that `other` lacks (the server's `GTID_SUBTRACT(self, other)`)."""
        taken = dict(other.sources)
        return self._of({source: _without(keep, taken.get(source, ())) for source, keep in self.sources})

    def newer_than(self, other: GtidSet) -> GtidSet:
        """Return the transactions of this set that are newer than those of `other`.

        Of each source known to `other` these are the numbers above its highest; of other sources none.
        """
        last = {source: intervals[-1][1] for source, intervals in other.sources}
        return self._of(
            {source: _without(keep, ((0, last[source]),)) for source, keep in self.sources if source in last}
        )

    def of_source(self, uuid: str) -> GtidSet:
        """Return only the transactions that originate from the server with this uuid, whatever their tag."""
        wanted = _source(uuid)[0]
        return GtidSet(tuple(entry for entry in self.sources if entry[0][0] == wanted))

    def count(self) -> int:
        """Number of transactions."""
        return sum(last - first + 1 for _, intervals in self.sources for first, last in intervals)

    @classmethod
    def _of(cls, found: Mapping[_Source, tuple[Interval, ...]]) -> GtidSet:
        return cls(tuple((source, found[source]) for source in sorted(found) if found[source]))


@dataclass(frozen=True, slots=True)
class MariaDbGtid:
    """A MariaDB GTID position: the last transaction seen of each replication domain.

    Attributes:
        domains: (domain, server id, sequence number) sorted by domain, one per domain.
    """

    domains: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> MariaDbGtid:
        """Read `0-1-100,1-2-7`; the last entry of a domain counts. Raises ValueError with the invalid part."""
        position = cls()
        for part in filter(None, (part.strip() for part in text.split(","))):
            match = re.fullmatch(r"(\d+)-(\d+)-(\d+)", part)
            if match is None:
                raise ValueError(f"{part!r} is not a MariaDB GTID (domain-server-sequence, such as 0-1-100)")
            position = position.add(int(match[1]), int(match[2]), int(match[3]))
        return position

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, server, number in self.domains)

    def __bool__(self) -> bool:
        return bool(self.domains)

    def add(self, domain: int, server: int, number: int) -> MariaDbGtid:
        """Return this position with the transaction as the last one of its domain."""
        return self.add_all([(domain, server, number)])

    def add_all(self, gtids: Iterable[tuple[int, int, int]]) -> MariaDbGtid:
        """Return this position with each (domain, server, sequence) in turn as the last of its domain."""
        found = {entry[0]: entry for entry in self.domains}
        found.update((entry[0], entry) for entry in gtids)
        return MariaDbGtid(tuple(found[domain] for domain in sorted(found)))

    def lacking(self, other: MariaDbGtid) -> MariaDbGtid:
        """Return the entries of `other` that this position has not reached: a higher number, or a domain it lacks."""
        mine = {domain: number for domain, _, number in self.domains}
        return MariaDbGtid(tuple(entry for entry in other.domains if mine.get(entry[0], 0) < entry[2]))

    def contains(self, other: MariaDbGtid) -> bool:
        """Return True when this position has reached every domain of `other`."""
        return not self.lacking(other)


def _parse_source(part: str) -> Iterator[tuple[_Source, Interval]]:
    uuid_text, *rest = (piece.strip() for piece in part.split(":"))
    uuid, tag = _uuid(uuid_text), ""
    if not rest:
        raise ValueError(f"{part!r} lists no transaction numbers (uuid:1-5)")
    for piece in rest:
        numbers = _RANGE.fullmatch(piece)
        if numbers:
            yield (uuid, tag), _interval(int(numbers[1]), int(numbers[2] or numbers[1]), part)
        elif _TAG.fullmatch(piece):
            tag = piece.lower()
        else:
            raise ValueError(f"{piece!r} in {part!r} is neither a tag nor a range of transaction numbers")


def _source(sid: str) -> _Source:
    uuid, _, tag = sid.partition(":")
    if tag and not _TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} in {sid!r} is not a GTID tag")
    return _uuid(uuid), tag.lower()


def _uuid(text: str) -> str:
    match = _UUID.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a server uuid")
    return "-".join(match.groups()).lower()


def _interval(first: int, last: int, part: str) -> Interval:
    if not 1 <= first <= last <= _LAST_NUMBER:
        raise ValueError(f"{first}-{last} in {part!r} is not a range of transaction numbers")
    return first, last


def _merge_intervals(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    out: list[Interval] = []
    for first, last in sorted(intervals):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)


def _without(keep: tuple[Interval, ...], taken: tuple[Interval, ...]) -> tuple[Interval, ...]:
    out: list[Interval] = []
    at = 0
    for first, last in keep:
        while at < len(taken) and taken[at][1] < first:
            at += 1
        start = first
        for low, high in taken[at:]:
            if low > last:
                break
            if low > start:
                out.append((start, low - 1))
            start = high + 1
        if start <= last:
            out.append((start, last))
    return tuple(out)

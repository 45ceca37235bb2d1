"""The settings of earlier runs, so that an edit of the pipeline file is noticed before anything is decided.

    <state>/fingerprint.json   {"sink": {"type": "duckdb", "at": ["/data/shop.duckdb"]},
                                "patterns": ["source.tables: shop.orders", ...],
                                "source": {"treat-tinyint1-as-boolean.enabled": "false"}}

`at` is the location of the sink's data, from its options; sinks with topics also have `naming` and `kept`. Written at
the start of each run that passes the checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.errors import StateError
from cdc.state.store import RESTORE, Store

FILE = "fingerprint.json"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The settings that must not change unnoticed.

    Attributes:
        sink: the type of the sink.
        locations: the location of its data; one entry per server of a cluster. Empty if the options do not have it.
        patterns: names of the table patterns of the file.
        naming, fixed: from the sink's options (`cdc.options.SinkOptions`); None if unknown.
        source: the source's `fixed` options, and those of the start.
    """

    sink: str
    locations: tuple[str, ...]
    naming: Mapping[str, str] | None = None
    fixed: Mapping[str, str] | None = None
    patterns: tuple[str, ...] = ()
    source: Mapping[str, str] = field(default_factory=dict)

    def same_location(self, other: Fingerprint) -> bool:
        """Whether both have the same location: for clusters, at least one server in common."""
        return not self.locations or not other.locations or bool({*self.locations} & {*other.locations})


class Fingerprints:
    """The fingerprint in the state directory. Driver, while it holds the lock."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> Fingerprint | None:
        """The fingerprint of the last run; None before the first. Raises StateError."""
        fields = self._store.read_json(FILE)
        if fields is None:
            return None
        try:
            sink = fields["sink"]
            patterns, source = tuple(fields["patterns"]), fields.get("source", {})
            return Fingerprint(sink["type"], tuple(sink["at"]), sink["naming"], sink["kept"], patterns, source)
        except (KeyError, TypeError) as error:
            raise StateError(f"cannot be read: {error!r}", where=self._store.where(FILE), hint=RESTORE) from error

    def write(self, now: Fingerprint) -> None:
        """Store the fingerprint for later runs. Raises StateError."""
        sink = {"type": now.sink, "at": list(now.locations), "naming": now.naming, "kept": now.fixed}
        source = {"source": dict(now.source)} if now.source else {}
        self._store.write_json(FILE, {"sink": sink, "patterns": list(now.patterns), **source}, indent=1)

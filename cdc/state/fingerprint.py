"""The instructions of the runs before, so that an edit of the pipeline file is noticed before anything is decided.

    <state>/fingerprint.json   {"sink": {"type": "duckdb", "at": ["/data/shop.duckdb"]},
                                "patterns": ["source.tables: shop.orders", ...],
                                "source": {"treat-tinyint1-as-boolean.enabled": "false"}}

`at` is where the sink's data is, as its options say; those of sinks with topics say `naming` and `kept` too. Written at
the start of each run that is allowed to go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.errors import StateError
from cdc.state.store import RESTORE, Store

FILE = "fingerprint.json"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The settings that must not change unnoticed: where rows go.

    Attributes:
        sink: the connector's name.
        at: where its data is; servers of one cluster are one each. Empty where the options do not tell.
        patterns: names of the table patterns of the file.
        naming, fixed: what else the sink's options say (`cdc.options.SinkOptions`); None where nobody knows.
        source: what the source's options say of `fixed`, and of the start.
    """

    sink: str
    at: tuple[str, ...]
    naming: Mapping[str, str] | None = None
    fixed: Mapping[str, str] | None = None
    patterns: tuple[str, ...] = ()
    source: Mapping[str, str] = field(default_factory=dict)

    def same_location(self, other: Fingerprint) -> bool:
        """Whether both say the same place: a cluster is the same as long as one of its servers is."""
        return not self.at or not other.at or bool({*self.at} & {*other.at})


class Fingerprints:
    """The one of the runs before, in the state directory. Driver, while it holds the lock."""

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
        """Keep it for the runs that follow. Raises StateError."""
        sink = {"type": now.sink, "at": list(now.at), "naming": now.naming, "kept": now.fixed}
        source = {"source": dict(now.source)} if now.source else {}
        self._store.write_json(FILE, {"sink": sink, "patterns": list(now.patterns), **source}, indent=1)

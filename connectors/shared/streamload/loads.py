"""Loads: rows of one schema on their way into one table."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.shared.conversion.target import TargetTable
from connectors.shared.streamload.dialect import StreamLoadDialect
from connectors.shared.streamload.flush import RowRules


@dataclass(frozen=True, slots=True)
class Loads:
    """The table as it is, the server's load format, and how rows are checked."""

    target: TargetTable
    dialect: StreamLoadDialect
    rules: RowRules

"""The library's REST catalog with time limits. Loaded by the library, by the name of the class."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

TIMEOUTS_S = (10.0, 120.0)
"""For a connection, and for the next bytes of an answer."""


class RestTables(RestCatalog):  # type: ignore[misc]
    """Gives up on a silent server, as behind a connection that was cut without a word; the library waits forever."""

    def _create_session(self) -> Any:
        session = super()._create_session()
        session.request = partial(session.request, timeout=TIMEOUTS_S)
        return session

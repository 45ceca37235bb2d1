"""The library's REST catalog with time limits. Loaded by the library, by the name of the class."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

TIMEOUTS_S = (10.0, 120.0)
"""For a connection, and for the next bytes of an answer."""


class RestTables(RestCatalog):  # type: ignore[misc]
    """Gives up on a silent server, as behind a connection that was cut without a word; the library waits forever."""

    def _config_headers(self, session: Any) -> None:
        """Limit the requests of a new session: the first, for a token, is sent before it is handed out."""
        session.request = partial(session.request, timeout=TIMEOUTS_S)
        super()._config_headers(session)

"""Connections that TLS fails: what certificates, versions and ports say is final, a connection that was cut is not."""

from __future__ import annotations

import ssl

_PASSING = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_DAMAGED = frozenset({"DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "SSLV3_ALERT_BAD_RECORD_MAC"})


def is_tls_refusal(error: object) -> bool:
    """Whether the next connection would fail as this one: it is of TLS, and neither cut nor damaged on its way."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, _PASSING) and error.reason not in _DAMAGED


def tls_reason(error: object) -> str:
    """The reason of a refusal, such as `certificate has expired`."""
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)

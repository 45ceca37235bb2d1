"""Errors of TLS connections: certificates, versions and ports are permanent errors, a broken connection is not."""

from __future__ import annotations

import ssl

_PASSING = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_OUT_OF_DATE = frozenset({9, 10})
"""OpenSSL's numbers for a certificate that is not valid yet, and for one that has expired."""
_DAMAGED = frozenset({"DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "SSLV3_ALERT_BAD_RECORD_MAC"})


def is_tls_refusal(error: object) -> bool:
    """Return whether the next connection would fail in the same way.

    This is a TLS error of a connection that was neither cut nor damaged.
    """
    return isinstance(error, ssl.SSLError) and not isinstance(error, _PASSING) and error.reason not in _DAMAGED


def tls_reason(error: object) -> str:
    """Return the reason of a refusal, such as `certificate has expired`."""
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)


def tls_hint(error: object, otherwise: str) -> str:
    """Return the next step after a refusal: for a certificate that is out of date its renewal, else `otherwise`."""
    if getattr(error, "verify_code", None) in _OUT_OF_DATE:
        return "renew the server's certificate; if it is valid, set the clock of this machine"
    return otherwise

"""Next steps that name an option of `cdc run`, in the words of a server, which keeps a folder for each pipeline."""

from __future__ import annotations

import re

from cdc.errors import CdcError

_ANEW = re.compile(r"\b((?:re)?start(?:ed|s)?(?: anew)? with )(?:another|an empty|a new) --state-dir\b")
_ELSEWHERE = re.compile(r"\b(?:another|a) --state-dir\b")
_LEFT = re.compile(r"--state-dir\b")


def for_a_server(error: CdcError) -> CdcError:
    """The same error; its hint names what `cdc serve` has in place of `--state-dir`."""
    text = _ANEW.sub(r"\1another pipeline.name (its state is in a folder of that name)", error.hint)
    text = _ELSEWHERE.sub("another --state-root of `cdc serve`", text)
    error.hint = _LEFT.sub("state directory", text)
    return error

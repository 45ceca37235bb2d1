"""All functions of rules by name. The page docs/functions.md is generated from here."""

from __future__ import annotations

from cdc.transform.catalogue import mask, nested, number, regex, text, time
from cdc.transform.catalogue.function import Function

FUNCTIONS: dict[str, Function] = {
    function.name: function for module in (text, regex, number, time, nested, mask) for function in module.FUNCTIONS
}

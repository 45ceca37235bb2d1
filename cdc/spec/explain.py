"""Turns JSON Schema violations into problems, with position and next step."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from cdc.errors import Problem
from cdc.spec import tree
from cdc.spec.tree import Listing, Node, Path, Scalar
from cdc.units import size_text

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MANY = 12
_GUESSES = 50
"""Maximum number of unknown keys per block for which a similar known key is searched: each takes a millisecond."""
_LONGEST_KEY = 100
_MEBIBYTE = 1 << 20
_NAMES = {"array": "a list", "object": "a mapping (`key: value`)", "string": "text", "boolean": "true or false"}


class Explainer:
    """Creates the problems of one file."""

    def __init__(self, file: str, root: Node) -> None:
        self.file, self.root = file, root
        put_in = {node.text: node.written for node in tree.scalars(root) if node.substituted and len(node.text) >= 3}
        self._put_in = sorted(put_in.items(), key=lambda item: -len(item[0]))

    def masked(self, text: str) -> str:
        """Replace substituted values in the text by their `${...}` in the pipeline file."""
        for value, written in self._put_in:
            text = text.replace(value, written)
        return text

    def problem(self, path: Path, message: str, hint: str = "", *, key: bool = False) -> Problem:
        """Return a problem at the value of `path`, for a block at its key; if missing, at the nearest parent."""
        mark = tree.mark_of(self.root, path, key=key or not isinstance(tree.find(self.root, path), Scalar))
        return Problem(self.file, mark.line, mark.column, tree.dotted(path), message, hint)

    def violation(self, error: ValidationError) -> Iterator[tuple[Path, Problem]]:
        """Yield the problems of one JSON Schema violation, each with its path."""
        path: Path = tuple(error.absolute_path)
        schema = error.schema if isinstance(error.schema, Mapping) else {}
        instance, expected = cast("Any", error.instance), cast("Any", error.validator_value)
        if error.validator == "required":
            for name in expected:
                if name not in instance:
                    missing = (*path, name)
                    yield missing, self.problem(missing, "is missing", _how_to_add(name, schema))
        elif error.validator == "additionalProperties":
            known = [key for key, node in schema.get("properties", {}).items() if not node.get("deprecated")]
            kind = self._kind(path)
            for number, name in enumerate(_unknown(instance, schema)):
                unknown = (*path, name)
                hint = _did_you_mean(unknown, known, kind) if number < _GUESSES else _known_keys(known, kind)
                yield unknown, self.problem(unknown, "unknown key", hint, key=True)
        else:
            yield path, self._wrong_value(path, error, schema)

    def _wrong_value(self, path: Path, error: ValidationError, schema: Mapping[str, Any]) -> Problem:
        node = tree.find(self.root, path)
        rule = str(schema.get("errorMessage") or _generic_rule(error))
        return self.problem(
            path, f"{rule}{self.got(node, secret=bool(schema.get('writeOnly')))}", _shape_hint(node, error, schema)
        )

    def got(self, node: Node | None, *, secret: bool = False) -> str:
        """Return `, got ...` for a message, with the text as written in the file, never a substituted value."""
        if node is None or (secret and isinstance(node, Scalar) and node.value is not None):
            return ""
        if isinstance(node, Scalar):
            shown = node.written if len(node.written) <= 60 else node.written[:57] + "..."
            return ", got nothing" if node.value is None and not node.substituted else f", got {shown!r}"
        return ", got a list" if isinstance(node, Listing) else ", got a mapping"

    def _kind(self, path: Path) -> str:
        kind = tree.find(self.root, (*path, "type"))
        return f"{path[0]}/{kind.written}" if isinstance(kind, Scalar) and len(path) == 1 else ""


def violated_rule(detail: Mapping[str, Any]) -> str:
    """Describe the rule that one of pydantic's errors violates."""
    kind, context = str(detail["type"]), detail.get("ctx", {})
    if kind in _BOUNDS:
        name, template = _BOUNDS[kind]
        bound = context[name]
        size = isinstance(bound, int) and bound % _MEBIBYTE == 0 and bound
        return f"must be {template} {size_text(bound) if size else bound}"
    if kind in ("literal_error", "enum"):
        return f"must be one of {context['expected']}".replace("'", "").replace(" or ", ", ")
    if kind in ("string_too_short", "too_short"):
        return "must not be empty"
    return next((rule for start, rule in _RULES.items() if kind.startswith(start)), "is not valid here")


_BOUNDS = {
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
}
_RULES = {
    "int_": "must be a whole number",
    "float_": "must be a number",
    "finite_number": "must be a number",
    "bool_": "must be true or false",
    "string_pattern": "is not valid here",
    "string_": "must be text",
    "dict_": "must be a mapping (`key: value`)",
    "list_": "must be a list",
    "tuple_": "must be a list",
}
"""Our message by prefix of pydantic's error type."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, None when none is similar."""
    lowered = {other.lower().replace("_", "-"): other for other in known}
    close = difflib.get_close_matches(name.lower().replace("_", "-"), list(lowered), n=1, cutoff=0.65)
    return lowered[close[0]] if close else None


def connector_hint(role: str, written: str, names: Sequence[str]) -> str:
    """Return the hint for an unknown `type` of connector."""
    there_is = f"there is: {', '.join(names)}"
    meant = _CALLED_HERE.get(written.lower()) or nearest(written, names)
    if meant in names:
        return f"did you mean `{meant}`? {there_is}"
    return f"{there_is}; {_ELSEWHERE[role]}" if written.lower() in _FLINK_CDC else there_is


_FLINK_CDC = {
    *("db2", "mongodb", "oceanbase", "oracle", "polardbx", "postgres", "sqlserver", "tidb", "vitess"),
    *("dws", "fluss", "hudi", "maxcompute"),
}
"""Connectors of Flink CDC that do not exist here."""
_CALLED_HERE = {"jdbc": "mysql", "print": "values", "upsert-kafka": "kafka"}
_ELSEWHERE = {
    "source": "`kafka` reads the topics that Debezium writes for other databases",
    "sink": "`kafka` writes topics that other systems read",
}


def _unknown(instance: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    patterns = [re.compile(pattern) for pattern in schema.get("patternProperties", {})]
    known = schema.get("properties", {})
    return [name for name in instance if name not in known and not any(p.search(name) for p in patterns)]


def _did_you_mean(unknown: Path, known: list[str], kind: str) -> str:
    name = str(unknown[-1])
    meant = nearest(name, known) if len(name) <= _LONGEST_KEY else None
    meant = meant or next((key for key in known if key.endswith(f".{name}")), None)
    if meant == tree.dotted(unknown):
        return f"write the whole name as one key: `{meant}`"
    if meant is not None:
        return f"did you mean `{meant}`?"
    inner = next((key for key in known if key.startswith(f"{name}.")), None)
    return f"write the whole name as one key, such as `{inner}`" if inner is not None else _known_keys(known, kind)


def _known_keys(known: list[str], kind: str) -> str:
    if len(known) <= _MANY:
        return f"known keys: {', '.join(sorted(known))}"
    return f"`cdc schema --connector {kind}` lists the known keys" if kind else "`cdc schema` lists the known keys"


def _how_to_add(name: str, schema: Mapping[str, Any]) -> str:
    described = str(schema.get("properties", {}).get(name, {}).get("description", ""))
    sentence = re.split(r"[:;.] |\.$", described)[0]
    return f"add `{name}:` - {sentence[:1].lower()}{sentence[1:]}" if sentence else f"add `{name}:`"


def _generic_rule(error: ValidationError) -> str:
    expected = cast("Any", error.validator_value)
    if error.validator == "type":
        kinds: Sequence[str] = [expected] if isinstance(expected, str) else expected
        return "must be " + " or ".join(_NAMES.get(kind, f"a {kind}") for kind in kinds)
    if error.validator == "enum":
        return f"must be one of {', '.join(map(str, expected))}"
    return "is not valid here"


def _shape_hint(node: Node | None, error: ValidationError, schema: Mapping[str, Any]) -> str:
    expected = error.validator_value if error.validator == "type" else None
    if expected == "array" and isinstance(node, tree.Mapping):
        first = next(iter(node.items), "key")
        return f"a dash is missing: write `- {first}: ...`"
    if expected == "object" and isinstance(node, Listing):
        return "remove the dash: there is only one"
    rule = str(schema.get("errorMessage", ""))
    if rule.startswith("must be text") and isinstance(node, Listing) and not schema.get("writeOnly"):
        parts = [each.written for each in node.items if isinstance(each, Scalar)]
        if parts and sum(map(len, parts)) <= _LONGEST_KEY:
            return f"write one text: {', '.join(parts)}"
    return ""

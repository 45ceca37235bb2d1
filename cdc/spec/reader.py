"""Strict YAML reader: parses text to a tree with lines and columns, and returns problems as values.

Differs from plain PyYAML: scalars follow YAML 1.2's core schema (only `true` and `false` are booleans; `on`, `yes` and
`010` are text), duplicate keys, tags, merge keys and a second document are problems, and `${NAME}` and `${file:path}`
in values are replaced (`$${` means a literal `${`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Mapping as EnvMapping
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.error import MarkedYAMLError
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from cdc.errors import Problem
from cdc.spec.substitute import SubstitutionError, substitute
from cdc.spec.tree import Listing, Mapping, Mark, Node, Scalar

MOST_WRITTEN = 100_000
MOST_NODES = 200_000
_TOO_MANY = f"more than {MOST_WRITTEN} values"
DEEPEST = 50
_TOO_DEEP = ("nested too deeply", "a pipeline needs five levels or so")
_TURNS_TEXT = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map", "!"})
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's parser without YAML 1.1 type resolution."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._composed = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose as PyYAML does; stop early for a file that would take minutes."""
        self._composed += 1
        if self._composed > MOST_WRITTEN:
            raise MarkedYAMLError(problem=_TOO_MANY, problem_mark=self.get_mark())
        return super().compose_node(parent, index)


def read(
    file: str, data: bytes, *, env: EnvMapping[str, str] | None, read_file: Callable[[str], str]
) -> tuple[Node | None, list[Problem]]:
    """Read one pipeline file.

    Args:
        file: its name, for messages.
        data: its bytes, UTF-8.
        env: values of `${NAME}`; None leaves every text as written.
        read_file: returns the text of `${file:path}`; raises OSError or UnicodeDecodeError.

    Returns the tree (None when the text is not YAML) and every problem found, in file order.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        mark = Mark(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        return None, [_problem(file, mark, "not UTF-8 text", "save the file as UTF-8")]
    turned = _TURNS_TEXT.search(text)
    if turned:
        message = f"a character that changes the direction of text (U+{ord(turned[0]):04X})"
        return None, [_problem(file, _mark_at(text, turned.start()), message, "remove it: it hides what is written")]
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        return None, [_syntax_problem(file, text, error)]
    except RecursionError:
        mark = Mark(1, 1) if loader is None else _mark(loader.get_mark())
        return None, [_problem(file, mark, *_TOO_DEEP)]
    if node is None:
        return None, [_problem(file, Mark(1, 1), "the file is empty", "start with `source:` and `sink:`")]
    builder = _TreeBuilder(file, text, env, read_file)
    tree = builder.build(node)
    return tree, sorted(builder.problems, key=lambda problem: (problem.line, problem.column))


class _TreeBuilder:
    """Converts PyYAML's nodes to ours and collects problems."""

    def __init__(self, file: str, text: str, env: EnvMapping[str, str] | None, read_file: Callable[[str], str]) -> None:
        self.file, self.text, self.env, self.read_file = file, text, env, read_file
        self.problems: list[Problem] = []
        self.done: dict[int, tuple[Node, int]] = {}
        self.depths: dict[int, int] = {}
        self.open: set[int] = set()

    def build(self, node: yaml.Node) -> Node:
        return self._sized(node)[0]

    def _sized(self, node: yaml.Node) -> tuple[Node, int]:
        """Return the node and the number of its nodes after expanding aliases; an alias is built once."""
        if id(node) not in self.done:
            self.open.add(id(node))
            self.done[id(node)] = self._build(node)
            self.open.discard(id(node))
        return self.done[id(node)]

    def _build(self, node: yaml.Node) -> tuple[Node, int]:
        mark = _mark(node.start_mark)
        if node.tag not in _PLAIN_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._report(mark, f"the tag {tag} is not supported", "write the value without it")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, mark), 1
        children = list(node.value) if isinstance(node, yaml.SequenceNode) else [value for _, value in node.value]
        if any(id(child) in self.open for child in children):
            self._report(mark, "an alias (*) that holds itself", "write the value out")
            return Scalar(mark, "", None, broken=True), 1
        built = [self._sized(child) for child in children]
        size = 1 + sum(count for _, count in built)
        self.depths[id(node)] = 1 + max((self.depths.get(id(child), 0) for child in children), default=0)
        if self.depths[id(node)] > DEEPEST:
            self.depths[id(node)] = 0
            if _TOO_DEEP[0] not in {problem.message for problem in self.problems}:
                self._report(mark, *_TOO_DEEP)
            return Scalar(mark, "", None, broken=True), 1
        if size > MOST_NODES:
            self._report(mark, f"more than {MOST_NODES} values once aliases are expanded", "put data into files")
            return Scalar(mark, "", None, broken=True), 1
        nodes = [child for child, _ in built]
        if isinstance(node, yaml.SequenceNode):
            return Listing(mark, tuple(nodes)), size
        return self._mapping(node, mark, nodes), size

    def _mapping(self, node: yaml.Node, mark: Mark, nodes: Sequence[Node]) -> Mapping:
        items: dict[str, Node] = {}
        keys: dict[str, Mark] = {}
        for (key, _), child in zip(node.value, nodes, strict=True):
            at = _mark(key.start_mark)
            if not isinstance(key, yaml.ScalarNode) or _paired(key.value) is None:
                self._report(at, "a key must be text", "quote the key")
            elif key.value == "<<" and key.style is None:
                self._report(at, "merge keys (<<) are not supported", "an alias can stand for a whole value")
            elif key.value in items:
                self._report(at, f"the key `{key.value}` is a duplicate", f"first in line {keys[key.value].line}")
            else:
                items[key.value], keys[key.value] = child, at
        return Mapping(mark, items, keys)

    def _scalar(self, node: yaml.ScalarNode, mark: Mark) -> Scalar:
        written = _paired(node.value)
        if written is None:
            self._report(mark, "half of a surrogate pair", "write the character itself, or both halves: \\ud83d\\ude00")
            return Scalar(mark, "", None, broken=True)
        if self.env is None or "${" not in written:
            tagged = self.text.startswith("!", node.start_mark.index)  # `!!str 5` leaves no other trace
            value = written if tagged or node.style is not None else typed(written)
            return Scalar(mark, written, value, written)
        try:
            text = substitute(written, env=self.env, read_file=self.read_file)
        except SubstitutionError as error:
            self._report(mark, str(error), error.hint)
            return Scalar(mark, "", None, written, broken=True)
        return Scalar(mark, text, text, written)

    def _report(self, mark: Mark, message: str, hint: str) -> None:
        self.problems.append(_problem(self.file, mark, message, hint))


def typed(text: str) -> bool | int | float | str | None:
    """Resolve a plain scalar by YAML 1.2's core schema; octal, hex, infinity and leading zeros stay text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text) if len(text) <= 40 else text
    return float(text) if _FLOAT.fullmatch(text) else text


def _paired(text: str) -> str | None:
    """Combine surrogate pairs, which JSON uses for some characters; None for a lone surrogate."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return None


def _mark(of: Any) -> Mark:
    return Mark(of.line + 1, of.column + 1)


def _mark_at(text: str, index: int) -> Mark:
    return Mark(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _problem(file: str, mark: Mark, message: str, hint: str = "") -> Problem:
    return Problem(file, mark.line, mark.column, "", message, hint)


def _line(text: str, number: int) -> str:
    return text.splitlines()[number] if number < text.count("\n") + 1 else ""


# Prefix of PyYAML's message, our message, and the next step.
_SAYINGS: tuple[tuple[str, str, str], ...] = (
    ("found character '\\t'", "a tab cannot indent YAML", "use spaces"),
    ("but found another document", "a second document starts here", "one pipeline in one file"),
    ("mapping values are not allowed here", "a `: ` where no key can stand", "quote a value that holds `: `"),
    ("could not find expected ':'", "a key without `: `", "write `key: value`, with a space"),
    ("found undefined alias", "an alias (*) without its anchor (&)", "quote a value that starts with *"),
    ("expected alphabetic or numeric", "an alias (*) or anchor (&) without a name", "quote a value that starts so"),
    ("found character '@'", "a value cannot start with @", "quote it"),
    ("found character '`'", "a value cannot start with a backquote", "quote it"),
    ("found character '%'", "a value cannot start with %", "quote it"),
    ("expected <block end>", "this line's indentation fits no block above it", "align it with its neighbours"),
    (_TOO_MANY, _TOO_MANY, "put data into files"),
    ("found unexpected end of stream", "the file ends inside a quoted text", "close the quote"),
)


_LATE = ("could not find expected ':'", "found unexpected end of stream")
"""Errors detected far after the mistake: the position to show is the start of the key or the quoted text."""


_KEY_ALONE = re.compile(r"\s+[\w.-]+")


def _syntax_problem(file: str, text: str, error: yaml.YAMLError) -> Problem:
    if isinstance(error, ReaderError):
        return _problem(
            file, _mark_at(text, error.position), "a control character that YAML does not allow", "remove it"
        )
    reason = str(getattr(error, "problem", None) or "not YAML")
    first, second = ("context_mark", "problem_mark") if reason.startswith(_LATE) else ("problem_mark", "context_mark")
    at = getattr(error, first, None) or getattr(error, second, None)
    mark = _mark(at) if at is not None else Mark(1, 1)
    if reason.startswith("found character '\\t'") and at is not None and _line(text, at.line)[: at.column].strip():
        return _problem(file, mark, "a tab that is not in quotes", "write a space, or quote the value")
    if (
        reason.startswith("mapping values")
        and at is not None
        and _KEY_ALONE.fullmatch(_line(text, at.line)[: at.column])
    ):
        return _problem(
            file, mark, "a key that is indented as if it were part of the value above", "align it with its neighbours"
        )
    if reason.endswith("but got '{'") and at is not None and _line(text, at.line)[: at.column].endswith("$"):
        return _problem(file, mark, "a ${...} that is not in quotes, between braces", 'write "${...}"')
    for start, message, hint in _SAYINGS:
        if reason.startswith(start):
            return _problem(file, mark, message, hint)
    return _problem(file, mark, f"not YAML: {reason}", "check the syntax near here")

"""The text of a pipeline file as it may be shown: secrets are replaced, everything else is as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

LONGEST = 200_000
MASK = "********"
_SECRET = re.compile(
    r"passw|secret|token|api-?key|hash-key|webhook|credential|access[-.]key|private[-.]key|jaas|pem\b|auth|catalog\.properties\.uri",
    re.I,
)
"""Of keys. Too many are better than too few: every secret option of ours matches, see the tests."""
_SAFE = re.compile(r"\s*\$\{[^}]*\}\s*")
_LOGIN = re.compile(r"(?<=://)[^/\s@'\"]+:[^/\s@'\"]+(?=@)")
_IN_COMMENT = re.compile(r"(?i)\b(\S*(?:passw|secret|token|key)\S*\s*[:=]\s*)(?!\$\{)\S+")


def file_text(path: Path) -> str:
    """The file, with secrets masked; a sentence where it cannot be shown. Never raises for what is in it."""
    try:
        text = path.read_bytes()[:LONGEST].decode("utf-8", "replace")
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return masked(text)


def masked(text: str) -> str:
    """A pipeline file's text without its secrets; a sentence instead where it is no YAML, and they cannot be told."""
    try:
        spans = sorted(set(_secrets(yaml.compose(text, yaml.SafeLoader), secret=False)), reverse=True)
    except (yaml.YAMLError, RecursionError, ValueError):
        return "The file is no YAML, so its secrets cannot be told from the rest: it is not shown."
    for begin, end in spans:
        text = text[:begin] + MASK + "\n" * text[begin:end].endswith("\n") + text[end:]
    return "\n".join(_line(line) for line in _LOGIN.sub(MASK, text).split("\n"))


def _line(line: str) -> str:
    """Comments may hold what was taken out of use."""
    code, mark, comment = line.partition("#")
    hidden = _IN_COMMENT.sub(rf"\g<1>{MASK}", comment)
    return f"{code}{mark}{hidden}"


def _secrets(node: yaml.Node | None, *, secret: bool) -> Iterator[tuple[int, int]]:
    """Where the scalars are that belong to a secret key."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            hidden = secret or (isinstance(key, yaml.ScalarNode) and _SECRET.search(str(key.value)) is not None)
            yield from _secrets(value, secret=hidden)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _secrets(each, secret=secret)
    elif isinstance(node, yaml.ScalarNode) and secret and node.value and not _SAFE.fullmatch(node.value):
        yield node.start_mark.index, node.end_mark.index

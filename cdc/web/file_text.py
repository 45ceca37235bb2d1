"""Shows the text of a pipeline file with secrets masked."""

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
"""Pattern of secret keys. Too many matches are better than too few: tests check that every secret option matches."""
_SAFE = re.compile(r"\s*\$\{[^}]*\}\s*")
_LOGIN = re.compile(r"(?<=://)[^/\s@'\"]+:[^/\s@'\"]+(?=@)")
_IN_COMMENT = re.compile(r"(?i)\b(\S*(?:passw|secret|token|key)\S*\s*[:=]\s*)(?!\$\{)\S+")


def file_text(path: Path) -> str:
    """Return the file with secrets masked, or a sentence why it cannot be shown. Never raises for its content."""
    try:
        text = path.read_bytes()[:LONGEST].decode("utf-8", "replace")
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return masked(text)


def masked(text: str) -> str:
    """Mask the secrets in a file's text; a sentence replaces text that is not YAML, where they cannot be found."""
    try:
        spans = sorted(set(_secrets(yaml.compose(text, yaml.SafeLoader), secret=False)), reverse=True)
    except (yaml.YAMLError, RecursionError, ValueError):
        return "The file is not valid YAML, so its secrets cannot be identified: it is not shown."
    for begin, end in spans:
        text = text[:begin] + MASK + "\n" * text[begin:end].endswith("\n") + text[end:]
    return "\n".join(_line(line) for line in _LOGIN.sub(MASK, text).split("\n"))


def _line(line: str) -> str:
    """Mask secrets in comments, such as disabled options."""
    code, mark, comment = line.partition("#")
    hidden = _IN_COMMENT.sub(rf"\g<1>{MASK}", comment)
    return f"{code}{mark}{hidden}"


def _secrets(node: yaml.Node | None, *, secret: bool) -> Iterator[tuple[int, int]]:
    """Yield the positions of scalars that belong to a secret key."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            hidden = secret or (isinstance(key, yaml.ScalarNode) and _SECRET.search(str(key.value)) is not None)
            yield from _secrets(value, secret=hidden)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _secrets(each, secret=secret)
    elif isinstance(node, yaml.ScalarNode) and secret and node.value and not _SAFE.fullmatch(node.value):
        yield node.start_mark.index, node.end_mark.index

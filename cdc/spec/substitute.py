"""`${NAME}` and `${file:path}` in values: secrets stay out of the pipeline file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_TOKEN = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class SubstitutionError(ValueError):
    """A failed substitution. Names what is missing, never a value."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def substitute(text: str, *, env: Mapping[str, str], read_file: Callable[[str], str]) -> str:
    """Replace every `${...}` in the text; substituted text is not expanded again. Raises SubstitutionError.

    One line end at the end of a file is removed.
    """

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if not match[2]:
            raise SubstitutionError("`${` without `}`", "write $${ for a plain ${")
        name = match[1].strip()
        return _file(name[5:].strip(), read_file) if name.startswith("file:") else _variable(name, env)

    return _TOKEN.sub(replace, text)


def variables(text: str) -> Iterator[str]:
    """Yield the environment variables used in a text."""
    for match in _TOKEN.finditer(text):
        name = (match[1] or "").strip()
        if _NAME.fullmatch(name):
            yield name


def files(text: str) -> Iterator[str]:
    """Yield the paths of the files used in a text."""
    for match in _TOKEN.finditer(text):
        name = (match[1] or "").strip()
        if name.startswith("file:"):
            yield name[5:].strip()


def _variable(name: str, env: Mapping[str, str]) -> str:
    if not _NAME.fullmatch(name):
        raise SubstitutionError(
            f"`${{{name}}}` names no variable", "write ${NAME}, ${file:path}, or $${ for a plain ${"
        )
    if name not in env:
        raise SubstitutionError(f"environment variable {name} is not set", f"export {name}, or use ${{file:path}}")
    return env[name]


def _file(path: str, read_file: Callable[[str], str]) -> str:
    try:
        text = read_file(path)
    except FileNotFoundError as error:
        raise SubstitutionError(f"file {path} does not exist", "a relative path starts at the pipeline file") from error
    except UnicodeDecodeError as error:
        raise SubstitutionError(f"file {path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise SubstitutionError(
            f"file {path} cannot be read: {error.strerror}", "name a file that can be read"
        ) from error
    return text.removesuffix("\n").removesuffix("\r")

"""`${NAME}` and `${file:path}` in values: secrets stay out of the pipeline file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_TOKEN = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class SubstitutionError(ValueError):
    """A substitution that cannot be done. Says the name of what is missing, never a value."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def substitute(text: str, *, env: Mapping[str, str], read_file: Callable[[str], str]) -> str:
    """The text with every `${...}` replaced; what was put in is not looked at again. Raises SubstitutionError.

    A file's text loses one line end at its end, as files with one secret have it.
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
    """The environment variables that a text takes something from."""
    for match in _TOKEN.finditer(text):
        name = (match[1] or "").strip()
        if _NAME.fullmatch(name):
            yield name


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
        raise SubstitutionError(f"file {path} is not there", "a relative path starts at the pipeline file") from error
    except UnicodeDecodeError as error:
        raise SubstitutionError(f"file {path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise SubstitutionError(
            f"file {path} cannot be read: {error.strerror}", "name a file that can be read"
        ) from error
    return text.removesuffix("\n").removesuffix("\r")

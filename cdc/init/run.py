"""`cdc init`: queries a server and generates the text of a pipeline file for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr, ValidationError

from cdc import registry
from cdc.draft import Draft, Drafts, Key, ServerUrl
from cdc.errors import Problem, SpecError
from cdc.finding import Level
from cdc.options import Options, SinkOptions
from cdc.printable import printable
from cdc.spec.reader import typed

_PLAIN = re.compile(r"[A-Za-z_\\/$][A-Za-z0-9_\\/.*+$(){}|\[\]^?-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_UNSEEN = re.compile("[\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]")
_LONGEST = 2000
_FORM = "write scheme://user@host:port/database, such as mysql://reader@db.example:3306/shop"


def parse_url(text: str) -> ServerUrl:
    """The parts of a URL; user, password and database may be percent-encoded. Raises ValueError with the reason."""
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port is not a number from 0 to 65535; {_FORM}") from None
    if not parts.scheme or not parts.hostname:
        raise ValueError(f"it names no host; {_FORM}")
    if parts.query or parts.fragment:
        raise ValueError(f"text after ? or # is not supported; {_FORM}, and --option KEY=VALUE for more")
    return ServerUrl(
        parts.scheme.lower(), parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""),
        unquote(parts.path.strip("/")),
    )  # fmt: skip


def init_text(server: ServerUrl, password: str, sink: str, more: Mapping[str, str], output: Path | None) -> str:
    """The text of the file. Raises SpecError for an unknown URL, option or sink; SourceError."""
    source, options = _source_of(server.scheme)
    try:
        sink_options = registry.options("sink", sink)
    except registry.UnknownConnector as error:
        raise _wrong("--sink", str(error), "") from None
    try:
        draft: Draft = resolve_name(options.drafted_by)(replace(server, password=password), more)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        hint = f"see `cdc schema --connector source/{source}`"
        raise _wrong(".".join(map(str, first["loc"])), str(first["msg"]), hint) from None
    name = output.stem if output is not None else (draft.databases[0] if len(draft.databases) == 1 else "pipeline")
    return pipeline_text(name, source, draft, sink, sink_options)


def _source_of(scheme: str) -> tuple[str, Drafts]:
    """The connector for the URL's scheme, and its options."""
    known: list[str] = []
    for name in registry.names("source"):
        found: object = registry.options("source", name)
        if isinstance(found, Drafts):
            if scheme in found.url_schemes:
                return name, found
            known += found.url_schemes
    raise _wrong("URL", f"no source has URLs that begin with {scheme}://", f"known: {', '.join(known)}")


def _wrong(path: str, message: str, hint: str) -> SpecError:
    return SpecError([Problem("command line", 1, 1, path, message, hint)])


def pipeline_text(name: str, source: str, draft: Draft, sink: str, options: type[Options]) -> str:
    """The text of the file. `source` and `sink` are connector names. It contains no secrets."""
    lines = [_comment(f"Written by `cdc init`: {draft.server}."), *_findings(draft)]
    lines += ["source:", f"  type: {source}", *_block(draft.keys)]
    lines += ["", "sink:", f"  type: {sink}", *_block(tuple(_sink_keys(sink, options, draft)))]
    lines += ["", "pipeline:", f"  name: {scalar(_as_is(name))}"]
    lines += [
        "  # Schema changes of the source are applied to the sink as they are. The default, lenient, keeps",
        "  # columns that are dropped.",
        "  schema.change.behavior: evolve",
    ]
    return "\n".join(lines) + "\n"


def _findings(draft: Draft) -> Iterator[str]:
    for level, title in ((Level.ERROR, "To be done before the first run:"), (Level.WARNING, "Worth knowing:")):
        found = [finding for finding in draft.findings if finding.level is level]
        if found:
            yield "#"
            yield f"# {title}"
        for finding in found:
            yield _comment(f"  {finding.subject}: {finding.message}")
            if finding.fix:
                yield _comment(f"    {finding.fix}")


def _sink_keys(sink: str, options: type[Options], draft: Draft) -> Iterator[Key]:
    """The required keys of the sink, with descriptions: a value that works on this machine, else a placeholder."""
    drafted: Mapping[str, str] = dict(options.drafted) if issubclass(options, SinkOptions) else {}
    for field in options.model_fields.values():
        name = field.alias or ""
        name = name or next(key for key, each in options.model_fields.items() if each is field)
        if name == "type" or (not field.is_required() and name not in drafted):
            continue
        database = _as_is(draft.databases[0]) if draft.databases else "tables"
        value = drafted.get(name, "").replace("{database}", database)
        if field.annotation is SecretStr or not value:
            value = f"${{{re.sub(r'[^A-Z0-9]+', '_', f'{sink}_{name}'.upper())}}}"
        yield Key(name, value, (_first_sentence(field),))


def _first_sentence(field: Any) -> str:
    """The first sentence of an option's description."""
    return str(field.description or "").split(". ")[0].rstrip(".")


def _block(keys: tuple[Key, ...]) -> Iterator[str]:
    for key in keys:
        yield from (f"  {_comment(text)}" for text in key.comments if text)
        yield f"  {key.name}: {scalar(key.value)}"


def _comment(text: str) -> str:
    """The text on one line, whatever a server's names and messages contain."""
    return f"# {printable(text.replace(chr(10), ' '), longest=_LONGEST)}".rstrip()


def scalar(text: str) -> str:
    """A YAML scalar that parses to this text."""
    read = typed(text)
    is_integer = isinstance(read, int) and str(read) == text
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS and isinstance(read, str)
    return text if plain or is_integer else _UNSEEN.sub(_escape, json.dumps(text, ensure_ascii=False))


def _as_is(text: str) -> str:
    """A name from the server, escaped so that nothing in it is substituted from the environment or a file."""
    return text.replace("${", "$${")


def _escape(found: re.Match[str]) -> str:
    """The YAML escape of a character that YAML folds into a space, such as U+0085 and U+2028, or refuses."""
    return f"\\U{ord(found[0]):08x}"

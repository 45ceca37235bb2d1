"""`cdc init`: looks at a server and gives the text of a pipeline file for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

from pydantic import ValidationError

from cdc import registry
from cdc.draft import Draft, Drafts, ServerUrl
from cdc.errors import Problem, SpecError
from cdc.init.write import pipeline_text


def init_text(server: ServerUrl, password: str, sink: str, more: Mapping[str, str], output: Path | None) -> str:
    """The file's text. Raises SpecError for a URL, an option or a sink that is not known, SourceError."""
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
    """The connector whose URLs begin so, and its options."""
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

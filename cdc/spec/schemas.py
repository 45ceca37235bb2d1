"""Loads the committed JSON Schemas and validates documents against them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from referencing import Registry

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def folder() -> Path:
    """Return the folder of `pipeline.json`: inside the installed package, or `schemas/` of a checkout."""
    installed = _PACKAGE / "_schemas"
    return installed if installed.is_dir() else _PACKAGE.parent / "schemas"


@cache
def load(name: str) -> dict[str, Any]:
    """Load a committed schema by file name: `pipeline.json`, `sources/mysql.json`. Raises FileNotFoundError."""
    schema: dict[str, Any] = json.loads((folder() / name).read_text(encoding="utf-8"))
    return schema


def exists(name: str) -> bool:
    """Whether there is a committed schema of that name; connectors of other packages have none."""
    return (folder() / name).is_file()


def errors(document: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    """Yield every violation of a schema. References to other files are resolved next to `pipeline.json`."""
    from jsonschema.validators import Draft202012Validator

    blocks = document if isinstance(document, dict) else {}
    types = tuple((role, kind) for role in ("source", "sink") if (kind := _type(blocks.get(role))) is not None)
    yield from Draft202012Validator(schema, registry=_registry(types)).iter_errors(document)


def _type(block: object) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


@lru_cache(maxsize=64)
def _registry(types: tuple[tuple[str, str], ...]) -> Registry[Any]:
    """Return the registry of references, with these connectors' schemas crawled, which takes most of a check's time."""
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    def retrieve(uri: str) -> Resource[Any]:
        return DRAFT202012.create_resource(load(uri))

    known = [f"{role}s/{name}.json" for role, name in types if (role, name) in _committed()]
    registry: Registry[Any] = Registry(retrieve=retrieve)  # type: ignore[call-arg]
    return registry.with_resources([(name, retrieve(name)) for name in known]).crawl()


def bundle() -> dict[str, Any]:
    """Return the whole schema as one document: connectors in `$defs` instead of separate files."""
    names = [f"{role}s/{name}" for role, name in _committed()]
    text = json.dumps(load("pipeline.json"))
    for name in names:
        text = re.sub(rf'"{name}\.json(?:#([^"]*))?"', rf'"#/$defs/{name.replace("/", "-")}\1"', text)
    definitions = {name.replace("/", "-"): load(f"{name}.json") for name in names}
    return {**json.loads(text), "$defs": definitions}


def connector(name: str) -> dict[str, Any]:
    """Return the schema of one connector: `mysql`, or `source/values` for an ambiguous name. Raises LookupError."""
    role, slash, short_name = name.rpartition("/")
    found = [(which, known) for which, known in _committed() if known == short_name and (not slash or which == role)]
    if not found:
        known = ", ".join(f"{which}/{each}" for which, each in _committed())
        raise LookupError(f"no connector named {name!r}; known: {known}")
    if len(found) > 1:
        raise LookupError(f"{name!r} is several: {', '.join(f'{which}/{each}' for which, each in found)}")
    return load(f"{found[0][0]}s/{found[0][1]}.json")


@cache
def _committed() -> tuple[tuple[str, str], ...]:
    """Return role and connector name of every committed schema."""
    return tuple(
        (role, path.stem) for role in ("source", "sink") for path in sorted((folder() / f"{role}s").glob("*.json"))
    )

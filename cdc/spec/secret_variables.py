"""Environment variables that the secrets of a file come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from cdc import registry
from cdc.options import Block, Options, SecretStr
from cdc.spec import models, tree
from cdc.spec.model import PipelineOptions
from cdc.spec.substitute import variables
from cdc.spec.tree import Path, Scalar


def secret_variables(root: tree.Mapping) -> tuple[str, ...]:
    """The names of all of them. The connectors of the file are known."""
    found = {
        *_of_connector(root, "source"),
        *_of_connector(root, "sink"),
        *_of_block(root, ("pipeline",), PipelineOptions),
        *_of_models(root),
    }
    return tuple(sorted(found))


def _of_connector(root: tree.Mapping, role: registry.Role) -> Iterator[str]:
    kind = tree.find(root, (role, "type"))
    yield from _of_block(root, (role,), registry.options(role, kind.text) if isinstance(kind, Scalar) else Options)


def _of_models(root: tree.Mapping) -> Iterator[str]:
    listed = tree.find(root, models.PATH)
    for number in range(len(listed.items) if isinstance(listed, tree.Listing) else 0):
        yield from _of_block(root, (*models.PATH, number), models.ModelBlock)
        yield from _of_block(root, (*models.PATH, number, "options"), models.ModelOptions)


def _of_block(root: tree.Mapping, path: Path, model: type[Block]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        node = tree.find(root, (*path, field.alias or name))
        if isinstance(node, Scalar) and SecretStr in (field.annotation, *get_args(field.annotation)):
            yield from variables(node.written)

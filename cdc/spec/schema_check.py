"""Validates a file against JSON Schemas: the committed ones, and those of connectors of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc import registry
from cdc.options import Options
from cdc.registry import Role
from cdc.spec import schemas, tree
from cdc.spec.blocks import BlockReader
from cdc.spec.explain import connector_hint
from cdc.spec.tree import Path, Scalar


class SchemaCheck:
    """Checks one file; problems go to `blocks`."""

    def __init__(self, blocks: BlockReader) -> None:
        self._blocks, self._document = blocks, tree.plain(blocks.root)
        self._foreign: set[Path] = set()  # `type` of connectors of other packages, unknown to pipeline.json

    def connector(self, role: Role) -> type[Options] | None:
        """Return the options class for `type`; an unknown name is reported here, a missing one by the schema."""
        path: Path = (role, "type")
        node = tree.find(self._blocks.root, path)
        if not isinstance(node, Scalar) or node.broken or not isinstance(node.value, str):
            return None
        try:
            found = registry.options(role, node.text)
        except registry.UnknownConnector:
            self._blocks.report(
                path,
                self._blocks.explain.problem(
                    path,
                    f"no {role} connector named {node.written!r}",
                    connector_hint(role, node.written, registry.names(role)),
                ),
            )
            return None
        except registry.BrokenConnector as error:
            self._blocks.report(path, self._blocks.explain.problem(path, str(error)))
            return None
        name = f"{role}s/{node.text}.json"
        if not schemas.exists(name):  # a connector of another package: its schema comes from its model
            from cdc.spec.block_schema import options_schema

            self.validate({"properties": {role: options_schema(found, name)}})
            self._foreign.add(path)
        return found

    def validate(self, schema: Mapping[str, Any]) -> None:
        """Report the file's violations of the schema."""
        for error in sorted(schemas.errors(self._document, schema), key=lambda error: len(error.absolute_path)):
            for path, problem in self._blocks.explain.violation(error):
                if path not in self._foreign:
                    self._blocks.report(path, problem)

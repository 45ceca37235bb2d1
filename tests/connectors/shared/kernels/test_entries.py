"""Kernels that Python calls are declared as entries: the others have no wrapper, and a call would end the process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
Names = frozenset[tuple[str, str]]
"""Modules, and functions in them."""


def modules(*folders: str) -> dict[str, ast.Module]:
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_bytes())
        for path in paths
    }


def is_kernel(node: ast.AST, *declared: str) -> bool:
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(each) in declared for each in node.decorator_list)


def kernels(trees: dict[str, ast.Module], declared: str) -> Names:
    return frozenset(
        (name, each.name)
        for name, tree in trees.items()
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and is_kernel(each, declared)
    )


def used_by_python(name: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a module's code outside of kernels uses, under the name in the module that it was imported from."""
    known: dict[str, tuple[str, ...]] = {
        each.asname or each.name: (node.module, each.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for each in node.names
    }

    def visit(node: ast.AST) -> Iterator[tuple[str, str]]:
        if is_kernel(node, "kernel", "kernel.entry", "kernel.inlined"):
            return
        if isinstance(node, ast.Name):
            module, *function = known.get(node.id, (name, node.id))
            yield module, function[0]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            yield ".".join(known[node.value.id]), node.attr
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return visit(tree)


def test_python_calls_entries_and_each_entry_is_called_by_python() -> None:
    product = modules("connectors")
    everything = {**product, **modules("scripts", "tests")}
    used = frozenset(each for name, tree in everything.items() for each in used_by_python(name, tree))
    entries, inner = kernels(product, "kernel.entry"), kernels(product, "kernel")
    assert len(entries) > 50
    assert used & inner == frozenset(), "declare these as `@kernel.entry`"
    assert entries - used == frozenset(), "declare these as `@kernel`"

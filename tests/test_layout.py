"""The folder tree is the diagram: imports point one way, files stay small, public names are documented."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 400

ORDER: tuple[tuple[str, ...], ...] = (
    ("cdc.errors", "cdc.printed", "cdc.schema", "cdc.units", "cdc.faults", "cdc.signals", "cdc.without_pandas"),
    ("cdc.flow.retry",),
    ("cdc.block", "cdc.pattern", "cdc.schema_json"),
    ("cdc.options", "cdc.state.durable", "cdc.state.append_log", "cdc.state.store"),
    ("cdc.source", "cdc.sink"),
    ("cdc.transform", "cdc.evolution", "cdc.state", "cdc.flow", "cdc.lines"),
    ("cdc.registry", "cdc.spec"),
    ("cdc.planning", "cdc.testing"),
    ("cdc.job", "cdc.warm", "cdc.background"),
    ("cdc", "cdc.api", "cdc.console", "cdc.dev"),
    ("cdc.cli",),
    ("cdc.__main__",),
)
"""A module imports from its own group or from those above it."""

CONTRACTS = (
    "errors",
    "schema",
    "evolution.certain",
    "evolution.dialect",
    "evolution.diff",
    "evolution.journal",
    "evolution.session",
    "evolution.sql_sink",
    "evolution.steps",
    "evolution.table",
    "block",
    "source",
    "sink",
    "options",
    "pattern",
    "schema_json",
    "faults",
    "flow.retry",
    "lines.format",
    "lines.source",
    "state.store",
    "state.durable",
    "state.append_log",
)
"""The modules of `cdc` that a connector may know."""

SERVERS = {"cdc_services": ("cdc.errors", "cdc.job.java"), "cdc_standins": ("cdc.errors", "cdc.without_pandas")}
"""The packages of `tests/devservers`, and the modules of `cdc` that each may know."""

LOAD_SINKS = ("connectors.doris", "connectors.starrocks", "connectors.streamload")

LIBRARIES = {
    "connectors.shared.login": ("connectors.mysql", *LOAD_SINKS),
    "connectors.shared.kernels": ("connectors.streamload", "connectors.kafka"),
    "connectors.shared.servers": LOAD_SINKS,
    "connectors.shared.sql": LOAD_SINKS,
    "connectors.shared.last_image": LOAD_SINKS,
    "connectors.shared.dead_letters": LOAD_SINKS,
    "connectors.shared.conversion": LOAD_SINKS,
    "connectors.shared.sending": LOAD_SINKS,
    "connectors.streamload": ("connectors.doris", "connectors.starrocks"),
    "connectors.streamload.kernels": ("connectors.kafka",),
}
"""Folders of code that several connectors share, and who may use them. The rooms of `connectors.shared` are in an order
of their own: a room uses those above it."""

SHARED = [name for name in LIBRARIES if name.startswith("connectors.shared.")]


def modules() -> dict[str, Path]:
    """Every module of the product's two packages, and of the servers for trials and tests, by its dotted name."""
    found = {}
    for package in (ROOT / "cdc", ROOT / "connectors", *(ROOT / "tests" / "devservers" / name for name in SERVERS)):
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def tree(name: str) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imports(name: str, *, at_load: bool = False) -> Iterator[str]:
    """The modules that a module imports, anywhere in it or only while it is loaded; never relative ones."""
    for node in walk(tree(name), into_functions=not at_load):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: write imports in full, not relative"
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                yield dotted if dotted in MODULES else str(node.module)


def walk(node: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if into_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from walk(child, into_functions=into_functions)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def rank(name: str) -> int | None:
    """Which group a module is in; the longest matching name counts."""
    best = max(
        ((len(entry), number) for number, group in enumerate(ORDER) for entry in group if within(name, entry)),
        default=None,
    )
    if best is None or (ORDER[best[1]][0] == "cdc" and best[0] == len("cdc") and name != "cdc"):
        return None
    return best[1]


CDC = [name for name in MODULES if within(name, "cdc")]
CONNECTORS = [name for name in MODULES if within(name, "connectors")]


@pytest.mark.parametrize("name", CDC)
def test_a_module_of_cdc_imports_only_from_its_group_or_above(name: str) -> None:
    own = rank(name)
    assert own is not None, f"{name} is in no group of ORDER: put it where it belongs"
    for imported in imports(name):
        if within(imported, "cdc"):
            level = rank(imported)
            assert level is not None, f"{name} imports {imported}, which is in no group of ORDER"
            assert level <= own, f"{name} imports {imported}, which comes after it"


@pytest.mark.parametrize("name", CDC)
def test_cdc_never_imports_a_connector(name: str) -> None:
    assert [imported for imported in imports(name) if within(imported, "connectors")] == []


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] in SERVERS])
def test_the_servers_for_trials_know_next_to_nothing_of_the_tool(name: str) -> None:
    own = name.split(".")[0]
    for imported in imports(name):
        assert not within(imported, "connectors"), f"{name} imports {imported}"
        if within(imported, "cdc"):
            assert imported in SERVERS[own], f"{name} imports {imported}: {own} knows only {SERVERS[own]}"


@pytest.mark.parametrize("name", [*CDC, *CONNECTORS])
def test_the_product_never_imports_the_servers_for_trials(name: str) -> None:
    assert [imported for imported in imports(name) if any(within(imported, server) for server in SERVERS)] == []


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_connector_knows_the_contracts_and_its_own_folder(name: str) -> None:
    own = room(name)
    allowed = {f"cdc.{module}" for module in CONTRACTS}
    for imported in imports(name):
        if within(imported, "cdc"):
            assert imported in allowed, f"{name} imports {imported}: connectors know only {', '.join(sorted(allowed))}"
        if within(imported, "connectors"):
            shared = any(within(imported, library) and own in users for library, users in LIBRARIES.items())
            above = own in SHARED and room(imported) in SHARED[: SHARED.index(own)]
            assert shared or above or within(imported, own), (
                f"{name} imports {imported}: connectors never import each other"
            )


def room(name: str) -> str:
    """The connector or shared room that a module belongs to."""
    return next((library for library in LIBRARIES if within(name, library)), ".".join(name.split(".")[:2]))


@pytest.mark.parametrize("name", MODULES)
def test_pyspark_is_imported_only_under_cdc_job(name: str) -> None:
    spark = [imported for imported in imports(name) if within(imported, "pyspark") or within(imported, "py4j")]
    allowed = within(name, "cdc.job") and name != "cdc.job.java"
    assert allowed or spark == []


@pytest.mark.parametrize("name", [name for name in MODULES if not within(name, "cdc.job")])
def test_loading_a_module_outside_the_job_does_not_load_the_job(name: str) -> None:
    # `cdc validate` must start in half a second: what needs Spark is imported inside the function that needs it.
    assert [imported for imported in imports(name, at_load=True) if within(imported, "cdc.job")] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        name: {found for found in imports(name, at_load=True) if found in MODULES and found != name} for name in MODULES
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")
    assert set(order) == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_no_file_grows_too_long(name: str) -> None:
    lines = len(MODULES[name].read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{MODULES[name].relative_to(ROOT)} has {lines} lines: what second noun is in it?"


@pytest.mark.parametrize("name", MODULES)
def test_public_names_have_docstrings(name: str) -> None:
    missing = [] if ast.get_docstring(tree(name)) else [name]
    for owner, node in definitions(tree(name), name):
        if not node.name.startswith("_") and not ast.get_docstring(node):
            missing.append(f"{owner}.{node.name}")
    assert missing == []


def definitions(
    tree: ast.Module | ast.ClassDef, owner: str
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions, classes, and methods of public classes; overloads and overrides are documented elsewhere.

    A conformance test says in its name what it is about.
    """
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield owner, node
            if not node.name.startswith("_"):
                yield from definitions(node, f"{owner}.{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
            if not decorators & {"overload", "override", "setter"} and not node.name.startswith("test_"):
                yield owner, node


def test_everything_in_the_order_list_is_spelled_like_a_module() -> None:
    names = [name for group in ORDER for name in group]
    assert len(names) == len(set(names))
    present = [name for name in names if name in MODULES]
    assert {"cdc.errors", "cdc.source", "cdc.sink", "cdc.options"} <= set(present)


def test_modules_do_not_shadow_the_standard_library() -> None:
    assert [name for name in MODULES if name.split(".")[0] in sys.stdlib_module_names] == []


PURE_EVOLUTION = ("apply", "diff", "certain", "table", "steps", "dialect", "planner", "columns", "rebuild", "beside")


@pytest.mark.parametrize("name", [f"cdc.evolution.{module}" for module in PURE_EVOLUTION])
def test_schema_changes_are_planned_without_doing_anything(name: str) -> None:
    """Planning knows schemas and a dialect; what is read, executed and noted is in session, changes and journal."""
    known = {"cdc.errors", "cdc.schema", *(f"cdc.evolution.{module}" for module in PURE_EVOLUTION)}
    used = {imported for imported in imports(name) if within(imported, "cdc")}
    assert {item for item in used if item != "cdc.evolution"} <= known


def test_every_dialect_is_planned_with_by_the_core() -> None:
    """A connector that has a dialect of SQL brings no planner of its own."""
    sinks = [name for name in CONNECTORS if name.endswith(".dialect") and "cdc.evolution.dialect" in set(imports(name))]
    assert {name.split(".")[1] for name in sinks} == {"duckdb", "doris", "starrocks"}
    for name in CONNECTORS:
        used = {item for item in imports(name) if within(item, "cdc.evolution")}
        assert not used & {"cdc.evolution.planner", "cdc.evolution.columns", "cdc.evolution.rebuild"}, name

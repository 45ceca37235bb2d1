"""The folder tree is the diagram: imports point one way, files stay small, public names are documented."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from together import together

from cdc.source import Source

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 400

ORDER: tuple[tuple[str, ...], ...] = (
    (
        "cdc.errors",
        "cdc.printable",
        "cdc.schema",
        "cdc.units",
        "cdc.process",
        "cdc.finding",
        "cdc.draft",
    ),
    ("cdc.retry", "cdc.restarts"),
    ("cdc.block", "cdc.dead_letters", "cdc.pattern", "cdc.schema_json", "cdc.progress"),
    ("cdc.types",),
    ("cdc.evolution.apply", "cdc.events"),
    (
        "cdc.edit_rules",
        "cdc.options",
        "cdc.pattern_options",
        "cdc.state.durable",
        "cdc.state.append_log",
        "cdc.state.store",
        "cdc.state.waits",
    ),
    ("cdc.source", "cdc.sink", "cdc.offsets"),
    ("cdc.route",),
    ("cdc.tables.states", "cdc.tables.entry", "cdc.tables.log", "cdc.tables.requests"),
    ("cdc.state",),
    ("cdc.evolution",),
    ("cdc.tables",),
    ("cdc.sink_columns",),
    ("cdc.lines",),
    ("cdc.transform",),
    ("cdc.flow",),
    ("cdc.registry", "cdc.spec"),
    ("cdc.planning", "cdc.testing", "cdc.status"),
    ("cdc.job", "cdc.verify", "cdc.doctor", "cdc.init"),
    ("cdc.serve.control",),
    ("cdc", "cdc.api", "cdc.dev", "cdc.serve", "cdc.web"),
    ("cdc.cli",),
    ("cdc.__main__",),
)
"""A module imports from its own group or from those above it."""

CONTRACTS = (
    "dead_letters",
    "errors",
    "events",
    "finding",
    "process.memory",
    "process.disk",
    "draft",
    "schema",
    "evolution.dialect",
    "evolution.diff",
    "evolution.journal",
    "evolution.session",
    "evolution.rules",
    "evolution.operations",
    "evolution.api_sink",
    "evolution.apply",
    "evolution.table_sink",
    "evolution.steps",
    "evolution.table",
    "block",
    "source",
    "sink",
    "options",
    "pattern",
    "pattern_options",
    "schema_json",
    "process.faults",
    "retry",
    "lines.format",
    "lines.source",
    "state.store",
    "state.durable",
    "state.append_log",
    "process.stopwatch",
    "types.casts",
    "types.certain",
    "types.common",
    "types.kinds",
    "types.text",
    "units",
)
"""The modules of `cdc` that a connector may know."""

SHARED = "connectors.shared"
"""What every connector may use."""

SERVERS = {
    "cdc_services": ("cdc.errors", "cdc.job.spark.java"),
    "cdc_standins": ("cdc.errors", "cdc.process.without_pandas"),
}
"""The packages of `tests/devservers`, and the modules of `cdc` that each may know."""


def modules() -> dict[str, Path]:
    """Every module of the product's two packages, and of the servers for trials and tests, by its dotted name."""
    found = {}
    for package in (ROOT / "cdc", ROOT / "connectors", *(ROOT / "tests" / "devservers" / name for name in SERVERS)):
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@pytest.fixture(scope="module", autouse=True)
def _without_garbage_collection() -> Iterator[None]:
    """Syntax trees are millions of objects: the collector would go through them again and again."""
    gc.disable()
    yield
    tree.cache_clear()
    gc.enable()


@cache
def tree(name: str) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imports(name: str, *, at_load: bool = False, with_types: bool = False) -> tuple[str, ...]:
    """The modules that a module imports, anywhere in it or only while it is loaded; never relative ones.

    What is imported for type checkers alone counts `with_types`.
    """
    wanted = {"load"} if at_load else {"load", "call", "types"} if with_types else {"load", "call"}
    return tuple(module for module, when in _imports(name) if when in wanted)


@cache
def _imports(name: str) -> tuple[tuple[str, str], ...]:
    return tuple(_imported(name, tree(name).body, "load"))


def _imported(name: str, body: Iterable[ast.AST], when: str) -> Iterator[tuple[str, str]]:
    """What these statements import, and when they do."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: write imports in full, not relative"
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                yield dotted if dotted in MODULES else str(node.module), when
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _imported(name, node.body, "types")
        else:
            inner = "call" if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else when
            for block in ("body", "orelse", "handlers", "finalbody", "cases"):
                found = getattr(node, block, ())
                yield from _imported(name, found if isinstance(found, list) else (), inner)


def scopes(node: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """A module with its classes and functions, also those within others."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node
    for block in ("body", "orelse", "handlers", "finalbody", "cases"):
        found = getattr(node, block, ())
        for inner in found if isinstance(found, list) else ():
            yield from scopes(inner)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@cache
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


def imported_by(names: Iterable[str], *, at_load: bool = False) -> Iterator[tuple[str, str]]:
    """Each module of these and what it imports, in pairs."""
    return ((name, imported) for name in names for imported in imports(name, at_load=at_load))


def test_every_module_of_cdc_is_in_a_group() -> None:
    assert [name for name in CDC if rank(name) is None] == [], "put them where they belong in ORDER"


def test_a_module_of_cdc_imports_only_from_its_group_or_above() -> None:
    pairs = [(name, imported) for name, imported in imported_by(CDC) if within(imported, "cdc")]
    assert [pair for pair in pairs if rank(pair[1]) is None] == [], "the second is in no group of ORDER"
    assert [pair for pair in pairs if (rank(pair[1]) or 0) > (rank(pair[0]) or 0)] == [], "the second comes after it"


def test_cdc_never_imports_a_connector() -> None:
    assert [pair for pair in imported_by(CDC) if within(pair[1], "connectors")] == []


def test_the_servers_for_trials_know_next_to_nothing_of_the_tool() -> None:
    pairs = list(imported_by(name for name in MODULES if name.split(".")[0] in SERVERS))
    assert [pair for pair in pairs if within(pair[1], "connectors")] == []
    known = [(name, used) for name, used in pairs if within(used, "cdc") and used not in SERVERS[name.split(".")[0]]]
    assert known == [], f"they know only {SERVERS}"


def test_the_product_never_imports_the_servers_for_trials() -> None:
    pairs = imported_by([*CDC, *CONNECTORS])
    assert [pair for pair in pairs if any(within(pair[1], server) for server in SERVERS)] == []


def test_a_connector_knows_the_contracts_and_its_own_folder() -> None:
    allowed = {f"cdc.{module}" for module in CONTRACTS}
    pairs = list(imported_by(CONNECTORS))
    beyond = [pair for pair in pairs if within(pair[1], "cdc") and pair[1] not in allowed]
    assert beyond == [], f"connectors know only {', '.join(sorted(allowed))}"
    others = [pair for pair in pairs if within(pair[1], "connectors") and not may_use(*pair)]
    assert others == [], "connectors never import each other"


def may_use(name: str, imported: str) -> bool:
    """Whether a connector's module may import this one of a connector: its own folder's, or what is shared."""
    if within(name, SHARED):
        return within(imported, SHARED)
    return within(imported, SHARED) or within(imported, ".".join(name.split(".")[:2]))


@together("connector", sorted({".".join(name.split(".")[:2]) for name in CONNECTORS if "." in name}))
def test_the_folders_of_a_connector_have_an_order(connector: str) -> None:
    """A folder, or a module beside the folders, uses others, and none of those uses it, however far away."""
    uses: dict[str, set[str]] = {}
    for name, imported in imported_by(name for name in CONNECTORS if within(name, connector)):
        if within(imported, connector) and imported != connector and folder(name) != folder(imported):
            uses.setdefault(folder(name), set()).add(folder(imported))
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of folders: {' -> '.join(error.args[1])}")


def folder(name: str) -> str:
    """The part of a connector that a module is in: `connectors.mysql.log`."""
    return ".".join(name.split(".")[:3])


MOST_IMPORTS, MOST_ARGUMENTS = 15, 8


def test_modules_import_few_others_of_the_project() -> None:
    """More is a sign that a second noun hides in it."""
    counted = {name: len({used for used in imports(name) if used in MODULES}) for name in (*CDC, *CONNECTORS)}
    assert {name: count for name, count in counted.items() if count > MOST_IMPORTS} == {}


def test_constructors_take_few_arguments() -> None:
    """Those of dataclasses, whose fields are named, do not count."""
    longer = {
        f"{name}.{node.name}"
        for name in (*CDC, *CONNECTORS)
        for node in scopes(tree(name))
        if isinstance(node, ast.ClassDef)
        for made in node.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
        if len(made.args.args) + len(made.args.kwonlyargs) - 1 > MOST_ARGUMENTS
    }
    assert longer == set()


def test_pyspark_is_imported_only_under_cdc_job() -> None:
    elsewhere = [name for name in MODULES if not within(name, "cdc.job") or name == "cdc.job.spark.java"]
    assert [pair for pair in imported_by(elsewhere) if within(pair[1], "pyspark") or within(pair[1], "py4j")] == []


def test_loading_a_module_outside_the_job_does_not_load_the_job() -> None:
    # `cdc validate` must start in half a second: what needs Spark is imported inside the function that needs it.
    outside = [name for name in MODULES if not within(name, "cdc.job")]
    assert [pair for pair in imported_by(outside, at_load=True) if within(pair[1], "cdc.job")] == []


def test_what_the_page_needs_is_loaded_by_nothing_but_the_page() -> None:
    outside = [name for name in MODULES if not within(name, "cdc.web")]
    assert [pair for pair in imported_by(outside) if within(pair[1], "jinja2") or within(pair[1], "starlette")] == []
    modules = ("cdc.web.app", "cdc.web.pages", "cdc.web.templating")
    assert [pair for pair in imported_by(outside, at_load=True) if pair[1] in modules] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Nor do those of the product by imports inside functions, or for type checkers."""
    product = {*CDC, *CONNECTORS}
    graph = {
        name: {
            found
            for found in (imports(name, with_types=True) if name in product else imports(name, at_load=True))
            if found in MODULES and found != name
        }
        for name in MODULES
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")
    assert set(order) == set(MODULES)


def test_no_file_grows_too_long() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES.values()}
    assert {path: count for path, count in lines.items() if count > LONGEST_FILE} == {}, "what second noun is in it?"


def test_public_names_have_docstrings() -> None:
    missing = [name for name in MODULES if not ast.get_docstring(tree(name))]
    for name in MODULES:
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


PURE_EVOLUTION = (
    "apply", "diff", "table", "steps", "operations", "rules", "dialect", "planner", "columns", "rebuild",
)  # fmt: skip


@together("name", [f"cdc.evolution.{module}" for module in PURE_EVOLUTION])
def test_schema_changes_are_planned_without_doing_anything(name: str) -> None:
    """Planning knows schemas and a dialect; what is read, executed and noted is in session, changes and journal."""
    known = {
        "cdc.errors",
        "cdc.schema",
        "cdc.types.certain",
        "cdc.types.kinds",
        *(f"cdc.evolution.{module}" for module in PURE_EVOLUTION),
    }
    used = {imported for imported in imports(name) if within(imported, "cdc")}
    assert {item for item in used if item != "cdc.evolution"} <= known


def test_every_dialect_is_planned_with_by_the_core() -> None:
    """A connector that has a dialect of SQL brings no planner of its own."""
    bases = {"cdc.evolution.dialect", "connectors.shared.streamload.table_dialect"}
    sinks = [name for name in CONNECTORS if name.endswith(".dialect") and bases & set(imports(name))]
    assert {name.split(".")[1] for name in sinks} == {"duckdb", "doris", "mysql", "starrocks"}
    for name in CONNECTORS:
        used = {item for item in imports(name) if within(item, "cdc.evolution")}
        assert not used & {"cdc.evolution.planner", "cdc.evolution.columns", "cdc.evolution.rebuild"}, name


def test_what_every_source_must_have_is_little() -> None:
    """What only some sources can do has a default."""
    assert len(Source.__abstractmethods__) <= 7


def test_a_whole_sink_for_a_sql_system_is_short() -> None:
    """The example passes the conformance suite, schema changes included (`tests/conformance/test_sqlite_sink.py`)."""
    assert len(lines_of_code(ROOT / "tests" / "conformance" / "sqlite_sink.py")) <= 150


def test_a_whole_sink_without_sql_is_short() -> None:
    """So is the one for a document store (`tests/conformance/test_document_sink.py`)."""
    assert len(lines_of_code(ROOT / "tests" / "conformance" / "document_sink.py")) <= 180


def lines_of_code(path: Path) -> set[int]:
    """The numbers of a file's lines that hold code: not blank, no comment, no docstring."""
    text = path.read_text(encoding="utf-8")
    words = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    written = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    return written - words


NO_SUBJECT = re.compile(r"(What|Those|It|As|That|Them|These|Whatever|Such|Who|Of|And|Also|They)\b")
"""Beginnings of docstrings that do not name the thing that they are about."""
NO_NOUN = re.compile(r"(Where|Which|When|How|Nothing|From|For|With|See|Whether)\b")
"""Those of classes, besides."""


def test_docstrings_name_their_subject() -> None:
    """A reader who comes from a search has not read the docstring before."""
    found = []
    for name in (name for name in MODULES if within(name, "cdc") or within(name, "connectors")):
        for node in scopes(tree(name)):
            text = ast.get_docstring(node) or ""
            if NO_SUBJECT.match(text) or (isinstance(node, ast.ClassDef) and NO_NOUN.match(text)):
                found.append(f"{name}: {text.splitlines()[0]}")
    assert found == []


LISTED = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", re.MULTILINE)


def test_docstrings_list_names_that_exist() -> None:
    """A renamed argument or attribute is renamed there too."""
    found = []
    for name in (name for name in MODULES if within(name, "cdc") or within(name, "connectors")):
        for node in (node for node in scopes(tree(name)) if not (isinstance(node, ast.ClassDef) and node.bases)):
            parts = [getattr(each, "arg", getattr(each, "attr", getattr(each, "id", ""))) for each in ast.walk(node)]
            names = {*parts, *(each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef))}
            for listed in LISTED.findall(ast.get_docstring(node) or ""):
                entries = re.findall(r"^    ([a-z_][\w, ]*): ", listed, re.MULTILINE)
                found += [f"{name}: {one}" for entry in entries for one in entry.split(", ") if one not in names]
    assert found == []


def test_a_class_name_means_one_thing() -> None:
    """Only the same part of several connectors has the same name in each."""
    places: dict[str, set[str]] = {}
    for name in (*CDC, *CONNECTORS):
        place = ".".join(name.split(".")[:2]) if within(name, "connectors") and not within(name, SHARED) else "all"
        for node in scopes(tree(name)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert place not in places.get(node.name, ()), f"{name}: there is another {node.name}"
                places.setdefault(node.name, set()).add(place)
    assert {name for name, found in places.items() if "all" in found and len(found) > 1} == set()

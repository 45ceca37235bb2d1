"""Lists of sinks: each sink is checked and run as if it were the only one in the file.

    sink:
    - {name: duck, type: duckdb, path: shop.duckdb}
    - {name: search, type: elasticsearch, ..., route: [...], schema.change.behavior: evolve}

`name` identifies a sink, also in the state directory: its index in the list does not matter. A sink's `route` and
`OWN_OPTIONS` override the file's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from cdc.errors import Problem
from cdc.options import SinkOptions
from cdc.spec import tree
from cdc.spec.model import PipelineSpec, SpecWarning
from cdc.spec.tree import Listing, Mapping, Mark, Node, Scalar

OWN_OPTIONS = ("schema.change.behavior", "schema.change.lost-values", "existing-rows")
"""Keys of `pipeline` that a sink of a list may override."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""Valid names of sinks in a list."""
_HINT = "up to 40 letters, digits, `-` and `_`, such as `lake`"


@dataclass(frozen=True, slots=True)
class SinkTree:
    """The file with one of its sinks.

    Attributes:
        root: the file's tree with only this sink, and with its `route` and options of `pipeline` in place.
        name: name of the sink; empty where the file has no list.
        index: its place in the list; None where the file has no list.
        own: keys of `root` that come from the sink's block.
    """

    root: Mapping
    name: str = ""
    index: int | None = None
    own: frozenset[str] = frozenset()

    def path_in_file(self, path: str) -> str:
        """Return the path in the file for a path in `root`."""
        if self.index is None:
            return path
        at = f"sink[{self.index}]"
        if path == "sink" or path.startswith("sink."):
            return at + path.removeprefix("sink")
        if path.startswith("route") and "route" in self.own:
            return f"{at}.{path}"
        option = path.removeprefix("pipeline.")
        return f"{at}.{option}" if option in OWN_OPTIONS and option in self.own else path

    def problem(self, problem: Problem) -> Problem:
        """Relocate a problem of `root` to its path in the file."""
        return replace(problem, path=self.path_in_file(problem.path))

    def warning(self, warning: SpecWarning) -> SpecWarning:
        """Relocate a warning of `root` to its path in the file."""
        return replace(warning, path=self.path_in_file(warning.path))


def of_each_sink(file: str, root: Mapping) -> tuple[Sequence[SinkTree], Sequence[Problem]]:
    """Return the file once per sink, and the problems of the list."""
    listed = root.items.get("sink")
    if not isinstance(listed, Listing):
        return (SinkTree(root),), ()
    problems = list(_problems(file, root, listed))
    if problems:
        return (), problems
    return [_tree(root, item, index) for index, item in enumerate(listed.items) if isinstance(item, Mapping)], ()


def _problems(file: str, root: Mapping, listed: Listing) -> Iterator[Problem]:
    def problem(mark: Mark, path: str, message: str, hint: str) -> Problem:
        return Problem(file, mark.line, mark.column, path, message, hint)

    if not listed.items:
        yield problem(root.keys["sink"], "sink", "is an empty list", "name a sink: `- {name: ..., type: ...}`")
    seen: dict[str, int] = {}
    for index, item in enumerate(listed.items):
        if not isinstance(item, Mapping):
            yield problem(item.mark, f"sink[{index}]", "must be a mapping (`key: value`)", "start with `name:`")
            continue
        path, node = f"sink[{index}].name", item.items.get("name")
        name = node.text if isinstance(node, Scalar) else ""
        if node is None:
            yield problem(item.mark, path, "is missing: it identifies a sink of a list", _HINT)
        elif not NAME.fullmatch(name):
            yield problem(node.mark, path, f"cannot be the name of a sink: {name!r}", _HINT)
        elif name.lower() in seen:
            yield problem(node.mark, path, f"is the name of sink[{seen[name.lower()]}] too", "give each another name")
        else:
            seen[name.lower()] = index


def _tree(root: Mapping, item: Mapping, index: int) -> SinkTree:
    own = frozenset({"route", *OWN_OPTIONS} & item.items.keys())
    sink = _without(item, {"name", *own})
    items, keys = {**root.items, "sink": sink}, dict(root.keys)
    if "route" in own:
        items["route"], keys["route"] = item.items["route"], item.keys["route"]
    options = [key for key in OWN_OPTIONS if key in own]
    pipeline = items.get("pipeline", Mapping(item.mark, {}, {}))
    if options and isinstance(pipeline, Mapping):
        with_own = {**pipeline.items, **{key: item.items[key] for key in options}}
        marks = {**pipeline.keys, **{key: item.keys[key] for key in options}}
        items["pipeline"] = Mapping(pipeline.mark, with_own, marks)
        keys.setdefault("pipeline", item.mark)
    name = item.items["name"]
    assert isinstance(name, Scalar), "names were checked"
    return SinkTree(Mapping(root.mark, items, keys), name.text, index, own)


def _without(block: Mapping, left_out: set[str]) -> Mapping:
    items: dict[str, Node] = {key: node for key, node in block.items.items() if key not in left_out}
    return Mapping(block.mark, items, {key: block.keys[key] for key in items})


def same_targets(root: Mapping, specs: Sequence[PipelineSpec]) -> Iterator[Problem]:
    """Yield problems of sinks that would write the same tables of one target, whatever the source's tables are."""
    for first, second in combinations(specs, 2):
        if first.route == second.route and (shared := _shared(first, second)):
            index = specs.index(second)
            mark = tree.mark_of(root, ("sink", index))
            hint = "give one of them another target, or a `route` to other tables"
            message = f"writes the same tables as {first.sink_name}, in {shared}"
            yield Problem(second.file, mark.line, mark.column, f"sink[{index}]", message, hint)


def with_rivals(specs: Sequence[PipelineSpec]) -> Iterator[PipelineSpec]:
    """Yield each spec with the routes of sinks with the same target; conflicts depend on the source's tables."""
    for spec in specs:
        rivals = {other.sink_name: other.route for other in specs if other is not spec and _shared(spec, other)}
        yield spec.model_copy(update={"rivals": rivals}) if rivals else spec


def _shared(first: PipelineSpec, second: PipelineSpec) -> str:
    """Return the target that both write to; empty for none."""
    one, other = first.sink, second.sink
    if not isinstance(one, SinkOptions) or not isinstance(other, type(one)) or one.naming() != other.naming():
        return ""
    return min({*one.locations()} & {*other.locations()}, default="")

"""`pipeline.user-defined-function`: user functions, as declared in the file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import ClassVar

from cdc.errors import Problem
from cdc.options import Block, Field, FilePath, Remark
from cdc.spec import tree
from cdc.spec.tree import Scalar
from cdc.transform.sqltext import SqlText
from cdc.transform.texts import UserFunction

_PYTHON = "write it in Python: `python-code: |` with `def eval(x: int) -> int:`, or `module: package:function`"

PATH: tree.Path = ("pipeline", "user-defined-function")


class FunctionBlock(Block):
    """A function for transforms, in Python: inline, or from a module."""

    flink_only: ClassVar[dict[str, str]] = {
        "python-executable": "functions run in the Python that runs the pipeline",
    }

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name in expressions, case-insensitive.")
    python_code: str | None = Field(
        None, alias="python-code", description="Python source with one top-level function `eval`, annotated with types."
    )
    module: str | None = Field(
        None, description="A function installed where the pipeline runs: `package.module:function`."
    )
    python_files: list[FilePath] | None = Field(
        None,
        alias="python-files",
        description="Folders and zip files that the code imports from; they must exist on every worker.",
    )
    options: dict[str, str] | None = Field(None, description="Passed to the function `open` of the code.")
    classpath: str | None = Field(None, description="A Java class: refused, write functions in Python.")

    def problems(self) -> Iterator[Remark]:
        """Yield a problem unless exactly one of the two forms is used."""
        if self.classpath is not None:
            yield Remark("classpath", "a Java class cannot be called", _PYTHON)
        elif (self.python_code is None) == (self.module is None):
            fault = "needs python-code or module" if self.module is None else "has both python-code and module"
            yield Remark("name" if self.module is None else "module", fault, _PYTHON)

    def function(self) -> UserFunction:
        """Return the function for the rules."""
        paths = tuple(self.python_files or ())
        return UserFunction(self.name, self.python_code or "", self.module or "", dict(self.options or {}), paths)


def load_problems(
    root: tree.Mapping, file: str, text: str, functions: Sequence[tuple[int, UserFunction]]
) -> Iterator[tuple[str, Problem]]:
    """Yield the names of functions that cannot be loaded, with the reason; `functions` are given with their list index.

    Loading executes module-level code.
    """
    if not functions:
        return
    from cdc.transform.user import FunctionError, load

    names: set[str] = set()
    for number, function in functions:
        if function.name.upper() in names:
            yield (
                function.name,
                _problem(root, file, (*PATH, number, "name"), "a function of this name already exists"),
            )
        names.add(function.name.upper())
        before = list(sys.path)
        try:
            load(function)
        except FunctionError as error:
            yield function.name, _code_problem(root, file, text, number, error.line, str(error))
        finally:
            sys.path[:] = before


def _code_problem(root: tree.Mapping, file: str, text: str, number: int, line: int, message: str) -> Problem:
    path = (*PATH, number, "python-code")
    node = tree.find(root, path)
    if not isinstance(node, Scalar):
        return _problem(root, file, (*PATH, number, "module"), message)
    if node.substituted or not line:
        return _problem(root, file, path, message)
    code = SqlText.in_file(node.text, file=file, path="", source=text, line=node.mark.line, column=node.mark.column)
    start = sum(len(each) for each in node.text.splitlines(keepends=True)[: line - 1])
    at_line, column = code.place(start)
    return Problem(file, at_line, column, tree.dotted(path), message)


def _problem(root: tree.Mapping, file: str, path: tree.Path, message: str) -> Problem:
    mark = tree.mark_of(root, path)
    return Problem(file, mark.line, mark.column, tree.dotted(path), message)

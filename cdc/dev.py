"""`cdc dev NAME`: development servers on this machine, from the entry points of the group `cdc.dev`.

They are not part of this package but of `cdc-dev-servers`, in the folder `tests/devservers` of the source tree. An
entry point names a function whose annotated parameters are the command's flags.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

GROUP = "cdc.dev"
NOT_INSTALLED = (
    "the servers for trials are not installed: in a clone of the source tree `make setup` installs them, or "
    "`pip install --no-deps --no-build-isolation tests/devservers`"
)


class DevGroup(TyperGroup):
    """Command group with one command per entry point, loaded when it is called or listed by help.

    When no server is installed, its methods raise a usage error (exit 2) that says what to install.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the installed servers."""
        return sorted(servers())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of one server; an unknown name is a usage error that lists the servers."""
        found = servers()
        if cmd_name not in found:
            raise typer.BadParameter(f"no server is named {cmd_name!r}; there are {', '.join(sorted(found))}")
        one = typer.Typer(add_completion=False, rich_markup_mode=None)
        one.command(cmd_name)(found[cmd_name].load())
        return typer.main.get_command(one)


def servers() -> dict[str, EntryPoint]:
    """Return the entry points of all installed servers, by name. Raises typer.BadParameter when there is none."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not found:
        raise typer.BadParameter(NOT_INSTALLED)
    return found

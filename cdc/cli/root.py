"""The Typer application of all commands, and their common arguments."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cdc import __version__
from cdc.dev import DevGroup

EXIT_CODES = """
Exit codes: 0 done; 1 a test of `cdc test` failed, or `cdc verify` has not found all
tables equal; 2 the pipeline file or the command line is wrong; 3 the source
failed; 4 the sink failed; 5 the engine failed (Spark, Java, the state directory); 130 a second signal ended the run at
once; 141 the output was closed by its reader. CDC_DEBUG=1 shows where an error came from.
"""


class _Commands(TyperGroup):
    """The group of all commands. Refuses empty arguments, such as of unset shell variables: as a path they would mean
    the working folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises typer.BadParameter for an empty one."""
        for before, argument in zip([ctx.info_name, *args], args, strict=False):
            if not re.sub(r"^--\w[\w-]*=", "", argument).strip():
                place = f"`{argument.strip()}`" if argument.strip() else f"the argument after `{before}`"
                raise typer.BadParameter(f"{place} is empty: is the shell variable set?")
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="cdc",
    cls=_Commands,
    help="Change data capture pipelines in YAML: MySQL, MariaDB and Kafka topics to tables and topics, exactly once.",
    epilog=" ".join(EXIT_CODES.split()),
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

dev = typer.Typer(cls=DevGroup, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(dev, name="dev", help="Servers on this machine, to try pipelines without a cluster.")

StateDirOption = Annotated[Path | None, typer.Option(metavar="DIR", help="The pipeline's state directory.")]
OneSink = Annotated[str | None, typer.Option("--sink", metavar="NAME", help="Only this sink, of a file with several.")]
PipelineFile = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file; - is standard input.")]


STDIN = "stdin.yaml"
"""Name in messages of a pipeline from standard input; its relative paths start at the working folder."""


def text_of(file: str) -> str | None:
    """Read standard input for the file `-`; return None for other files."""
    if file != "-":
        return None
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"standard input is not UTF-8: {error}") from error


def shown_name(file: str) -> str:
    """Return the file's name for messages."""
    return STDIN if file == "-" else file


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cdc {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Process the options of the command itself."""

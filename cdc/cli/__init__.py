"""The command line. The only package that prints results and exits.

Each file has a group of commands; importing it registers them with `cdc.cli.root.app`. Heavy modules are imported in
the function of the command that needs them.
"""

from cdc.cli import begin, checks, files, life, runs, serve, status
from cdc.cli.entry import main
from cdc.cli.root import app

__all__ = ["app", "begin", "checks", "files", "life", "main", "runs", "serve", "status"]

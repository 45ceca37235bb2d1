"""The command line: argv to calls. The only package that prints results and exits.

A file holds a group of commands; importing it registers them with `cdc.cli.root.app`. What is heavy is imported in the
function of the command that needs it.
"""

from cdc.cli import begin, checks, files, life, runs, serve, status
from cdc.cli.entry import main
from cdc.cli.root import app

__all__ = ["app", "begin", "checks", "files", "life", "main", "runs", "serve", "status"]

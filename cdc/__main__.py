"""Entry point of the `cdc` command and of `python -m cdc`."""

from __future__ import annotations

import sys

from cdc.process.signals import ABORTED, exit_on_signal


def main() -> None:
    """Run the `cdc` command."""
    exit_on_signal(sys.argv[1:])  # before anything that takes time is imported
    try:
        from cdc.cli import main as run_command
    except KeyboardInterrupt:
        sys.exit(ABORTED)
    run_command()


if __name__ == "__main__":
    main()

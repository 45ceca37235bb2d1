"""`python -m cdc_services install [NAME ...]` and `python -m cdc_services list`; exit 1 when one is missing."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cdc_services.apt_sources import mirror
from cdc_services.iceberg import install as iceberg
from cdc_services.iceberg import spark
from cdc_services.install import install, present
from cdc_services.installation import FLAVORS, Installation, find, services_dir
from cdc_services.kafka import install as kafka
from cdc_services.paimon import install as paimon
from cdc_services.search import install as search

NAMES = (*FLAVORS, kafka.NAME, paimon.NAME, iceberg.NAME, spark.NAME, *search.DISTRIBUTIONS)
OPTIONAL = (spark.NAME, *search.OPTIONAL)
REGULAR = tuple(name for name in NAMES if name not in OPTIONAL)


@dataclass(frozen=True, slots=True)
class _Other:
    """A service that is no MySQL or MariaDB: how it is found, brought, and described once it is there."""

    find: Callable[[], Any]
    install: Callable[[Path, Callable[[str], None]], object]
    describe: Callable[[Any], str]


_OTHERS = {
    kafka.NAME: _Other(kafka.find, kafka.install, lambda found: f"{found.version} at {found.libs}"),
    paimon.NAME: _Other(paimon.find, paimon.install, lambda found: f"{paimon.VERSION} at {found.folder}"),
    iceberg.NAME: _Other(iceberg.installed, iceberg.install, lambda found: f"the reader at {found}"),
    spark.NAME: _Other(spark.find, spark.install, lambda found: f"Spark at {found.folder}"),
} | {
    name: _Other(
        partial(search.find, name), partial(search.install, name), lambda found: f"{found.version} at {found.home}"
    )
    for name in search.DISTRIBUTIONS
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cdc_services", description="Real servers for tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="unpack servers into the cache folder (no root needed)")
    installing.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(NAMES)}; without a name all but {', '.join(OPTIONAL)}",
    )
    installing.add_argument("--mirror", help="Debian mirror; default: CDC_DEBIAN_MIRROR, else the one apt uses")
    installing.add_argument("--again", action="store_true", help="install even if a server is there")
    commands.add_parser("list", help="show which servers are there")
    chosen = parser.parse_args(arguments)
    if chosen.command == "list":
        return _list()
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown service {', '.join(unknown)}; known: {', '.join(NAMES)}")
    return max(_install(name, chosen.mirror, again=chosen.again) for name in chosen.names or REGULAR)


def _install(flavor: str, base: str | None, *, again: bool) -> int:
    try:
        if flavor in _OTHERS:
            return _install_other(flavor, again=again)
        found = None if again else present(flavor, services_dir())
        if found is not None:
            _say(f"{flavor}: {_describe(found)} is there already")
            return 0
        install(flavor, services_dir(), base or mirror(), _say)
    except (LookupError, ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{flavor}: not installed: {error}\n")
        return 1
    return 0


def _install_other(name: str, *, again: bool) -> int:
    other = _OTHERS[name]
    found = None if again else other.find()
    if found is None:
        other.install(services_dir(), _say)
    else:
        _say(f"{name}: {other.describe(found)} is there already")
    return 0


def _list() -> int:
    for flavor in FLAVORS:
        found = find(flavor)
        _say(f"{flavor}: {_describe(found) if found else 'not installed'}")
    for name in (kafka.NAME, paimon.NAME, *search.DISTRIBUTIONS):
        other = _OTHERS[name].find()
        _say(f"{name}: {_OTHERS[name].describe(other) if other else 'not installed'}")
    return 0


def _describe(found: Installation) -> str:
    program = next(word for word in reversed(found.command) if not word.startswith("-"))
    return f"{found.version} at {program}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

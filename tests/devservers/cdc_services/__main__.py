"""`python -m cdc_services install [NAME ...]` and `python -m cdc_services list`; exit 1 when one is missing."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

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
        if flavor == kafka.NAME:
            return _install_kafka(again=again)
        if flavor == paimon.NAME:
            return _install_paimon(again=again)
        if flavor == iceberg.NAME:
            return _install_iceberg(again=again)
        if flavor == spark.NAME:
            return _install_spark(again=again)
        if flavor in search.DISTRIBUTIONS:
            return _install_search(flavor, again=again)
        found = None if again else present(flavor, services_dir())
        if found is not None:
            _say(f"{flavor}: {_describe(found)} is there already")
            return 0
        install(flavor, services_dir(), base or mirror(), _say)
    except (LookupError, ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{flavor}: not installed: {error}\n")
        return 1
    return 0


def _install_kafka(*, again: bool) -> int:
    found = None if again else kafka.find()
    if found is None:
        kafka.install(services_dir(), _say)
    else:
        _say(f"{kafka.NAME}: {found.version} at {found.libs} is there already")
    return 0


def _install_paimon(*, again: bool) -> int:
    found = None if again else paimon.find()
    if found is None:
        paimon.install(services_dir(), _say)
    else:
        _say(f"{paimon.NAME}: {paimon.VERSION} at {found.folder} is there already")
    return 0


def _install_iceberg(*, again: bool) -> int:
    found = None if again else iceberg.installed()
    if found is None:
        iceberg.install(services_dir(), _say)
    else:
        _say(f"{iceberg.NAME}: the reader at {found} is there already")
    return 0


def _install_spark(*, again: bool) -> int:
    found = None if again else spark.find()
    if found is None:
        spark.install(services_dir(), _say)
    else:
        _say(f"{spark.NAME}: Spark at {found.folder} is there already")
    return 0


def _install_search(name: str, *, again: bool) -> int:
    found = None if again else search.find(name)
    if found is None:
        search.install(name, services_dir(), _say)
    else:
        _say(f"{name}: {found.version} at {found.home} is there already")
    return 0


def _list() -> int:
    for flavor in FLAVORS:
        found = find(flavor)
        _say(f"{flavor}: {_describe(found) if found else 'not installed'}")
    broker = kafka.find()
    _say(f"{kafka.NAME}: {f'{broker.version} at {broker.libs}' if broker else 'not installed'}")
    library = paimon.find()
    _say(f"{paimon.NAME}: {f'{paimon.VERSION} at {library.folder}' if library else 'not installed'}")
    for name in search.DISTRIBUTIONS:
        server = search.find(name)
        _say(f"{name}: {f'{server.version} at {server.home}' if server else 'not installed'}")
    return 0


def _describe(found: Installation) -> str:
    program = next(word for word in reversed(found.command) if not word.startswith("-"))
    return f"{found.version} at {program}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Install a server into the cache folder: Debian packages with the libraries they need, unpacked, never installed."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cdc_services.download import fetch
from cdc_services.installation import (
    MANIFEST,
    Installation,
    from_manifest,
    on_path,
    unpacked_packages,
    write_manifest,
)
from cdc_services.packages import Package, closure
from cdc_services.suite import read_index

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which packages of which suite make a server; dependencies are followed where their name begins like this."""

    suite: str
    packages: tuple[str, ...]
    follow: tuple[str, ...]


RECIPES = {
    "mysql": Recipe("sid", ("mysql-server-core", "mysql-client-core"), ("lib", "mysql")),
    "mariadb": Recipe("bookworm", ("mariadb-server-core", "mariadb-server", "mariadb-client"), ("lib", "zlib1g")),
}
"""MariaDB's plugins are in `mariadb-server`, its dump program in `mariadb-client`."""


def install(flavor: str, cache: Path, mirror: str, say: Callable[[str], None]) -> Installation:
    """Download, check and unpack; a run that was cut continues where it stopped. Needs no root.

    Raises LookupError, ValueError or OSError, each with what went wrong.
    """
    recipe = RECIPES[flavor]
    folder = cache / flavor
    packages, trust = read_index(mirror, recipe.suite, _architecture())
    wanted = closure(packages, recipe.packages, lambda name: name.startswith(recipe.follow))
    say(f"{flavor}: {len(wanted)} packages of {recipe.suite}, {sum(p.size for p in wanted) / 1e6:.0f} MB")
    archives = download(wanted, mirror, folder / "debs")
    say(f"{flavor}: {trust}")
    unpack(archives, folder)
    found = write_manifest(folder, flavor, {package.name: package.version for package in wanted})
    shutil.rmtree(folder / "debs")
    say(f"{flavor}: {found.version} is in {folder}")
    return found


def present(flavor: str, cache: Path) -> Installation | None:
    """What needs no installing: the unpacked server with all its packages, or for MariaDB the system's."""
    folder = cache / flavor
    if (folder / MANIFEST).is_file():
        return from_manifest(folder) if set(RECIPES[flavor].packages) <= unpacked_packages(folder) else None
    return on_path() if flavor == "mariadb" else None


def download(packages: Sequence[Package], mirror: str, folder: Path) -> list[Path]:
    """All packages as files with the right checksum, in the order given."""
    folder.mkdir(parents=True, exist_ok=True)

    def one(package: Package) -> Path:
        target = folder / package.filename.rpartition("/")[2]
        return fetch(f"{mirror}/{package.filename}", target, size=package.size, sha256=package.sha256)

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(one, packages))


def unpack(archives: Sequence[Path], folder: Path) -> None:
    """Replace `folder/root` by the contents of the packages. Raises LookupError without `dpkg-deb`."""
    if shutil.which("dpkg-deb") is None:
        raise LookupError("dpkg-deb is needed to unpack packages and is not on this machine")
    root, part = folder / "root", folder / "root.part"
    (folder / MANIFEST).unlink(missing_ok=True)
    for old in (root, part):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    for archive in archives:
        subprocess.run(["dpkg-deb", "-x", str(archive), str(part)], check=True)
    part.replace(root)


def _architecture() -> str:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise LookupError(f"no packages for a {machine} machine; known: {', '.join(_ARCHITECTURES)}")
    return _ARCHITECTURES[machine]

"""Where an installed server is, and how its program is called."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "service.json"
_DAEMON = {"mysql": "mysqld", "mariadb": "mariadbd"}
FLAVORS = tuple(_DAEMON)

TRIPLETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
_NEWEST_ON_PATH = 10
"""MariaDB 11.8 logs updated rows without their generated columns, which a few tests are about."""
_LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


@dataclass(frozen=True, slots=True)
class Installation:
    """A server program on this machine.

    Attributes:
        flavor: `mysql` or `mariadb`.
        version: as the program itself reports it, such as `9.7.4`.
        command: the words that start the program; server options follow. `--no-defaults` is already among them.
        share: the folder of its SQL scripts and error messages.
    """

    flavor: str
    version: str
    command: tuple[str, ...]
    share: Path

    def client(self, name: str) -> tuple[str, ...]:
        """The words that start a client program that came with the server. Raises LookupError when none did."""
        at = next(place for place, word in enumerate(self.command) if Path(word).name == _DAEMON[self.flavor])
        program = Path(self.command[at]).parents[1] / "bin" / name
        if not program.is_file():
            raise LookupError(f"{program} is not there")
        return (*self.command[:at], str(program))


def services_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache folder of installed services: `CDC_SERVICES_DIR`, else `~/.cache/cdc/services`."""
    chosen = environ.get("CDC_SERVICES_DIR")
    return Path(chosen) if chosen else Path.home() / ".cache" / "cdc" / "services"


def find(flavor: str, environ: Mapping[str, str] = os.environ) -> Installation | None:
    """The server of that flavor to use: the unpacked one, else (MariaDB only) one installed on the system."""
    unpacked = services_dir(environ) / flavor
    if (unpacked / MANIFEST).is_file():
        return from_manifest(unpacked)
    return on_path() if flavor == "mariadb" else None


def from_manifest(folder: Path) -> Installation:
    """The installation that `write_manifest` described."""
    fields = json.loads((folder / MANIFEST).read_text())
    return describe(fields["flavor"], folder / "root", fields["version"])


def unpacked_packages(folder: Path) -> set[str]:
    """The names of the packages in an unpacked server's manifest."""
    return set(json.loads((folder / MANIFEST).read_text())["packages"])


def write_manifest(folder: Path, flavor: str, packages: Mapping[str, str]) -> Installation:
    """Record a finished unpacking; its presence says that the folder is complete. Asks the program for its version."""
    found = describe(flavor, folder / "root", "")
    version = ask_version(found.command)
    text = json.dumps({"flavor": flavor, "version": version, "packages": dict(packages)}, indent=1)
    temporary = folder / (MANIFEST + ".part")
    temporary.write_text(text)
    temporary.replace(folder / MANIFEST)
    return describe(flavor, folder / "root", version)


def describe(flavor: str, root: Path, version: str, machine: str = platform.machine()) -> Installation:
    """How to run the server unpacked in `root`: through that folder's own dynamic loader and libraries.

    The packages may be of a newer Debian than the machine, so the machine's C library is not used.
    Raises LookupError on a machine that these packages do not exist for.
    """
    if machine not in TRIPLETS:
        raise LookupError(f"no packages for a {machine} machine; known: {', '.join(TRIPLETS)}")
    libraries = [part / TRIPLETS[machine] for part in (root / "usr/lib", root / "lib")]
    loader = next((path / _LOADERS[machine] for path in libraries if (path / _LOADERS[machine]).exists()), None)
    if loader is None:
        raise LookupError(f"{root} holds no {_LOADERS[machine]}: the unpacking is not complete")
    search = ":".join(str(path) for path in [*libraries, root / "usr/lib/mysql/private"])
    share = next((path for path in (root / "usr/share/mariadb", root / "usr/share/mysql") if path.is_dir()), root)
    options = ["--no-defaults", f"--basedir={root / 'usr'}"]
    if flavor == "mysql":
        options.append("--secure-file-priv=NULL")
    else:
        named = "mariadb" if (root / "usr/lib/mariadb/plugin").is_dir() else "mysql"
        options.append(f"--plugin-dir={root / 'usr/lib' / named / 'plugin'}")
    command = (str(loader), "--library-path", search, str(root / "usr/sbin" / _DAEMON[flavor]), *options)
    return Installation(flavor, version, command, share)


def on_path() -> Installation | None:
    """A MariaDB server that the system's package manager installed, of a version that the tests are written for."""
    program = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin:/usr/libexec")
    shares = map(Path, ("/usr/share/mysql", "/usr/share/mariadb"))
    share = next((path for path in shares if any(path.glob("*_system_tables.sql"))), None)
    if program is None or share is None:
        return None
    command = (program, "--no-defaults")
    version = ask_version(command)
    if int(version.partition(".")[0]) > _NEWEST_ON_PATH:
        return None
    return Installation("mariadb", version, command, share)


def ask_version(command: tuple[str, ...]) -> str:
    """`9.7.4` out of `mysqld  Ver 9.7.4-2 for ...`. Raises LookupError with the program's own words."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"Ver (\d+\.\d+\.\d+)", done.stdout)
    if match is None:
        raise LookupError(f"{command[0]} does not run: {(done.stderr or done.stdout).strip()[:500]}")
    return match[1]

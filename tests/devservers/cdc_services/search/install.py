"""Install OpenSearch or Elasticsearch into the cache folder: Maven brings a zip, compared with the SHA256 pinned here.

These are the minimal distributions that the projects publish for tests: the real server with the HTTP module.
Elasticsearch is under the Elastic licence: it is brought for use, never kept in a repository. Of later
versions than 8.6 the minimal distribution lacks the module that answers `GET /`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cdc_services.installation import services_dir
from cdc_services.kafka.install import java

HERE = Path(__file__).resolve().parent
FIRST_WITH_AGENT = 3
"""Of OpenSearch's versions."""
FIRST_LAUNCHED = 8
"""Of Elasticsearch's."""
OPTIONAL = frozenset({"opensearch-3", "elasticsearch-8"})
"""Servers that are installed only when they are named: they need more than the others do."""
_UNUSED = re.compile(r"^(bin/|config/|README|lib/tools/(?!ansi-console/)|modules/ingest-geoip/|.*\.(exe|bat)$)")
"""Command line tools, sample configuration and location tables: a server process needs none of them."""


_SPARK_S = 17
"""The oldest Java that Spark runs on: servers that are content with it take Spark's."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A server that Maven can bring. `product` is `opensearch` or `elasticsearch`; `java` the oldest that runs it."""

    name: str
    product: str
    version: str
    sha256: str
    java: int = 11
    size_mb: int = 56

    @property
    def agent(self) -> bool:
        """Whether a Java agent guards it, and not the security manager that Java 24 no longer has."""
        return self.product == "opensearch" and self.major >= FIRST_WITH_AGENT

    @property
    def launched(self) -> bool:
        """Whether it is told what to do on its standard input, by a launcher."""
        return self.product == "elasticsearch" and self.major >= FIRST_LAUNCHED

    @property
    def major(self) -> int:
        """The number before the first dot."""
        return int(self.version.partition(".")[0])


DISTRIBUTIONS = {
    one.name: one
    for one in (
        Distribution(
            "opensearch", "opensearch", "2.19.6", "71d6d8b1c637f3faecda0752b184b1cc526fc6eaad59ec1408c6327bb00b9293"
        ),
        Distribution(
            "elasticsearch",
            "elasticsearch",
            "7.17.29",
            "841ee00be1a72ba8e707b5a2fb55f23fe7a4184369b4585393238b1c903eedaf",
        ),
        Distribution(
            "opensearch-3",
            "opensearch",
            "3.6.0",
            "a91faa1dc1cadc78cb278b4f63847e19e1627a4e9de698e14e7efc14ee37b286",
            java=21,
            size_mb=162,
        ),
        Distribution(
            "elasticsearch-8",
            "elasticsearch",
            "8.6.2",
            "a1d82a014b0dc26aee011d79083f296b10a1ba94ec33b1cf0f7845dfbd95a481",
            java=17,
            size_mb=76,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class SearchInstallation:
    """A server on this machine: `home` holds its jars and modules, `java` runs it."""

    distribution: Distribution
    home: Path
    java: Path

    @property
    def version(self) -> str:
        """Such as `2.19.6`."""
        return self.distribution.version


def find(name: str, environ: Mapping[str, str] = os.environ) -> SearchInstallation | None:
    """The installed server, None when there is none. Raises LookupError without a Java to run it."""
    distribution = DISTRIBUTIONS[name]
    home = services_dir(environ) / f"{name}-{distribution.version}"
    return SearchInstallation(distribution, home, _java(distribution, environ)) if home.is_dir() else None


def install(
    name: str, cache: Path, say: Callable[[str], None], environ: Mapping[str, str] = os.environ
) -> SearchInstallation:
    """Bring, check and unpack; the folder appears whole or not at all. Needs no root.

    Raises LookupError without Maven or Java, ValueError for a zip that is not the pinned one, and OSError with Maven's
    own words.
    """
    distribution = DISTRIBUTIONS[name]
    runtime = _java(distribution, environ)
    cache.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
    try:
        say(f"{name}: Maven brings {distribution.version}, {distribution.size_mb} MB")
        _unpack(_bring(distribution, part / "zip", runtime, environ), part / "home")
        for folder in ("bin", "plugins"):  # the server makes them itself, and ends where it may not
            (part / "home" / folder).mkdir(exist_ok=True)
        target = cache / f"{name}-{distribution.version}"
        shutil.rmtree(target, ignore_errors=True)
        (part / "home").replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    say(f"{name}: {distribution.version} is in {target}, with the SHA256 that is pinned")
    return SearchInstallation(distribution, target, runtime)


def _java(distribution: Distribution, environ: Mapping[str, str]) -> Path:
    """Spark's Java; for a server that needs a newer one, the oldest that suits beside it or in JAVA_HOME."""
    first = java(environ)
    if distribution.java <= _SPARK_S:
        return first
    homes = {first.resolve().parents[1], *first.resolve().parents[2].glob("*")}
    if environ.get("JAVA_HOME"):
        homes.add(Path(environ["JAVA_HOME"]).resolve())
    found = {_version(home / "bin" / "java"): home / "bin" / "java" for home in sorted(homes)}
    fitting = [version for version in found if version >= distribution.java]
    if not fitting:
        raise LookupError(f"{distribution.name} needs Java {distribution.java} or newer: set JAVA_HOME to one")
    return found[min(fitting)]


def _version(runtime: Path) -> int:
    """Such as 17; 0 for what is no Java."""
    if not os.access(runtime, os.X_OK):
        return 0
    said = subprocess.run([runtime, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def _bring(distribution: Distribution, folder: Path, runtime: Path, environ: Mapping[str, str]) -> Path:
    maven = shutil.which("mvn", path=environ.get("PATH", ""))
    if maven is None:
        raise LookupError("Maven (mvn) is needed to bring the server and is not on this machine")
    env = {**environ, "JAVA_HOME": str(runtime.parents[1])}
    command = [
        maven, "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml"), "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}", "-DexcludeTransitive=true", f"-Dproduct={distribution.product}",
        f"-Dversion={distribution.version}",
    ]  # fmt: skip
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = list(folder.glob("*.zip"))
    if done.returncode != 0 or len(found) != 1:
        words = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).strip()
        raise OSError(f"Maven cannot bring the server: {words[-1500:]}")
    digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if digest != distribution.sha256:
        raise ValueError(f"{found[0].name} has the SHA256 {digest}, not the pinned {distribution.sha256}")
    return found[0]


def _unpack(archive: Path, home: Path) -> None:
    """Without the zip's outermost folder."""
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            _, _, name = entry.filename.partition("/")
            if entry.is_dir() or not name or _UNUSED.match(name):
                continue
            target = (home / name).resolve()
            if home.resolve() not in target.parents:
                raise ValueError(f"{archive.name} has an entry outside of its folder: {entry.filename}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(packed.read(entry))

"""Install the library into the cache folder: Maven brings the jar, whose SHA256 is pinned; the reader is compiled."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cdc_services.bringing import bring_jar, run, whole
from cdc_services.installation import services_dir
from cdc_services.kafka.install import java

HERE = Path(__file__).resolve().parent
VERSION = "1.4.2"
NAME = "paimon"
_JAR = f"paimon-bundle-{VERSION}.jar"
_SHA256 = "85a1587409e6c044b46eb20370a46ecd288576b8bc7aadf6b0432a4f2370f5d1"


@dataclass(frozen=True, slots=True)
class PaimonInstallation:
    """The library on this machine: `folder` holds the jar and the compiled reader, `java` runs it."""

    folder: Path
    java: Path

    def command(self, options: Mapping[str, str]) -> list[str]:
        """The words that run the reader over a catalog. Hadoop's classes are those that Spark brings."""
        machine = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
        pairs = [f"{name}={value}" for name, value in options.items()]
        return [str(self.java), *machine, "-cp", class_path(self.folder), "Judge", *pairs]


def class_path(folder: Path) -> str:
    """The jar, the reader, and Spark's jars of Hadoop and of logging."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    jars = sorted((Path(found.origin).parent / "jars").glob("*.jar"))
    wanted = [str(jar) for jar in jars if jar.name.startswith(("hadoop-client", "slf4j-api", "log4j-", "commons-logg"))]
    return os.pathsep.join([str(folder / _JAR), str(folder), *wanted])


def find(environ: Mapping[str, str] = os.environ) -> PaimonInstallation | None:
    """The installed library, None when there is none. Raises LookupError without a Java to run it."""
    folder = services_dir(environ) / f"{NAME}-{VERSION}"
    source = folder / "Judge.java"
    if not source.is_file() or source.read_bytes() != (HERE / "Judge.java").read_bytes():
        return None
    return PaimonInstallation(folder, java(environ))


def install(cache: Path, say: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> PaimonInstallation:
    """Bring, check and compile; the folder appears whole or not at all. Needs no root, but a Java with a compiler.

    Raises LookupError without Maven or a compiler, ValueError for a jar that is not the pinned one, OSError with the
    words of Maven or of the compiler.
    """
    runtime = java(environ)
    compiler = shutil.which("javac", path=environ.get("PATH", ""))
    if compiler is None:
        raise LookupError("a Java compiler (javac) is needed and is not on this machine")
    target = cache / f"{NAME}-{VERSION}"
    with whole(target) as part:
        say(f"{NAME}: Maven brings {_JAR}, 49 MB")
        bring_jar(f"org.apache.paimon:paimon-bundle:{VERSION}", _SHA256, part, runtime, environ)
        shutil.copy(HERE / "Judge.java", part)
        run([compiler, "-nowarn", "-cp", class_path(part), "-d", str(part), str(part / "Judge.java")], environ)
    say(f"{NAME}: {VERSION} is in {target}")
    return PaimonInstallation(target, runtime)

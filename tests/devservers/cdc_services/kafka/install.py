"""Install the broker into the cache folder: Maven brings its jars, each is compared with the SHA256 pinned here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cdc_services.bringing import whole
from cdc_services.download import digest
from cdc_services.installation import services_dir

HERE = Path(__file__).resolve().parent
VERSION = "4.4.0"
NAME = "kafka"
CLUSTER_ID = "Y2RjLXRyaWFscy1vbmx5MQ"
"""Of every broker for trials: 16 bytes in URL-safe base64, as Kafka wants them."""

_OLDEST_JAVA = 17
_NO_MAVEN = "Maven (mvn) is needed to bring the broker's jars and is not on this machine"


@dataclass(frozen=True, slots=True)
class KafkaInstallation:
    """A broker on this machine: `libs` holds its jars, `template` a formatted data folder to copy, `java` runs it."""

    libs: Path
    template: Path
    java: Path
    version: str = VERSION

    def command(self, program: str, *arguments: str, heap: str = "384m") -> list[str]:
        """The words that run a program of the broker's jars."""
        # The serial collector and the first compiler only: a broker for trials shares few cores with what it serves.
        machine = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
        return [str(self.java), *machine, logging, "-cp", str(self.libs / "*"), program, *arguments]


def find(environ: Mapping[str, str] = os.environ) -> KafkaInstallation | None:
    """The installed broker, None when there is none. Raises LookupError without a Java to run it."""
    folder = services_dir(environ) / f"{NAME}-{VERSION}"
    if not folder.is_dir():
        return None
    return KafkaInstallation(folder / "libs", folder / "template", java(environ))


def install(cache: Path, say: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> KafkaInstallation:
    """Bring, check and format; the folder appears whole or not at all. Needs no root.

    Raises LookupError without Maven or Java, ValueError for a jar that is not the pinned one, and OSError or
    CalledProcessError with Maven's own words.
    """
    runtime = java(environ)
    target = cache / f"{NAME}-{VERSION}"
    with whole(target) as part:
        say(f"{NAME}: Maven brings the jars of {VERSION}, 43 MB")
        _bring(part / "libs", runtime, environ)
        check(part / "libs", pinned())
        say(f"{NAME}: every jar has the SHA256 that is pinned")
        _format(KafkaInstallation(part / "libs", part / "template", runtime), part / "format.properties")
    say(f"{NAME}: {VERSION} is in {target}")
    return KafkaInstallation(target / "libs", target / "template", runtime)


def pinned() -> dict[str, str]:
    """SHA256 of each jar by its file name."""
    lines = (HERE / "jars.sha256").read_text(encoding="utf-8").split("\n")
    return {name: digest for digest, name in (line.split() for line in lines if line)}


def check(folder: Path, wanted: Mapping[str, str]) -> None:
    """Raise ValueError unless the folder holds exactly these files with these checksums."""
    there = {path.name: digest(path) for path in folder.iterdir()}
    wrong = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
    if wrong:
        raise ValueError(f"these files are missing, unknown, or not the pinned ones: {', '.join(wrong)}")


def java(environ: Mapping[str, str] = os.environ) -> Path:
    """The `java` that Spark runs on here too. Raises LookupError when there is none."""
    from cdc.errors import EngineError
    from cdc.job.spark.java import choose_java

    try:
        return choose_java(environ).runtime / "bin" / "java"
    except EngineError as error:
        raise LookupError(str(error)) from error


def _bring(libs: Path, runtime: Path, environ: Mapping[str, str]) -> None:
    maven = shutil.which("mvn", path=environ.get("PATH", ""))
    if maven is None:
        raise LookupError(_NO_MAVEN)
    # Maven asks JAVA_HOME first; one that is wrong there would fail although a good Java was found.
    env = {**environ, "JAVA_HOME": str(runtime.parents[1])}
    command = [maven, "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    command.append(f"-DoutputDirectory={libs}")
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).strip()
        raise OSError(f"Maven cannot bring the jars: {words[-1500:]}")


def _format(installation: KafkaInstallation, settings: Path) -> None:
    """Make the data folder that each new broker copies: which node and cluster it is, and its first metadata."""
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "listeners": "PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(installation.template),
    }
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(settings))
    command = installation.command("kafka.tools.StorageTool", *arguments)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"the data folder cannot be formatted: {(done.stdout + done.stderr)[-1500:]}")

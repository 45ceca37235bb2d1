"""Install Spark with Iceberg's runtime into the cache folder: the reader of most users, and a Spark of its own.

The runtime is there for Spark 4.1, and this environment's is newer, so both have a folder of their own. Pip brings
Spark, Maven the runtime; both are pinned by hash. 500 MB, so it is installed when it is asked for by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cdc_services.bringing import bring_jar, bring_packages, whole
from cdc_services.installation import services_dir
from cdc_services.kafka.install import java

HERE = Path(__file__).resolve().parent
NAME = "iceberg-spark"
JAR = "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
_ARTIFACT = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
_SHA256 = "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"
_PINS = "requirements-spark.txt"


@dataclass(frozen=True, slots=True)
class SparkInstallation:
    """Spark on this machine: `folder` holds Python packages and the runtime's jar, `java` runs it."""

    folder: Path
    java: Path


def find(environ: Mapping[str, str] = os.environ) -> SparkInstallation | None:
    """The installed Spark, None when there is none, or one of other pins. Raises LookupError without a Java."""
    folder = services_dir(environ) / NAME
    pins = folder / _PINS
    if not (folder / JAR).is_file() or not pins.is_file() or pins.read_bytes() != (HERE / _PINS).read_bytes():
        return None
    return SparkInstallation(folder, java(environ))


def install(cache: Path, say: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Path:
    """Bring and check; the folder appears whole or not at all.

    Raises LookupError without Maven, ValueError for a jar that is not the pinned one, OSError with pip's or Maven's
    words.
    """
    target = cache / NAME
    with whole(target) as part:
        say(f"{NAME}: Maven brings {JAR}, 48 MB")
        bring_jar(_ARTIFACT, _SHA256, part, java(environ), environ)
        say(f"{NAME}: pip brings Spark, 450 MB")
        bring_packages(HERE / _PINS, part, environ, "--no-build-isolation")
    say(f"{NAME}: Spark is in {target}")
    return target

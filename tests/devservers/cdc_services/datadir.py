"""Fresh data folders: made once per installation, kept in the cache folder, copied for each server."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from cdc_services.installation import Installation
from cdc_services.process import user_option

ROOT_PASSWORD = "cdc-root-pass"  # of throw-away servers that listen on the loopback interface only
_MARIADB_SCRIPTS = ("system_tables.sql", "performance_tables.sql", "system_tables_data.sql")


def fresh(installation: Installation, cache: Path, target: Path) -> None:
    """Fill `target` with an initialized data folder. Its user is `root`@`localhost` with `ROOT_PASSWORD`."""
    shutil.copytree(template(installation, cache), target, dirs_exist_ok=True)


def template(installation: Installation, cache: Path) -> Path:
    """The folder to copy; made by whoever comes first, others wait for it."""
    key = hashlib.sha256("\0".join((installation.version, *installation.command)).encode()).hexdigest()[:12]
    folder = cache / "templates" / f"{installation.flavor}-{installation.version}-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            part = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
            try:
                _initialize(installation, part)
                part.replace(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder


def _initialize(installation: Installation, datadir: Path) -> None:
    if installation.flavor == "mysql":
        _initialize_mysql(installation, datadir)
    else:
        _initialize_mariadb(installation, datadir)


def _initialize_mysql(installation: Installation, datadir: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{ROOT_PASSWORD}';\n")
        script.flush()
        options = ["--initialize-insecure", f"--datadir={datadir}", f"--init-file={script.name}", "--mysqlx=OFF"]
        _run([*installation.command, *user_option(), *options, "--innodb-redo-log-capacity=8M"], "")
    (datadir / "auto.cnf").unlink()  # each copy gets a server id of its own


def _initialize_mariadb(installation: Installation, datadir: Path) -> None:
    scripts = [_mariadb_script(installation.share, name) for name in _MARIADB_SCRIPTS]
    sql = ["CREATE DATABASE IF NOT EXISTS mysql;", "USE mysql;", "SET @auth_root_socket=NULL;", *scripts]
    sql += ["FLUSH PRIVILEGES;", f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{ROOT_PASSWORD}';"]
    (datadir / "mysql").mkdir()
    options = ["--bootstrap", f"--datadir={datadir}", f"--lc-messages-dir={installation.share}"]
    options += ["--skip-networking", "--innodb-log-file-size=16M", "--log-warnings=0", "--enforce-storage-engine="]
    _run([*installation.command, *user_option(), *options], "\n".join(sql) + "\n")


def _mariadb_script(share: Path, name: str) -> str:
    """The text of a script, which is named after MySQL before MariaDB 11."""
    found = next((path for path in (share / f"mariadb_{name}", share / f"mysql_{name}") if path.is_file()), None)
    if found is None:
        raise RuntimeError(f"cannot initialize a data folder: {share} has no mariadb_{name}")
    return found.read_text(errors="replace")


def _run(command: list[str], text: str) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cannot initialize a data folder: {(done.stderr + done.stdout)[-2000:]}")

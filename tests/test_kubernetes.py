"""The image and the manifests of docs/kubernetes hold against the code; no cluster is asked."""

from __future__ import annotations

import os
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from cdc.cli import app
from cdc.spec.check import check

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "kubernetes"


def documents(file: str) -> dict[str, Any]:
    """The documents of a manifest by their kinds."""
    return {each["kind"]: each for each in yaml.safe_load_all((FOLDER / file).read_text(encoding="utf-8"))}


DOCUMENTS = documents("serve.yaml")
SPARK = documents("spark.yaml")
POD = DOCUMENTS["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
STEPS = [
    line.split(maxsplit=1)
    for line in (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]


def test_the_flags_of_the_pod_are_those_of_the_command() -> None:
    serve, *arguments = CONTAINER["args"]
    root = typer.main.get_command(app)
    command = root.commands[serve]  # type: ignore[attr-defined]
    given, rest, _ = command.make_parser(typer.Context(command, info_name=serve)).parse_args(list(arguments))
    assert rest == []
    assert (given["port"], given["host"], given["state_root"]) == ("8380", "0.0.0.0", "/state")
    assert [mount["name"] for mount in CONTAINER["volumeMounts"]] == [volume["name"] for volume in POD["volumes"]]
    mounts = {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert {given["folder"], given["state_root"], "/cache", "/tmp"} == mounts
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"web": int(given["port"])}
    names = given["host_name"]
    assert names == [DOCUMENTS["Service"]["metadata"]["name"]]


@pytest.mark.parametrize(
    ("pipelines", "env"), [(DOCUMENTS, CONTAINER["env"]), (SPARK, SPARK["SparkApplication"]["spec"]["driver"]["env"])]
)
def test_the_pipelines_of_a_manifest_are_valid_and_take_passwords_from_the_secret(pipelines: Any, env: Any) -> None:
    variables = {each["name"]: each["valueFrom"]["secretKeyRef"]["name"] for each in env}
    assert set(variables.values()) == {"cdc"}
    for name, text in pipelines["ConfigMap"]["data"].items():
        spec = check(name, text.encode(), env=dict.fromkeys(variables, "a word")).spec
        assert set(spec.secret_variables) <= set(variables)
        assert spec.secret_variables


def test_one_pod_at_a_time_and_without_rights() -> None:
    deployment = DOCUMENTS["Deployment"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert DOCUMENTS["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    user = next(value for step, value in reversed(STEPS) if step == "USER")
    assert user == f"{POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == DOCUMENTS["Service"]["spec"]["selector"]


def test_the_spark_operator_starts_what_the_image_has() -> None:
    application = SPARK["SparkApplication"]["spec"]
    command, *arguments = application["arguments"]
    run = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    given, rest, _ = run.make_parser(typer.Context(run, info_name=command)).parse_args(list(arguments))
    mounts = {each["mountPath"]: each["name"] for each in application["driver"]["volumeMounts"]}
    assert (rest, given["state_dir"]) == ([], "s3://bucket/cdc/orders")
    assert Path(given["file"]).name in SPARK["ConfigMap"]["data"]
    assert mounts[str(Path(given["file"]).parent)] == "pipelines"
    assert {each["name"] for each in application["volumes"]} == set(mounts.values())
    main = application["mainApplicationFile"].removeprefix("local://")
    assert any(step == "RUN" and value.endswith(f"> {main}") for step, value in STEPS)
    assert f"^{main}$" in (FOLDER / "entrypoint.sh").read_text(encoding="utf-8")
    assert application["driver"]["serviceAccount"] == SPARK["ServiceAccount"]["metadata"]["name"]
    for role in ("driver", "executor"):
        context = application[role]["securityContext"]
        assert {key: context[key] for key in CONTAINER["securityContext"]} == CONTAINER["securityContext"]
        assert {context[key] == POD["securityContext"][key] for key in ("runAsUser", "runAsGroup")} == {True}
    assert application["sparkVersion"] == metadata.version("pyspark")


ASKED = {
    "SPARK_EXECUTOR_MEMORY": "512m", "SPARK_DRIVER_URL": "spark://there", "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "1", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
    "SPARK_DRIVER_BIND_ADDRESS": "0.0.0.0",
    "SPARK_JAVA_OPT_10": "-Dlast=1", "SPARK_JAVA_OPT_0": "-Dwith=two words",
}  # fmt: skip
"""What Spark's scheduler tells an image in the environment."""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["status", "-h"], r"cdc\|status\|-h"),
        (["executor"], r"java\|-Dwith=two words\|-Dlast=1\|-Xms512m\|.*\|--driver-url\|spark://there\|.*\|orders-exec-3"),
        (["driver", "--class", "x", "main.py", "run"], r"spark-submit\|.*=0\.0\.0\.0\|--class\|x\|main\.py\|run"),
    ],
)  # fmt: skip
def test_the_entry_point_starts_what_it_is_asked_for(arguments: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("cdc", "java", "spark-submit", "python"):
        found = (
            f"echo {tmp_path} {tmp_path}" if name == "python" else f"printf '%s' {name}; printf '|%s' \"$@\"; exit 7"
        )
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{found}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", **ASKED}
    done = subprocess.run(
        ["sh", str(FOLDER / "entrypoint.sh"), *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (7, "")
    assert re.fullmatch(told, done.stdout)


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe"])
def test_probes_ask_what_the_server_answers_without_a_login(probe: str) -> None:
    from cdc.web import app as web
    from cdc.web import guard

    path = CONTAINER[probe]["httpGet"]["path"]
    assert path in guard._OPEN
    assert f'Route("{path}"' in Path(web.__file__).read_text(encoding="utf-8")


def test_the_image_is_built_from_files_that_are_there_on_a_python_that_is_supported() -> None:
    for step, value in STEPS:
        if step == "COPY" and not value.startswith("--from"):
            for name in value.split()[:-1]:
                assert (ROOT / name).exists(), name
    bases = {value.split()[0] for step, value in STEPS if step == "FROM"}
    wanted = re.search(r"^requires-python = \">=(3\.\d+),", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert wanted is not None
    assert bases == {f"python:{wanted[1]}-slim-bookworm"}

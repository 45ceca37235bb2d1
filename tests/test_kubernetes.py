"""The image and the manifests of docs/kubernetes hold against the code; no cluster is asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from cdc.cli import app
from cdc.spec.check import check

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "kubernetes"
DOCUMENTS: dict[str, Any] = {
    document["kind"]: document
    for document in yaml.safe_load_all((FOLDER / "serve.yaml").read_text(encoding="utf-8"))
}  # fmt: skip
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


def test_the_pipelines_of_the_manifest_are_valid_and_take_passwords_from_the_secret() -> None:
    variables = {each["name"]: each["valueFrom"]["secretKeyRef"]["name"] for each in CONTAINER["env"]}
    assert set(variables.values()) == {"cdc"}
    for name, text in DOCUMENTS["ConfigMap"]["data"].items():
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

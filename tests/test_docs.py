"""The documentation is true: commands, options, errors, links and examples are held against the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from cdc import errors, registry
from cdc.cli import app
from cdc.source import Context
from cdc.spec.check import Checked, check
from cdc.state.store import LocalStore

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its words; those of `cdc dev` come from the servers that are installed."""
    root = typer.main.get_command(app)
    context = typer.Context(root)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "list_commands"):
            for inner in command.list_commands(context):
                yield f"{name} {inner}", command.get_command(context, inner)
        else:
            yield name, command


ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.CdcError)]
ENVIRONMENT = dict.fromkeys(
    ("MYSQL_PASSWORD", "SINK_PASSWORD", "DORIS_PASSWORD", "STARROCKS_PASSWORD", "S3_KEY", "S3_SECRET"),
    "secret",
)
ENVIRONMENT |= {"HASH_KEY": "sixteen characters, or more", "MODEL_KEY": "secret"}
ENVIRONMENT |= {"SLACK_WEBHOOK": "https://hooks.slack.com/x"}


def prose(page: str) -> str:
    """A page without its code blocks."""
    return re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)


def test_every_command_is_documented_with_its_options() -> None:
    page = PAGES["docs/cli.md"]
    for name, command in commands():
        assert f"cdc {name}" in page
        for parameter in command.params:
            for flag in [option for option in parameter.opts if option.startswith("--") and option != "--help"]:
                assert f"`{flag}" in page, f"docs/cli.md says nothing about cdc {name} {flag}"


def test_every_flag_in_the_command_line_page_exists() -> None:
    every = [typer.main.get_command(app), *(command for _, command in commands())]
    known = {option for command in every for parameter in command.params for option in parameter.opts}
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGES["docs/cli.md"]))
    assert shown - known - {"--help"} == set()


@pytest.mark.parametrize("role", ["source", "sink"])
def test_every_option_is_in_the_reference(role: registry.Role) -> None:
    page = PAGES["docs/options.md"]
    for name in registry.names(role):
        section = page.partition(f"## {role.capitalize()} `{name}`")[2].partition("\n## ")[0]
        for field, info in registry.options(role, name).model_fields.items():
            if not info.exclude:
                assert f"`{info.alias or field}`" in section, f"docs/options.md lacks {role} {name}: {info.alias}"


def test_every_error_has_a_line_in_troubleshooting_with_its_exit_code() -> None:
    for error in ERRORS:
        row = rf"^\| `{error.__name__}` \| {error.exit_code} \| [^|]+\|[^|]*\|$"
        assert re.search(row, PAGES["docs/troubleshooting.md"], re.MULTILINE), error.__name__


def test_every_exit_code_is_documented() -> None:
    shown = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGES["docs/cli.md"], re.MULTILINE)}
    assert {0, *(error.exit_code for error in ERRORS)} <= shown


@pytest.fixture(scope="module")
def pipelines() -> dict[str, Checked]:
    """The YAML blocks that are whole pipelines, and the files in `pipelines/`, by where they stand."""
    return {
        where: check(str(ROOT / where.partition(":")[0]), text.encode(), env=ENVIRONMENT) for where, text in shown()
    }


def shown() -> Iterator[tuple[str, str]]:
    for page, text in PAGES.items():
        for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE), 1):
            if {"source", "sink"} <= set(yaml.safe_load(block)):
                yield f"{page}:{number}", block
    for path in sorted(set((ROOT / "pipelines").glob("*.yaml")) - set((ROOT / "pipelines").glob("*.test.yaml"))):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_pipelines_that_are_shown_are_valid(pipelines: dict[str, Checked]) -> None:
    for where, checked in pipelines.items():
        assert all(spec.source.type in registry.names("source") for spec in checked.specs), where


def test_lines_of_the_values_source_that_are_shown_can_be_read(pipelines: dict[str, Checked], tmp_path: Path) -> None:
    sources = [checked.specs[0].source for checked in pipelines.values()]
    written = [source for source in sources if getattr(source, "rows", None)]
    assert written
    for options in written:
        assert options.build(Context("shown", LocalStore(tmp_path))).tables()


def test_the_readme_shows_a_pipeline_of_about_ten_lines() -> None:
    block = re.findall(r"^```yaml\n(.*?)^```", PAGES["README.md"], re.DOTALL | re.MULTILINE)[0]
    assert len(block.splitlines()) <= 12


def test_the_readme_lists_all_connectors_and_no_others() -> None:
    shown: dict[str, set[str]] = {"source": set(), "sink": set()}
    for names, source, sink in re.findall(r"^\| (`[^|]+)\|([^|]*)\|([^|]*)\|$", PAGES["README.md"], re.MULTILINE):
        for name in re.findall(r"`([a-z-]+)`", names):
            shown["source"] |= {name} if source.strip() else set()
            shown["sink"] |= {name} if sink.strip() else set()
    assert shown == {"source": set(registry.names("source")), "sink": set(registry.names("sink"))}


@cache
def anchors(page: str) -> set[str]:
    """GitHub's anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_relative_link_leads_somewhere() -> None:
    links = [(page, target) for page in PAGES for target in re.findall(r"\]\(([^)\s]+)\)", prose(page))]
    assert links
    for source, target in links:
        if re.match(r"[a-z]+:|\w+$", target):  # an address, or an argument: `bucket[16](id)`
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / source).parent / path if path else ROOT / source
        assert found.exists(), f"{source} links to {target}"
        if anchor:
            assert anchor in anchors(found.resolve().relative_to(ROOT).as_posix()), f"{source} links to {target}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[str](), ["README.md"]
    while waiting:
        page = waiting.pop()
        links = re.findall(r"\]\(([\w./-]+\.md)(?:#[^)]*)?\)", PAGES[page])
        found = {(ROOT / page).parent.joinpath(link).resolve().relative_to(ROOT).as_posix() for link in links}
        waiting += found - reached
        reached |= found
    assert {page for page in PAGES if page.startswith("docs/")} <= reached


def test_every_make_target_that_is_mentioned_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    mentioned = {target for text in PAGES.values() for target in re.findall(r"(?:`|^ {4})make ([a-z-]+)", text, re.M)}
    assert mentioned
    assert mentioned <= targets

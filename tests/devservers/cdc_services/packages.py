"""The package index of a Debian suite: parse it, and find what a program needs. Pure functions on text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"(?m)^([A-Za-z0-9-]+): *(.*)$")


@dataclass(frozen=True, slots=True)
class Package:
    """One binary package; `filename` is relative to the mirror, `depends` holds alternatives in order of preference."""

    name: str
    version: str
    filename: str
    size: int
    sha256: str
    depends: tuple[tuple[str, ...], ...]


def parse_index(text: str) -> dict[str, Package]:
    """A `Packages` file by package name. A virtual name stands for the first package that provides it."""
    packages: dict[str, Package] = {}
    virtual: dict[str, Package] = {}
    for stanza in text.split("\n\n"):
        fields = dict(_FIELD.findall(stanza))
        if "Package" not in fields or "SHA256" not in fields:
            continue
        package = _package(fields)
        packages.setdefault(package.name, package)
        for alternatives in _relations(fields.get("Provides", "")):
            virtual.setdefault(alternatives[0], package)
    return {**virtual, **packages}


def closure(
    packages: Mapping[str, Package], roots: Sequence[str], follow: Callable[[str], bool]
) -> tuple[Package, ...]:
    """The packages of that name and what they depend on, as far as `follow(name)` says yes; sorted by name.

    Raises LookupError when a root is not in the index.
    """
    lost = [name for name in roots if name not in packages]
    if lost:
        raise LookupError(f"the package index has no {', '.join(lost)}")
    found: dict[str, Package] = {}
    todo = list(roots)
    while todo:
        package = packages[todo.pop()]
        if package.name in found:
            continue
        found[package.name] = package
        todo.extend(_chosen(packages, package, follow))
    return tuple(found[name] for name in sorted(found))


def _chosen(packages: Mapping[str, Package], package: Package, follow: Callable[[str], bool]) -> Iterator[str]:
    for alternatives in package.depends:
        known = [name for name in alternatives if name in packages and follow(name)]
        yield from known[:1]


def _package(fields: Mapping[str, str]) -> Package:
    needs = [*_relations(fields.get("Pre-Depends", "")), *_relations(fields.get("Depends", ""))]
    return Package(
        fields["Package"], fields["Version"], fields["Filename"], int(fields["Size"]), fields["SHA256"], tuple(needs)
    )


def _relations(text: str) -> Iterator[tuple[str, ...]]:
    """`libc6 (>= 2.34), a | b:any` -> ("libc6",), ("a", "b")."""
    for relation in text.split(","):
        names = tuple(
            name for part in relation.split("|") if (name := re.split(r"[\s:(\[]", part.strip(), maxsplit=1)[0])
        )
        if names:
            yield names

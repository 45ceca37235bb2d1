"""The package index and the closure of dependencies."""

from __future__ import annotations

import pytest

from cdc_services.packages import closure, parse_index

INDEX = """\
Package: server
Version: 2-1
Depends: liba (>= 1), libgone | libb:any (= 2), adduser, libvirtual
Pre-Depends: libpre
Filename: pool/server.deb
Size: 12
SHA256: aa
Description: a server
 Depends: not-a-field

Package: liba
Version: 1
Depends: libb, server
Filename: pool/liba.deb
Size: 1
SHA256: bb

Package: libb
Version: 2
Provides: libvirtual (= 2), other
Filename: pool/libb.deb
Size: 2
SHA256: cc

Package: libpre
Version: 3
Filename: pool/libpre.deb
Size: 3
SHA256: dd

Package: adduser
Version: 4
Filename: pool/adduser.deb
Size: 4
SHA256: ee
"""


def test_closure_follows_alternatives_virtual_names_and_cycles() -> None:
    index = parse_index(INDEX)
    found = closure(index, ["server"], lambda name: name.startswith("lib"))
    assert [package.name for package in found] == ["liba", "libb", "libpre", "server"]
    assert index["libvirtual"] is index["libb"]
    assert (index["server"].filename, index["server"].size, index["server"].sha256) == ("pool/server.deb", 12, "aa")


def test_a_missing_root_is_named() -> None:
    with pytest.raises(LookupError, match="no mysql-server-core"):
        closure(parse_index(INDEX), ["server", "mysql-server-core"], lambda name: True)

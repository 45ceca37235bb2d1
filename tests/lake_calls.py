"""Calls by which sinks change a lake: where tests kill, and lose answers."""

from __future__ import annotations

from typing import Any


def called(lake: str) -> list[tuple[Any, str]]:
    """What changes a lake: objects and the names of their functions."""
    if lake.startswith("iceberg"):
        from pyiceberg.catalog.rest import RestCatalog
        from pyiceberg.catalog.sql import SqlCatalog

        from connectors.iceberg import commits, load, snapshots

        names = ("commit_table", "create_table", "purge_table", "drop_table", "rename_table")
        files = [(load, "write_rows"), (load, "write_bytes"), (commits, "write_deletes"), (snapshots, "delete_quietly")]
        return [*((SqlCatalog if lake == "iceberg" else RestCatalog, name) for name in names), *files]
    from pypaimon.catalog.filesystem_catalog import FileSystemCatalog
    from pypaimon.catalog.rest.rest_catalog import RESTCatalog

    from connectors.paimon import commits, load, session
    from connectors.paimon.upkeep import publishing

    names = ("create_table", "alter_table", "drop_table", "rename_table")
    rest = [(load, "write_files"), (commits, "commit_files"), (session, "native"), (publishing, "create")]
    catalog = FileSystemCatalog if lake == "paimon" else RESTCatalog
    return [*((catalog, name) for name in names), *rest]

"""The captured tables as the server has them when a run begins, with warnings for the user. Driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from cdc.schema import TableId, TableSchema
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import shown_schema
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.engines import no_view, without_transactions
from connectors.mysql.server.foreign_keys import describe_cascades
from connectors.mysql.server.information_schema import read_tables, table_ids
from connectors.mysql.server.not_logged import badly_logged, describe_filter
from connectors.mysql.server.server_check import check_select, check_server, explain_no_tables
from connectors.mysql.server.server_info import where_of

log = logging.getLogger(__name__)


def captured_tables(connection: MySqlConnection, options: MySqlSourceOptions) -> Mapping[TableId, TableSchema]:
    """Return the tables with the schemas that a sink gets.

    Warns of changes to them that the server's log will not hold. `options` compare names as the server does. Raises
    SourceError when the tables cannot be captured.
    """
    captures = options.pattern.matches
    info = check_server(connection, captures)
    # MariaDB hides a table while its new definition is applied: look once more.
    found = read_tables(connection, captures) or read_tables(connection, captures)
    if not found:
        raise explain_no_tables(table_ids(connection), options.pattern, connection)
    check_select(connection, found)
    copied = [table for table in found if options.in_first_snapshot(table)]
    if engines := without_transactions(connection, copied):  # a table created later is followed all the same
        log.warning("%s", no_view(engines, where_of(connection)))
    if filtered := describe_filter(info):
        log.warning("%s", filtered)
    for problem, fix in badly_logged(info, found):
        log.warning("%s (%s)", problem, fix)
    for notice in describe_cascades(connection, info, found.keys(), copied=options.cascades == "copy"):
        if options.cascades != "ignore":
            log.warning("%s", notice)
    return {table: shown_schema(definition, options) for table, definition in found.items()}

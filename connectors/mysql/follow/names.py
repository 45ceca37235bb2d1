"""How the server compares the names of tables and databases: its variable lower_case_table_names.

0 tells upper and lower case in names apart, 1 keeps names in lower case, 2 keeps them as written and folds to compare.
"""

from __future__ import annotations

from cdc.errors import StateError
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.server.server_info import server_settings

FILE_NAME = "names.json"


def names_ignore_case(store: Store, streams: Streams) -> bool:
    """Whether names that differ in nothing but case are one table on the server.

    It is asked once in the life of a pipeline, and the answer kept in `names.json`: a server cannot change it, and its
    replicas have to have the same. Any process; repeatable. Raises SourceError, StateError.
    """
    kept = store.read_json(FILE_NAME, hint="remove it")
    if kept is None:
        with streams.session() as connection:
            kept = {"lower_case_table_names": server_settings(connection).lower_case_table_names}
        store.write_json(FILE_NAME, kept)
    value = kept.get("lower_case_table_names")
    if not isinstance(value, int):
        raise StateError("it does not say how names are compared", where=store.where(FILE_NAME), hint="remove it")
    return value != 0

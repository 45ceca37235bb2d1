"""Tables that begin anew in the sink by a copy that the engine asks for: routes were edited, or a change refused. Pure.

| what was edited, for a captured table | what is done |
|---|---|
| it goes to a table that the pipeline does not have | that is created |
| it goes to one that nothing else goes to, left from earlier routes | that is emptied |
| it goes to one that other tables go to | that is made wide enough |
| it does not go to a table any more | the rows that are there stay as they are |

In the first three cases rows and changes of the source table do not go there until a copy begins that has all of them:
they wait. So do those of a table whose change the sink has refused (`RouteStage.wait`): the copy has it behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.errors import EditRefused
from cdc.flow.sink_schemas import Part
from cdc.flow.sink_tables import with_shard
from cdc.flow.together import Together
from cdc.route import RouteTable, Target
from cdc.schema import (
    CreateShadow,
    CreateTable,
    DropTable,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.tables.entry import Pair

MOVED = "its rows go to another table of the sink"
"""Why a table is copied anew."""
RENAMED = "it was renamed while it waited for its copy"


class Moves(Together):
    """See `SinkTables`."""

    def move(self, routes: Mapping[str, Any] | None) -> None:
        """Rows went to their tables by other routes before; None where nobody knows, or there were none.

        Raises ChangeRefused for tables that cannot go to one, EditRefused.
        """
        if routes is None or routes == self._route.to_json():
            return
        before = RouteTable.from_json(routes)
        for source, schema in sorted(self.sources.items()):
            old = {target.table: target for target in before.targets(source)}
            new = {target.table: target for target in self._route.targets(source)}
            for table, target in new.items():
                if table not in old:
                    self._arrive(source, target, with_shard(schema, target))
                elif target != old[table]:
                    raise shard_moved(source, old[table], target)
            for table in old.keys() - new.keys():
                self._part(source, table)

    def _arrive(self, source: TableId, target: Target, schema: TableSchema) -> None:
        """Rows of a source table go to a table from here on; those of one that is paused, once it is resumed."""
        table, there = target.table, self.sinks.get(target.table)
        for marked in (self.paused, self.resumed):
            if any(each == source for each, _ in marked):
                marked.add((source, table))
        if there is None:
            self._create(CreateTable(table, schema), source, None)
        else:
            self._check_key(source, table, there, schema)
            if table not in self.merged:
                self._emit(CreateTable(table, there))  # nobody has looked after it
                self._emit(TruncateTable(table, copied=True))
            self._widen(table, there, schema)
            self._follow_copy(source, table, there, Part.WANTED)
        self.waiting.add((source, table))
        self._hold(table, f"route.moved {source}: it goes here from now on, and is copied anew for that", done=True)

    def _part(self, source: TableId, table: TableId) -> None:
        self.over.discard((source, table))
        self._let_go((source, table))
        self._no_part(source, table)
        self.left.add((source, table))
        self._hold(
            table, f"route.moved {source}: it goes elsewhere from now on, its rows stay here as they are", done=True
        )

    def _let_go(self, pair: Pair) -> None:
        """A table waits for nothing any more."""
        for marked in (self.waiting, self.paused, self.resumed):
            marked.discard(pair)

    def _waits(self, change: SchemaChange, table: TableId, source: TableSchema | None) -> bool:
        """Whether a change of a source table is behind the sink's table, as its rows wait for a copy."""
        pair = change.table, table
        if pair not in self.waiting:
            return False
        if isinstance(change, DropTable):
            self.waiting.discard(pair)
            return False
        if not isinstance(change, CreateShadow) or change.schema is None:
            return True
        self.waiting.discard(pair)
        assert source is not None, "a table that is copied has a schema"
        if table not in self.merged:
            self._begin_alone(change.table, CreateShadow(table, source, change.options, change.partition_keys))
            return True
        there = self.sinks[table]
        if pair in self.together or pair in self.left or not there.primary_key:
            return False
        self._check_key(change.table, table, there, source)
        self.over.add(pair)  # there are no rows of it yet
        self._widen(table, there, source)
        self._follow_copy(change.table, table, there, Part.WANTED)
        return True

    def _rename_marks(self, change: RenameTable, old: Target | None, new: Target | None) -> None:
        """A copy goes on under the other name of a table."""
        for marked in (self.over, self.waiting, self.paused, self.resumed):
            if old is not None and (change.table, old.table) in marked:
                marked.discard((change.table, old.table))
                if new is not None:
                    marked.add((change.new_table, new.table))
                    self.renamed.add(change.new_table)
        if old is None or (change.table, old.table) not in self.together:
            return
        if new is not None and new.table == old.table:
            self.together[change.new_table, new.table] = self.together.pop((change.table, old.table))
        else:
            self._no_part(change.table, old.table)


def shard_moved(source: TableId, old: Target, new: Target) -> EditRefused:
    """What stands against another column with the source's name in a table that is there."""
    before, now = (target.shard_column or "none" for target in (old, new))
    return EditRefused(
        f"the shard-column of {source} was {before} and is {now} now: the rows that are there have the old one",
        where=str(new.table),
        hint="take the edit back, or give the rule another sink-table",
    )

"""Options that rows of the runs before were made with: which edits of them matter, and what is said."""

from __future__ import annotations

from typing import Any

from together import together

from cdc.options import SourceOptions
from cdc.planning.edited_options import edited_options, of_source
from cdc.registry import options
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.state.fingerprint import Fingerprint

MYSQL = {"type": "mysql", "hostname": "h", "username": "u", "password": "p", "tables": "shop.orders"}
DEBEZIUM = {"type": "kafka", "properties.bootstrap.servers": "h:1", "topics": "t", "value.format": "debezium-json"}
PLAIN = {**DEBEZIUM, "value.format": "json"}
KINDS = {"id": "BIGINT", "at": "TIMESTAMP(6)", "name": "STRING", "price": "DECIMAL(10, 2)"}
SCHEMA = TableSchema(tuple(Column(name, DataType.parse(kind)) for name, kind in KINDS.items()), ("id",))
TIMES, BYTES = "debezium.time.precision.mode", "debezium.binary.handling.mode"


def of(given: dict[str, Any]) -> SourceOptions:
    made = options("source", given["type"]).model_validate(given)
    assert isinstance(made, SourceOptions)
    return made


@together("given, edit, told", [
    (MYSQL, {"treat-tinyint1-as-boolean.enabled": True},
     "treat-tinyint1-as-boolean.enabled is true now, the runs before had false: rows that are there"),
    (MYSQL, {"scan.startup.mode": "latest-offset"},
     "scan.startup.mode is latest-offset now, the runs before had initial: it applies only at the start"),
    (MYSQL, {"scan.snapshot.filters": {"shop.orders": "id > 9"}},
     "scan.snapshot.filters is {'shop.orders': 'id > 9'} now, the runs before had not set: it applies"),
    (DEBEZIUM, {TIMES: "connect"}, f"{TIMES} is connect now, the runs before had adaptive_time_microseconds: existing"),
    (DEBEZIUM, {TIMES: "microseconds", BYTES: "hex", "time-zone": "Asia/Tokyo"}, ""),
    (DEBEZIUM, {"tables": "shop.b"}, "tables is shop.b now, the runs before had not set: rows of a table that it adds"),
    (PLAIN, {TIMES: "microseconds"}, f"{TIMES} is microseconds now, the runs before had not set: existing"),
    (DEBEZIUM, {"columns": {"orders": {"id": "INT", "price": "DECIMAL(12, 3)", "more": "DATE"}, "new": {"id": "DATE"}}},
     ""),
    (DEBEZIUM, {"columns": {"orders": {"at": "TIMESTAMP(3)"}}}, "columns is"),
    ({**DEBEZIUM, "columns": {"orders": {"at": "DATE"}}}, {"columns": {}},
     'columns is {} now, the runs before had {"orders": {"at": "DATE"}}: existing values'),
])  # fmt: skip
def test_an_edit_is_told_where_rows_were_made_with_what_it_takes_away(
    given: dict[str, Any], edit: dict[str, Any], told: str
) -> None:
    before = Fingerprint("s", (), source=of_source(of(given)))
    found = list(edited_options(before, of({**given, **edit}), None, {TableId.parse("orders"): SCHEMA}))
    assert [each.refused for each in found] == ([not told.startswith(("scan.", "tables"))] if told else [])
    assert not told or f"{found[0].key} {found[0].text}".startswith(f"source.{told}")

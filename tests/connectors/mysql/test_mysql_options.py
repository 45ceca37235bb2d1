from __future__ import annotations

import pytest
from pydantic import ValidationError
from together import together

from cdc.options import SecretStr
from cdc.schema import TableId
from connectors.mysql.follow.streams import Streams
from connectors.mysql.options import BinlogFilesSourceOptions, MySqlSourceOptions, is_loopback
from connectors.mysql.verify.current_tables import CurrentServerTables


def options(**given: object) -> MySqlSourceOptions:
    values = {"type": "mysql", "hostname": "db", "username": "u", "password": SecretStr("p"), "tables": "a.b", **given}
    return MySqlSourceOptions.model_validate(values)


def remarks(**given: object) -> list[str]:
    return [f"{remark.key}: {remark.message}" for remark in options(**given).problems()]


@pytest.mark.parametrize("mode", ["earliest-offset", "latest-offset"])
def test_modes_that_work_have_no_problem(mode: str) -> None:
    assert remarks(startup_mode=mode) == []


def test_a_table_that_was_copied_is_whole_by_any_startup_mode() -> None:
    given = options(startup_mode="latest-offset")
    now = CurrentServerTables(given, Streams(given), [TableId("a", "b")])
    assert now.partial(TableId("a", "b")) == ""
    assert "were not copied" in now.partial(TableId("a", "c"))


def test_a_specific_offset_is_a_file_with_position_or_a_gtid_set() -> None:
    mode = {"startup_mode": "specific-offset"}
    assert remarks(**mode, specific_offset_file="b.1", specific_offset_pos=4) == []
    assert remarks(**mode, specific_offset_gtid_set="0-1-5") == []
    assert len(remarks(**mode)) == 1
    assert len(remarks(**mode, specific_offset_pos=4)) == 1
    assert len(remarks(**mode, specific_offset_pos=4, specific_offset_gtid_set="0-1-5")) == 1


@together("text, ids", [("5400", range(5400, 5401)), ("5400-5408", range(5400, 5409)), ("7 - 9", range(7, 10))])
def test_server_ids_are_one_or_a_range(text: str, ids: range) -> None:
    assert options(server_id=text).server_ids == ids
    assert options().server_ids is None


@together("text", ["0", "9-7", "1-4294967296", "a", "5-", "-5"])
def test_impossible_server_ids_are_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        options(server_id=text)


@together(
    "hostname, mode",
    [("localhost", "preferred"), ("127.0.0.9", "preferred"), ("::1", "preferred"), ("[::1]", "preferred"),
     ("db.example", "verify-identity"), ("10.0.0.1", "verify-identity"), ("localhost.evil", "verify-identity")],
)  # fmt: skip
def test_tls_is_verified_by_default_except_on_this_machine(hostname: str, mode: str) -> None:
    assert options(hostname=hostname).tls == mode
    assert is_loopback(hostname) is (mode == "preferred")
    assert options(hostname=hostname, tls_mode="disabled").tls == "disabled"


def test_the_pattern_leaves_out_what_is_excluded() -> None:
    pattern = options(tables=r"a.\.*", tables_exclude="a.x").pattern
    assert pattern.matches(TableId("a", "b"))
    assert not pattern.matches(TableId("a", "x"))


def test_tables_of_the_server_itself_are_left_out() -> None:
    """`mysql_tzinfo_to_sql` and the heartbeat of a cloud service are rows of the log as any other."""
    pattern = options(tables=r"\.*.\.*").pattern
    assert not pattern.matches(TableId("mysql", "time_zone"))
    assert not pattern.matches(TableId("mysql", "rds_heartbeat2"))
    assert not pattern.matches(TableId("sys", "sys_config"))
    assert pattern.matches(TableId("mysql2", "t"))
    assert remarks(tables="shop.t, mysql.user") == ["tables: mysql.user is not captured"]


def test_tables_of_online_schema_changes_are_left_out_when_those_are_followed() -> None:
    given = {"tables": r"shop.\.*", "tables_exclude": "shop.x"}
    followed = options(**given, online_schema_changes=True).pattern
    for name in ("_t_gho", "_t_ghc", "_t_ghk", "_t_20260102030405_del", "__t_new", "_t_old"):
        assert not followed.matches(TableId("shop", name))
        assert options(**given).pattern.matches(TableId("shop", name))
    assert [followed.matches(TableId("shop", name)) for name in ("t", "t_new", "_t", "x")] == [True, True, True, False]
    named = {"tables": r"shop.t, shop._t_new, shop._\.+"}
    assert remarks(**named, online_schema_changes=True) == [
        "tables: shop._t_new is not captured with scan.parse.online.schema.changes.enabled"
    ]
    assert remarks(**named) == []


def test_the_default_keeps_every_tinyint() -> None:
    assert options().tinyint1_as_boolean is False


def test_the_password_is_masked() -> None:
    assert "p" not in repr(options(password=SecretStr("pppp")).password).removeprefix("SecretStr")
    assert "pppp" not in repr(options(password=SecretStr("pppp")))


def test_binlog_files_take_one_path_or_several() -> None:
    one = BinlogFilesSourceOptions(type="binlog-files", path="a.*", tables="a.b", schema_files=["s.sql"])
    assert (one.paths, one.schema_paths) == (("a.*",), ("s.sql",))
    assert BinlogFilesSourceOptions(type="binlog-files", path=["a", "b"], tables="a.b").paths == ("a", "b")

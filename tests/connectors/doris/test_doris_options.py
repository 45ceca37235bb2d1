import pytest
from pydantic import ValidationError
from together import together

from cdc.options import Remark
from cdc.schema import Column, DataType, TableId, TableSchema
from connectors.doris import settings
from connectors.doris.options import DorisSinkOptions
from connectors.shared.streamload.settings import sql_servers

LEAST = {"type": "doris", "fenodes": "fe1:8031,https://fe2", "username": "me", "password": "pw"}


def options(**more: object) -> DorisSinkOptions:
    return DorisSinkOptions.model_validate(LEAST | more)


def keys(remarks: object) -> list[str]:
    return [remark.key for remark in remarks if isinstance(remark, Remark)]  # type: ignore[attr-defined]


def test_addresses_and_their_defaults() -> None:
    found = settings.client(options()).http.servers
    assert [str(address) for address in found.frontends] == ["http://fe1:8031", "https://fe2:8030"]
    assert found.backends == ()
    sql = sql_servers(options())
    assert [address.host_header for address in sql.frontends] == ["fe1:9030", "fe2:9030"]
    named = sql_servers(options(**{"jdbc-url": "jdbc:mysql://a:1,b/db?useSSL=true"}))
    assert [address.host_header for address in named.frontends] == ["a:1", "b:9030"]
    straight = settings.client(options(benodes="be1,be2:9")).http.servers.backends
    assert [str(address) for address in straight] == ["http://be1:8040", "http://be2:9"]


@together(
    "wrong",
    [
        {"fenodes": ""},
        {"fenodes": "fe:x"},
        {"benodes": "me:pw@be"},
        {"jdbc-url": "fe:9030"},
        {"jdbc-url": "jdbc:mysql://me:pw@fe:9030"},
        {"sink.label-prefix": "a b"},
        {"sink.label-prefix": "x" * 33},
        {"sink.time-zone": "Mars/Base"},
        {"charset-encoding": "GBK"},
        {"sink.delivery-guarantee": "maybe"},
        {"sink.invalid-values": "drop"},
    ],
)
def test_values_that_cannot_be_right(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        options(**wrong)
    assert "pw@" not in str(caught.value)


@together(
    "given, key",
    [
        ({"sink.enable-2pc": True, "sink.delivery-guarantee": "at-least-once"}, "sink.enable-2pc"),
        ({"sink.invalid-values": "dead-letter"}, "sink.dead-letter.path"),
        ({"sink.properties.label": "x"}, "sink.properties.label"),
        ({"sink.properties.group_commit": "async_mode"}, "sink.properties.group_commit"),
        ({"sink.properties.partial_columns": "true"}, "sink.properties.partial_columns"),
        ({"sink.properties.where": "id > 1"}, "sink.properties.where"),
        ({"sink.properties.max_filter_ratio": "0.1"}, "sink.properties.max_filter_ratio"),
        ({"sink.properties.compress_type": "bz2"}, "sink.properties.compress_type"),
    ],
)
def test_what_would_lose_rows_is_a_problem(given: dict[str, object], key: str) -> None:
    assert keys(options(**given).problems()) == [key]


@together(
    "given, key",
    [
        ({"sink.enable-2pc": False}, "sink.enable-2pc"),
        ({"sink.delivery-guarantee": "at-least-once"}, "sink.delivery-guarantee"),
        ({"sink.properties.strict_mode": "false"}, "sink.properties.strict_mode"),
        ({"sink.properties.format": "json"}, "sink.properties.format"),
        ({"sink.enable-delete": False}, "sink.enable-delete"),
    ],
)
def test_what_the_user_should_know_is_a_warning(given: dict[str, object], key: str) -> None:
    found = options(**given)
    assert list(found.problems()) == []
    assert keys(found.warnings()) == [key]


def test_a_file_of_flink_cdc_is_read_as_it_is() -> None:
    given = {
        "auto-redirect": False, "charset-encoding": "utf-8", "sink.enable.batch-mode": True, "sink.max-retries": 3,
        "sink.flush.queue-size": 2, "sink.buffer-flush.max-rows": 50000, "sink.buffer-flush.max-bytes": 10485760,
        "sink.buffer-flush.interval": "10s", "sink.use-cache": False, "sink.ignore.update-before": True,
        "sink.check-interval": 10000, "sink.buffer-size": 1048576, "sink.buffer-count": 3, "sink.enable-delete": True,
        "sink.enable-2pc": True, "sink.properties.format": "json", "sink.properties.read_json_by_line": "true",
        "table.create.properties.replication_num": "1",
        "table.create.auto-partition.properties.default-partition-key": "dt",
    }  # fmt: skip
    found = options(**given)
    assert list(found.problems()) == []
    assert found.table_properties() == {"replication_num": "1"}
    assert settings.load_rules(found).headers == {"timeout": "600"}
    for key in ("sink.enable.batch-mode", "sink.buffer-flush.interval", "sink.ignore.update-before"):
        assert DorisSinkOptions.ignored(key)


def test_headers_of_the_user_go_with_every_load() -> None:
    given = {"sink.properties.compress_type": "gz", "sink.properties.load_to_single_tablet": "false"}
    rules = settings.load_rules(options(**given, **{"sink.load.timeout": "5 min"}))
    assert rules.headers == {"compress_type": "gz", "load_to_single_tablet": "false", "timeout": "300"}
    assert rules.packing == "gzip"


def test_the_password_shows_nowhere() -> None:
    shown = repr(options()) + repr(settings.client(options()).http.servers) + repr(sql_servers(options()))
    assert "pw" not in shown.replace("password", "")


def test_a_property_for_tables_of_one_model_is_left_out_for_the_other() -> None:
    """Doris refuses a table with a property that its model does not know."""
    keyed = {"enable_unique_key_merge_on_write": "false", "function_column.sequence_col": "at"}
    given = options(**{f"table.create.properties.{name}": text for name, text in keyed.items()})
    dialect = settings.dialect(given)
    columns = (Column("id", DataType.parse("INT")), Column("at", DataType.parse("TIMESTAMP(3)")))

    def created(*key: str) -> str:
        table = dialect.new_table(TableId("shop", "t"), TableSchema(columns, key))
        return dialect.create_table(table)[0]

    for name, text in keyed.items():
        assert f"'{name}' = '{text}'" in created("id")
        assert name not in created()
    assert keys(given.warnings()) == [f"table.create.properties.{name}" for name in keyed]
    assert not keys(options(**{"table.create.properties.replication_num": "1"}).warnings())

"""What users of an Elasticsearch or OpenSearch sink rely on besides what every sink does. Real servers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from search_harness import Harness
from servers import own_search
from sink_calls import commit, created, prepared

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError, SinkUnavailable
from cdc.schema import (
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropTable,
    RenameTable,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.testing.blocks import block
from cdc_services.search.server import SearchServer
from connectors.elasticsearch import cluster
from connectors.elasticsearch.bodies import read_flushes
from connectors.elasticsearch.bulk import items, version
from connectors.elasticsearch.client import ErrorAnswer
from connectors.elasticsearch.index import IndexRequest

pytestmark = pytest.mark.slow

ID, NAME = Column("id", DataType.parse("INT"), nullable=False), Column("name", DataType.parse("VARCHAR(20)"))
USERS = TableId("shop", "Users")
SCHEMA = TableSchema((ID, NAME), ("id",))


@pytest.fixture(params=["opensearch", "elasticsearch"])
def server(request: pytest.FixtureRequest) -> SearchServer:
    found: SearchServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def harness(server: SearchServer, tmp_path: Path) -> Harness:
    made = Harness(server, tmp_path, f"pipeline-{tmp_path.name}")
    made.clear()
    return made


@pytest.fixture(scope="module")
def own() -> Iterator[SearchServer]:
    """A server of these tests' own: kills and restarts are welcome."""
    with own_search("opensearch") as server:
        yield server


def users(*changes: tuple[str, int, str | None]) -> ChangeBlock:
    return block(USERS, SCHEMA, [(kind, {"id": id_, "name": name}) for kind, id_, name in changes])


def names(harness: Harness) -> dict[str, Any]:
    return {id_: found["name"] for id_, found in (harness.documents(USERS) or {}).items()}


@pytest.mark.parametrize("name", ["highest", "aliased_indexes"])
def test_a_request_of_a_killed_run_that_is_carried_out_late_makes_no_second_index(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It takes effect between two looks at the cluster, after `name`."""
    harness.sink().apply(0, [CreateTable(TableId("shop", "other"), SCHEMA)])  # its index shows what the table's is like
    look, (like,) = getattr(cluster.SearchCluster, name), harness.server.ask("GET", "/shop.other").values()
    mappings = like["mappings"]
    mappings["_meta"]["cdc"]["table"] = str(USERS)

    def looked(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        monkeypatch.undo()
        harness.server.ask("PUT", "/shop.users-000001", {"mappings": mappings, "aliases": {"shop.users": {}}})
        return found

    monkeypatch.setattr(cluster.SearchCluster, name, looked)
    harness.sink().apply(1, [CreateTable(USERS, SCHEMA)])
    assert list(harness.server.ask("GET", "/shop.users")) == ["shop.users-000001"]


def test_a_table_is_an_index_behind_an_alias_in_lower_case(harness: Harness) -> None:
    """With the fields of its columns, and no others."""
    created(harness.sink(), USERS, SCHEMA)
    found = harness.server.ask("GET", "/shop.users")
    assert list(found) == ["shop.users-000001"]
    mapping = found["shop.users-000001"]["mappings"]
    assert mapping["dynamic"] == "strict"
    assert mapping["properties"]["name"] == {"type": "keyword", "ignore_above": 8191}


def test_many_tables_with_long_names_are_found(harness: Harness) -> None:
    """In several requests: the servers take request lines of 4 KB."""
    tables = [TableId("d" * 64, f"{number:02}" + "t" * 62) for number in range(60)]
    sink = harness.sink()
    sink.apply(0, [CreateTable(tables[0], SCHEMA), CreateTable(tables[-1], SCHEMA)])
    assert sink.missing_tables(tables) == tables[1:-1]
    assert len(sink._cluster.delete_retention_s(own=True)) == 2


def test_a_template_that_matches_the_names_does_not_take_documents_away(harness: Harness) -> None:
    """Nor their contents, nor where batches are noted; one that has other things made of the names is told of."""
    mappings = {"_source": {"enabled": False}, "_routing": {"required": True}, "properties": {"name": {"type": "long"}}}
    harness.server.ask("PUT", "/_template/all", {"index_patterns": ["shop*", "cdc*"], "mappings": mappings})
    try:
        sink = created(harness.sink(), USERS, SCHEMA)
        commit(sink, 0, users(("+I", 1, "a")))
    finally:
        harness.server.ask("DELETE", "/_template/all")
    assert names(harness) == {"1": "a"}
    assert harness.sink().last_committed_batch() == 0


def test_more_columns_than_an_index_may_have_are_refused_with_the_setting(harness: Harness) -> None:
    columns = tuple(Column(f"c{number}", DataType.parse("INT")) for number in range(1_001))
    with pytest.raises(ChangeRefused, match=r"Limit of total fields.*index\.settings\.mapping\.total_fields\.limit"):
        harness.sink().apply(0, [CreateTable(USERS, TableSchema((ID, *columns), ("id",)))])
    blocked = patch.object(cluster.SearchCluster, "carry_out", side_effect=ErrorAnswer(403, "", "index read-only"))
    with blocked, pytest.raises(SinkError, match="index read-only") as told:
        harness.sink().apply(0, [CreateTable(USERS, SCHEMA)])
    assert not isinstance(told.value, ChangeRefused), "which some behaviors skip"
    more = {"index.settings.mapping.total_fields.limit": "2000"}
    harness.sink(**more).apply(0, [CreateTable(USERS, TableSchema((ID, *columns), ("id",)))])


def test_an_index_that_is_deleted_is_not_made_with_guessed_types(harness: Harness) -> None:
    """Also when it goes between the preparation of a batch and its commit."""
    sink = created(harness.sink(), USERS, SCHEMA)
    handles = [prepared(sink, 0, users(*rows)) for rows in ((("+I", 1, "a"), ("-D", 2, "b")), (("-D", 2, "b"),))]
    harness.server.ask("DELETE", "/shop.users-000001")
    for some in handles:
        with pytest.raises(SinkError, match=r"there is no index"):
            sink.commit(0, some)
    assert harness.documents(USERS) is None


def test_a_batch_that_is_sent_again_changes_nothing(harness: Harness) -> None:
    """Not even one whose parts delete and insert the same keys."""
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a"), ("+I", 2, "b")))
    handles = [
        *prepared(sink, 1, users(("-D", 1, "a"), ("-U", 2, "b"), ("+U", 2, "c"))),
        *prepared(sink, 1, users(("+I", 1, "z"), ("-D", 2, "c")), partition=1),
    ]
    bodies = [list(read_flushes(sink._folder, handle)) for handle in handles]
    sink.commit(1, handles)
    assert names(harness) == {"1": "z"}
    for flushes in bodies:  # as a driver does that died before it could note the batch
        for flush in flushes:
            harness.sink()._cluster.client.send("POST", "/_bulk", b"".join(flush.bodies), "application/x-ndjson")
            again = names(harness)
            assert again == {"1": "z"}


def test_a_delete_stays_a_delete_when_the_node_restarts_before_a_late_repeat(own: SearchServer, tmp_path: Path) -> None:
    """Tombstones die with the node: the late request must not come from this pipeline at all."""
    harness = Harness(own, tmp_path)
    harness.clear()
    sink = created(harness.sink(), USERS, SCHEMA)
    old = prepared(sink, 0, users(("+I", 1, "a")))
    sink.commit(0, old)
    commit(sink, 1, users(("-D", 1, "a")))
    own.ask("POST", "/shop.users/_flush")  # or the log of the index brings the tombstone back
    own.kill9()
    own.start()
    later = harness.sink()
    assert later.last_committed_batch() == 1
    later.commit(0, old)
    assert names(harness) == {}
    commit(later, 2, users(("+I", 3, "c")))
    assert names(harness) == {"3": "c"}


def test_a_former_run_that_waited_for_the_node_brings_no_deleted_document_back(
    own: SearchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request failed; while it waited another run committed this batch and a delete, and the node was restarted."""
    harness = Harness(own, tmp_path, options={"retry-timeout": "60 s"})
    harness.clear()
    former = created(harness.sink(), USERS, SCHEMA)
    old = prepared(former, 0, users(("+I", 1, "a")))

    def others_go_on(*_: Any, **__: Any) -> Any:
        monkeypatch.undo()
        harness.sink().commit(0, prepared(harness.sink(), 0, users(("+I", 1, "a"))))
        commit(harness.sink(), 1, users(("-D", 1, "a")))
        own.ask("POST", "/shop.users/_flush")
        own.kill9()
        own.start()
        raise SinkUnavailable("no answer", where=own.url)

    monkeypatch.setattr("connectors.elasticsearch.bulk.Sender._send_once", others_go_on)
    with pytest.raises(SinkError, match="another run of this pipeline has committed batch 1"):
        former.commit(0, old)
    assert names(harness) == {}


def test_a_cluster_that_is_an_older_one_meanwhile_gets_no_further_batch(harness: Harness) -> None:
    """As one that is restored from a snapshot of its indexes while the pipeline runs."""
    sink = created(harness.sink(), USERS, SCHEMA)
    for batch in range(2):
        commit(sink, batch, users(("+I", batch, "x")))
    harness.server.ask("POST", f"/cdc-commits/_update/{harness.pipeline}", {"doc": {"batch": 0}})
    with pytest.raises(SinkError, match="up to 0, while 1 was committed"):
        commit(sink, 2, users(("+I", 2, "x")))
    assert names(harness) == {"0": "x", "1": "x"}


def test_a_pipeline_that_starts_over_wins_over_its_former_self(harness: Harness, tmp_path: Path) -> None:
    """Its batches have small numbers again."""
    sink = created(harness.sink(), USERS, SCHEMA)
    for batch in range(3):
        commit(sink, batch, users(("+I", 1, f"old {batch}")))
    renewed = created(Harness(harness.server, tmp_path / "renewed", "another pipeline").sink(), USERS, SCHEMA)
    commit(renewed, 0, users(("+I", 1, "new")))
    assert names(harness) == {"1": "new"}
    with pytest.raises(SinkError, match="another pipeline"):
        commit(sink, 3, users(("+I", 1, "zombie")))
    assert names(harness) == {"1": "new"}


def test_documents_that_were_prepared_before_another_pipeline_took_the_index_are_not_sent(
    harness: Harness, tmp_path: Path
) -> None:
    """The other one may have deleted them so long ago that the server has forgotten it."""
    sink = created(harness.sink(), USERS, SCHEMA)
    handles = prepared(sink, 0, users(("+I", 1, "zombie")))
    created(Harness(harness.server, tmp_path / "renewed", "another pipeline").sink(), USERS, SCHEMA)
    with pytest.raises(SinkError, match="used by another pipeline"):
        sink.commit(0, handles)
    assert names(harness) == {}


def test_deletes_are_remembered_longer_than_a_request_may_take(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """New indexes are made so; doctor and the start name one that somebody has set otherwise."""
    sink = created(harness.sink(), USERS, SCHEMA)
    assert harness.server.ask("GET", "/shop.users/_settings")["shop.users-000001"]["settings"]["index"][
        "gc_deletes"
    ] == "240s"  # fmt: skip
    sink.check()
    assert "gc_deletes" not in caplog.text
    for index_has, warned in (
        ("4000d", False),
        ("1m", True),
        ("60s", True),
        (None, True),
    ):  # None: the server's default
        harness.server.ask("PUT", "/shop.users/_settings", {"index.gc_deletes": index_has})
        found = [finding for finding in sink.examine() if finding.subject == "gc_deletes"]
        told = "shop.users-000001 forgets deletes after 60 s"
        assert [told in one.message for one in found] == [True] * warned
        caplog.clear()
        sink.check()
        assert (told in caplog.text) == warned


def test_readers_never_find_an_empty_or_half_index(harness: Harness) -> None:
    """A re-snapshot fills an index of its own, with other columns; one alias update puts it in the old one's place.

    Its documents can be found from then on, however seldom the server refreshes.
    """
    sink = created(harness.sink(**{"index.settings.refresh_interval": "-1"}), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    title = TableSchema((ID, replace(NAME, name="title")), ("id",))
    sink.apply(1, [CreateShadow(USERS, title)])
    copied = block(sink.shadow(USERS), title, [("+I", {"id": 1, "title": "A"})])
    commit(sink, 1, copied)
    assert harness.documents(USERS) == {"1": {"id": 1, "name": "a"}}
    sink.apply(2, [SwapShadow(USERS)])
    assert harness.server.ask("GET", "/shop.users/_search")["hits"]["total"]["value"] == 1
    sink.commit(2, [])
    assert harness.documents(USERS) == {"1": {"id": 1, "title": "A"}}
    assert list(harness.server.ask("GET", "/shop.users*")) == ["shop.users-000002"]


def test_a_swap_whose_answer_is_lost_is_found_done(harness: Harness) -> None:
    """The request comes again, and the old index is gone already; one that did not get there is still refused."""
    sink = created(harness.sink(), USERS, SCHEMA)
    sink.apply(1, [CreateShadow(USERS)])
    planner = sink._changes._planner([SwapShadow(USERS)])
    *_, swap = planner.plan(SwapShadow(USERS))
    for _ in range(2):
        sink._cluster.carry_out(swap)
    assert list(harness.server.ask("GET", "/shop.users")) == ["shop.users-000002"]
    elsewhere = {"actions": [{"add": {"index": "absent", "alias": "shop.users"}}]}
    with pytest.raises(ErrorAnswer):
        sink._cluster.carry_out(IndexRequest("POST", "/_aliases", elsewhere))


def test_a_table_that_takes_a_former_name_has_an_index_of_its_own(harness: Harness) -> None:
    """The renamed table keeps its index, whose name is the former one's."""
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    sink.apply(1, [RenameTable(USERS, TableId("shop", "people")), CreateTable(USERS, SCHEMA)])
    commit(sink, 1, users(("+I", 2, "b")))
    assert names(harness) == {"2": "b"}
    assert harness.documents(TableId("shop", "people")) == {"1": {"id": 1, "name": "a"}}


def test_tables_whose_names_differ_in_case_are_kept_apart(harness: Harness) -> None:
    """Aliases are in lower case: the second one is refused, and what happens to it leaves the first one alone."""
    other = TableId("shop", "users")
    sink = harness.sink()
    with pytest.raises(ChangeRefused, match="names are in lower case"):
        sink.apply(0, [CreateTable(USERS, SCHEMA), CreateTable(other, SCHEMA)])
    sink.apply(1, [CreateTable(USERS, SCHEMA)])
    commit(sink, 1, users(("+I", 1, "a")))
    with pytest.raises(ChangeRefused, match="names are in lower case"):
        sink.apply(2, [CreateTable(other, SCHEMA)])
    sink.apply(2, [TruncateTable(other), DropTable(other)])
    assert sink.missing_tables([USERS, other]) == [other]
    with pytest.raises(SinkError, match="there is no index"):
        prepared(sink, 2, block(other, SCHEMA, [("+I", {"id": 1, "name": "z"})]))
    with pytest.raises(SinkError, match=r"would be .*users-000001, which is the index of shop\.Users"):
        sink.missing_tables([TableId("shop", "users-000001")])
    assert names(harness) == {"1": "a"}


def test_a_table_whose_name_changes_its_case_keeps_its_index(harness: Harness) -> None:
    """The alias stays; the mapping has the new name."""
    lower = TableId("shop", "users")
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    for _ in range(2):
        harness.sink().apply(1, [RenameTable(USERS, lower)])
    assert harness.sink().missing_tables([USERS, lower]) == [USERS]
    commit(harness.sink(), 1, block(lower, SCHEMA, [("+I", {"id": 2, "name": "b"})]))
    assert names(harness) == {"1": "a", "2": "b"}


def test_a_table_with_unsigned_numbers_is_expected_again(harness: Harness) -> None:
    """Where the server has no field for them they are keywords, which a restart takes for what they are."""
    schema = TableSchema((ID, Column("n", DataType.parse("BIGINT UNSIGNED"))), ("id",))
    harness.sink().apply(0, [CreateTable(USERS, schema)])
    assert list(harness.sink().plan_text([CreateTable(USERS, schema)])) == []


@pytest.mark.parametrize("key", [("a_b", "c"), ("a", "b_c"), ("", "["), ('"', "\\\n"), ("x" * 300, "y" * 300)])
def test_composite_keys_are_never_mistaken_for_each_other(harness: Harness, key: tuple[str, str]) -> None:
    """Whatever is in them, and however long they are."""
    left, right = (Column(name, DataType.parse("VARCHAR(400)"), nullable=False) for name in ("l", "r"))
    schema = TableSchema((left, right, ID), ("l", "r"))
    sink = created(harness.sink(), USERS, schema)
    keys = [key, ("a_b", "x"), ("a", "b_x"), ("a_b_x", "")]
    rows = [("+I", {"l": left_, "r": right_, "id": number}) for number, (left_, right_) in enumerate(keys)]
    commit(sink, 0, block(USERS, schema, rows))
    assert len(harness.documents(USERS) or {}) == len(keys)
    commit(sink, 1, block(USERS, schema, [("-D", {"l": key[0], "r": key[1], "id": 0})]))
    assert sorted(found["id"] for found in (harness.documents(USERS) or {}).values()) == [1, 2, 3]


def test_a_document_that_is_refused_stops_the_run_with_the_server_s_words(harness: Harness) -> None:
    """And goes in once the mapping takes it."""
    schema = TableSchema((ID, Column("at", DataType.parse("TIMESTAMP"))), ("id",))
    sink = harness.sink()
    sink.apply(0, [CreateTable(USERS, replace(schema, columns=(ID, Column("at", DataType.parse("BIGINT")))))])
    rows = [("+I", {"id": 1, "at": None})]
    handles = prepared(sink, 0, block(USERS, TableSchema((ID, Column("at", DataType.parse("STRING"))), ("id",)),
                                      [("+I", {"id": 1, "at": "no number"})]))  # fmt: skip
    with pytest.raises(SinkError, match=r"document 1 is refused.*at"):
        sink.commit(0, handles)
    commit(sink, 0, block(USERS, TableSchema((ID, Column("at", DataType.parse("BIGINT"))), ("id",)), rows))
    assert harness.documents(USERS) == {"1": {"id": 1, "at": None}}


def test_a_busy_node_s_documents_are_sent_again(own: SearchServer, tmp_path: Path) -> None:
    """429 for a request larger than the node has memory for just now: the pipeline waits, and loses nothing."""
    harness = Harness(own, tmp_path)
    harness.clear()
    sink = created(
        harness.sink(**{"sink.bulk.size": "2 kb", "sink.connections": "8", "retry-timeout": "60 s"}), USERS, SCHEMA
    )
    own.ask("PUT", "/shop.users-000001/_settings", {"index": {"blocks.write": True}})
    handles = prepared(sink, 0, users(*(("+I", number, "x" * 15) for number in range(200))))
    with pytest.raises(SinkError, match="blocked"):
        sink.commit(0, handles)
    own.ask("PUT", "/shop.users-000001/_settings", {"index": {"blocks.write": False}})
    sink.commit(0, handles)
    assert len(harness.documents(USERS) or {}) == 200


def test_a_full_disk_is_named_as_such(harness: Harness) -> None:
    """The servers say 429 and block the index; what was prepared goes in once the block is gone."""
    sink = created(harness.sink(), USERS, SCHEMA)
    handles, path = prepared(sink, 0, users(("+I", 1, "a"))), "/shop.users-000001/_settings"
    harness.server.ask("PUT", path, {"index": {"blocks.read_only_allow_delete": True}})
    with pytest.raises(SinkUnavailable, match=r"\(429\): index \[shop.users-000001\] blocked") as refused:
        sink.commit(0, handles)
    assert "nearly full, free space" in refused.value.hint
    harness.server.ask("PUT", path, {"index": {"blocks.read_only_allow_delete": None}})
    sink.commit(0, handles)
    assert list(harness.documents(USERS) or {}) == ["1"]


def test_versions_rise_with_batches_and_parts() -> None:
    """And stay below what the servers take."""
    order = [version(1, 0, 0), version(1, 0, 9), version(1, 1, 0), version(1, 2**36 - 1, 2**16 - 1), version(2, 0, 0)]
    assert order == sorted(order)
    assert version(2**10 - 1, 2**36 - 1, 2**16 - 1) < 2**62
    with pytest.raises(SinkError):
        version(2**10, 0, 0)


def test_items_of_a_body_are_told_apart() -> None:
    """A delete has one line, an index two."""
    body = b'{"delete":{"_id":"1"}}\n{"index":{"_id":"2"}}\n{"delete":1}\n{"delete":{"_id":"3"}}\n'
    assert [len(item.split(b"\n")) - 1 for item in items(body)] == [1, 2, 1]


@pytest.mark.parametrize("unindexed", ["", "shop.Users.j"])
def test_json_whose_leaves_are_searched(harness: Harness, unindexed: str) -> None:
    """`flattened`; in Elasticsearch a long leaf is in the document and not found by it. Or not searched at all."""
    schema = TableSchema((ID, Column("j", DataType.parse("JSON"))), ("id",))
    options = {"mapping.json": "flattened", "mapping.unindexed-columns": unindexed}
    sink = created(harness.sink(**options), USERS, schema)
    long = "x" * (40_000 if harness.server.product == "elasticsearch" else 10)
    rows = [("+I", {"id": 1, "j": '{"a": {"b": 7}}'}), ("+I", {"id": 2, "j": f'{{"a": "{long}"}}'})]
    commit(sink, 0, block(USERS, schema, rows))
    assert harness.documents(USERS) == {"1": {"id": 1, "j": {"a": {"b": 7}}}, "2": {"id": 2, "j": {"a": long}}}
    found = harness.server.ask("POST", "/shop.users/_search", {"query": {"term": {"j.a.b": "7"}}})
    assert [hit["_id"] for hit in found["hits"]["hits"]] == ([] if unindexed else ["1"])


@pytest.mark.parametrize("mapping", ["disabled", "text"])
def test_json_texts_and_numbers_are_read_back(harness: Harness, mapping: str) -> None:
    """A JSON text whose letters are those of a number is not that number; `null` is NULL."""
    schema = TableSchema((ID, Column("j", DataType.parse("JSON"))), ("id",))
    sink = created(harness.sink(**{"mapping.json": mapping}), USERS, schema)
    texts = ['"str"', '"12"', "12", "null", '{"b": 1, "a": ""}', "true", None]
    rows = block(USERS, schema, [("+I", {"id": number, "j": text}) for number, text in enumerate(texts)])
    commit(sink, 0, rows)
    stored = sink.read_back(USERS, schema)
    assert stored is not None
    assert not isinstance(stored, str)
    (found,) = stored.rows(None)
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == stored.as_stored(rows.rows).to_pylist()


def test_large_documents_are_read_back_a_few_at_a_time(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are bounded by their bytes: 5,000 documents of 1 MB in one would be more than a cluster's memory."""
    monkeypatch.setattr("connectors.elasticsearch.read_back._PAGE_BYTES", 100_000)
    schema = TableSchema((ID, Column("text", DataType.parse("STRING"))), ("id",))
    sink = created(harness.sink(), USERS, schema)
    rows = block(USERS, schema, [("+I", {"id": number, "text": "x" * 20_000}) for number in range(40)])
    commit(sink, 0, rows)
    stored = sink.read_back(USERS, schema)
    assert stored is not None
    assert not isinstance(stored, str)
    for keys in (None, rows.rows.select(["id"])):
        batches = list(stored.rows(keys))
        assert {batch.num_rows for batch in batches} == {4}
        assert sorted(row for batch in batches for row in batch["id"].to_pylist()) == list(range(40))

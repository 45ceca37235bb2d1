"""Pipeline files edited between two runs: what their state cannot follow is refused before anything is decided."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

import cdc
from cdc.errors import EditRefused, SinkError, SpecError
from cdc.job.edits import Edits, fingerprint_of
from cdc.planning.differences import notes_since
from cdc.planning.edited_options import relocated_rows
from cdc.planning.last_run import LastRun
from cdc.planning.run import plan_file
from cdc.schema import CreateTable, TableId
from cdc.source import Context, Snapshots
from cdc.spec.compiled import compile_spec
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.fingerprint import Fingerprints
from cdc.tables.log import TableLog
from cdc.testing import ListSink, run_in_memory

pytestmark = pytest.mark.usefixtures("files_stay_open")

LINES = [
    {"change": "create.table", "table": "shop.orders", "schema": {
        "columns": [{"name": "id", "type": "INT", "nullable": False}], "primary_key": ["id"]}},
    {"table": "shop.orders", "op": "+I", "row": {"id": 1}},
]  # fmt: skip
ORDERS = TableId("shop", "orders")
ROUTE = [{"source-table": "shop.orders", "sink-table": "lake.orders"}]


class Life:
    """A pipeline file in a folder, and what a start of it does before Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, StateDir(folder / "state")

    def spec(self, **changed: Any) -> PipelineSpec:
        document = {
            "source": {"type": "values", "rows": LINES},
            "sink": {"type": "duckdb", "path": "one.duckdb"},
            "pipeline": {"name": "p", "schema.change.behavior": "evolve"},
        }
        text = yaml.safe_dump(document | changed)
        return cdc.load(self.folder / "p.yaml", text=text).spec

    def check(self, source: Any = None, **changed: Any) -> None:
        """What a run with the file as it is now looks at first."""
        spec = self.spec(**changed)
        pipeline = self.state.open(name=spec.name, source="ValuesSource")
        source = source or spec.source.build(Context(pipeline, self.state.source))
        sink = spec.sink.build(Context(pipeline, self.state.sink))
        edits = Edits(spec, compile_spec(spec), self.state)
        edits.check_sink(sink)
        edits.check_patterns(source)
        edits.check_tables(source, sink)

    def run(self) -> None:
        """A first run, to its end."""
        spec = self.spec()
        pipeline = self.state.open(name=spec.name, source="ValuesSource")
        source = spec.source.build(Context(pipeline, self.state.source))
        sink = spec.sink.build(Context(pipeline, self.state.sink))
        run_in_memory(source, sink, state=self.state.root)


@pytest.fixture
def file(tmp_path: Path) -> Life:
    """A pipeline that has not run."""
    return Life(tmp_path)


@pytest.fixture(scope="module")
def has_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pipeline that has run."""
    life = Life(tmp_path_factory.mktemp("run"))
    life.check()
    life.run()
    return life.folder


@pytest.fixture
def life(tmp_path: Path, has_run: Path) -> Life:
    """A pipeline that has run, moved to a folder of its own."""
    shutil.copytree(has_run, tmp_path, dirs_exist_ok=True)
    life = Life(tmp_path)
    life.check()
    return life


def _refused(life: Life, **changed: Any) -> str:
    with pytest.raises(EditRefused) as caught:
        life.check(**changed)
    life.check()  # taken back
    return str(caught.value)


def test_another_type_of_sink_is_refused_and_the_edit_can_be_taken_back(life: Life) -> None:
    told = _refused(life, sink={"type": "values", "path": "out.jsonl"})
    assert "p.yaml: sink.type: is values now, earlier runs wrote to duckdb" in told
    assert "revert the edit, or start over with another --state-dir" in told


def test_another_file_is_refused_with_both_paths(life: Life) -> None:
    told = _refused(life, sink={"type": "duckdb", "path": "other.duckdb"})
    assert str(life.folder / "one.duckdb") in told
    assert str(life.folder / "other.duckdb") in told
    assert not (life.folder / "other.duckdb").exists()


def test_a_file_that_was_moved_is_the_same_sink(life: Life, files_stay_open: Callable[[], None]) -> None:
    files_stay_open()
    (life.folder / "one.duckdb").rename(life.folder / "moved.duckdb")
    life.check(sink={"type": "duckdb", "path": "moved.duckdb"})
    with pytest.raises(EditRefused):
        life.check()


def test_a_file_that_was_removed_stops_the_run_and_the_plan_of_it(
    life: Life, files_stay_open: Callable[[], None]
) -> None:
    files_stay_open()
    (life.folder / "one.duckdb").unlink()
    with pytest.raises(SinkError, match=r"has no batch of this pipeline, while \d+ was committed"):
        life.check()
    known = life.state.root / "pipeline.json"
    known.write_text(known.read_text().replace("ValuesSource", "values"))
    with pytest.raises(SinkError, match="has no batch of this pipeline"):
        plan_file(life.spec(), life.state)
    assert not (life.folder / "one.duckdb").exists()


def test_an_older_copy_of_the_state_directory_stops_the_run_as_later_batches_would_pass_for_done(life: Life) -> None:
    with duckdb.connect(str(life.folder / "one.duckdb")) as connection:
        connection.execute("UPDATE _cdc.commits SET batch = batch + 1")
    with pytest.raises(SinkError, match="the state directory was replaced by an older copy or a savepoint"):
        life.check()


def test_an_older_copy_of_the_file_stops_the_run(life: Life) -> None:
    with duckdb.connect(str(life.folder / "one.duckdb")) as connection:
        connection.execute("UPDATE _cdc.commits SET batch = batch - 1")
    with pytest.raises(SinkError, match="replaced by an older copy"):
        life.check()


def test_a_table_that_was_dropped_in_the_sink_stops_the_run(life: Life) -> None:
    with duckdb.connect(str(life.folder / "one.duckdb")) as connection:
        connection.execute("DROP TABLE shop.orders")
    with pytest.raises(SinkError, match=r"are missing, or not visible.*: shop\.orders"):
        life.check()


def test_a_route_that_moves_a_table_is_refused_with_both_names(life: Life) -> None:
    assert "shop.orders went to shop.orders, now to lake.orders" in _refused(life, route=ROUTE)


class Copying:
    """A source of those lines that snapshots tables when the engine orders it."""

    lists_all_tables = False

    def captures(self, table: TableId) -> bool:
        return True

    def snapshots(self, table: TableId) -> Snapshots:
        return Snapshots.ALWAYS


def test_a_route_that_moves_a_table_is_followed_by_a_source_that_snapshots(life: Life) -> None:
    source = Copying()
    life.check(source, route=ROUTE)
    life.check(source, route=ROUTE)  # stopped before the first batch, and started again
    life.check(source)  # taken back
    life.check(source, route=[*ROUTE, {**ROUTE[0], "sink-table": "shop.orders"}])  # a second place is new


def test_a_shard_column_of_rows_that_are_there_is_refused(life: Life) -> None:
    rule = {"source-table": "shop.orders", "sink-table": "shop.orders", "shard-column": "origin"}
    with pytest.raises(EditRefused, match="was none and is origin now"):
        life.check(Copying(), route=[rule])
    life.check(Copying())


def test_a_route_for_tables_to_come_goes_on(life: Life) -> None:
    later = [{"source-table": "shop.later", "sink-table": "lake.later", "description": "not yet there"}]
    life.check(route=later)
    life.check(route=[{**later[0], "description": "words only"}])
    life.check()


class Complete:
    """A source that knows all of its tables, and has these."""

    lists_all_tables = True

    def __init__(self, life: Life, *tables: TableId) -> None:
        self._inner = life.spec().source.build(Context("p", life.state.source))
        self._tables = dict.fromkeys(tables)

    def tables(self) -> dict[TableId, None]:
        return self._tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_an_edited_rule_that_matches_no_table_is_refused_and_a_known_one_is_not(life: Life) -> None:
    mask = {"transform": [{"source-table": "shop.order", "mask": {"id": "REDACT"}}]}
    with pytest.raises(SpecError, match=r"no table matches `shop\.order` .did you mean `shop\.orders`\?"):
        life.check(Complete(life, ORDERS), **mask)
    let_be = {**mask, "pipeline": {"name": "p", "schema.change.behavior": "evolve", "unmatched-patterns": "warn"}}
    life.check(Complete(life, ORDERS), **let_be)
    life.check(Complete(life), **mask)


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ("fe1:8030,fe2:8030", "fe2:8030,fe3:8030", True),
        ("fe1:8030", "FE1", True),
        ("fe1:8030", "fe9:8030", False),
    ],
)
def test_a_cluster_is_the_same_while_one_of_its_front_ends_is(file: Life, before: str, now: str, same: bool) -> None:
    def prints(fenodes: str) -> Any:
        sink = {"type": "doris", "fenodes": fenodes, "username": "root", "password": ""}
        return fingerprint_of(file.spec(sink=sink))

    assert prints(before).same_location(prints(now)) is same


@pytest.mark.parametrize(("now", "same"), [("k3:9092,K2:9092", True), ("k9:9092", False)])
def test_so_is_a_kafka_cluster_while_one_of_its_brokers_is(file: Life, now: str, same: bool) -> None:
    def prints(brokers: str) -> Any:
        return fingerprint_of(file.spec(sink={"type": "kafka", "properties.bootstrap.servers": brokers}))

    assert prints("k1:9092,k2:9092").same_location(prints(now)) is same


def test_what_is_refused_is_refused_before_anything_is_written(life: Life) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in life.state.root.rglob("*") if path.is_file()}

    before = files()
    with pytest.raises(EditRefused):
        life.check(route=ROUTE)
    assert files() == before


def _kafka(**options: str) -> dict[str, str]:
    return {"type": "kafka", "properties.bootstrap.servers": "k1:9092", **options}


@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [
        ({}, {"topic": "all"}, "shop.orders went to shop.orders, now to all"),
        ({"topic": "all"}, {"topic": "others"}, "shop.orders went to all, now to others"),
        ({}, {"topic.prefix": "p"}, "shop.orders went to shop.orders, now to p.shop.orders"),
        ({}, {"sink.tableId-to-topic.mapping": "shop.orders:o"}, "shop.orders went to shop.orders, now to o"),
        ({}, {"sink.tableId-to-topic.mapping": "shop.later:o"}, ""),
        ({"topic": "all"}, {"topic": "all"}, ""),
    ],
)
def test_rows_that_would_go_to_another_topic_are_named(
    file: Life, before: dict[str, str], now: dict[str, str], moved: str
) -> None:
    kept = fingerprint_of(file.spec(sink=_kafka(**before)))
    text = relocated_rows(kept.naming, file.spec(sink=_kafka(**now)).sink, [ORDERS])
    assert text == (f"rows would be written to another location in the sink: {moved}" if moved else "")


def test_another_topic_is_refused_and_the_edit_can_be_taken_back(life: Life) -> None:
    Fingerprints(life.state.store).write(fingerprint_of(life.spec(sink=_kafka(topic="one"))))
    source = life.spec().source.build(Context("p", life.state.source))
    edited = life.spec(sink=_kafka(topic="two"))
    with pytest.raises(EditRefused, match=r"p\.yaml: sink\.topic.*shop\.orders went to one, now to two"):
        Edits(edited, compile_spec(edited), life.state).check_tables(source, ListSink())
    assert list(notes_since(LastRun.read(life.state), None, None, edited.sink)) == [
        "a run would stop: rows would be written to another location in the sink: shop.orders went to one, now to two"
    ]
    taken_back, sink = life.spec(sink=_kafka(topic="one")), ListSink()
    schema = TableLog(life.state.store).at(CommitLog(life.state.commits).last()).sink[ORDERS]
    sink.apply(0, [CreateTable(ORDERS, schema)])
    Edits(taken_back, compile_spec(taken_back), life.state).check_tables(source, sink)


def test_another_clock_of_instants_is_refused(life: Life) -> None:
    sink = {"type": "doris", "fenodes": "fe", "username": "u", "password": "p"}
    Fingerprints(life.state.store).write(fingerprint_of(life.spec(sink=sink)))
    spec = life.spec(sink={**sink, "sink.time-zone": "Asia/Shanghai"})
    with pytest.raises(EditRefused, match=r"sink\.sink\.time-zone: is Asia/Shanghai now, the runs before had UTC"):
        Edits(spec, compile_spec(spec), life.state).check_sink(ListSink())


def test_another_fence_topic_is_refused(life: Life) -> None:
    Fingerprints(life.state.store).write(fingerprint_of(life.spec(sink=_kafka())))
    spec = life.spec(sink=_kafka(**{"sink.fence-topic": "elsewhere"}))
    edited = Edits(spec, compile_spec(spec), life.state)
    with pytest.raises(EditRefused, match=r"sink\.sink\.fence-topic.*is elsewhere now.*would come twice"):
        edited.check_sink(ListSink())
    Fingerprints(life.state.store).write(fingerprint_of(life.spec(sink=_kafka(**{"value.format": "json"}))))
    assert "a run would stop: sink.value.format is debezium-json now" in str(
        notes_since(LastRun.read(life.state), None, None, life.spec(sink=_kafka()).sink)
    )


def test_nothing_is_refused_before_a_first_batch(tmp_path: Path) -> None:
    life = Life(tmp_path)
    Fingerprints(life.state.store).write(fingerprint_of(life.spec(sink=_kafka())))
    spec = life.spec(sink=_kafka(**{"value.format": "json"}))
    Edits(spec, compile_spec(spec), life.state).check_sink(ListSink())

"""The log of tables, repaired by hand as docs/state.md says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc.errors import EngineError, StateError
from cdc.schema import AddColumn, Column, CreateTable, DataType, TableId, TableSchema
from cdc.state.directory import StateDir
from cdc.tables.requests import Mailbox, RequestKind
from cdc.testing import ListSink, ListSource, block, run_in_memory

DOCS = Path(__file__).parents[2] / "docs" / "state.md"
T = TableId("shop", "t")
ID, NOTE = Column("id", DataType.parse("INT"), nullable=False), Column("note", DataType.parse("STRING"))
NARROW, WIDE = TableSchema((ID,), ("id",)), TableSchema((ID, NOTE), ("id",))


class Growing(ListSource):
    """A source that copies nothing, whose list grows."""

    def add(self, *items: Any) -> None:
        self._items = (*self._items, *items)


class Pipeline:
    def __init__(self, folder: Path) -> None:
        self.folder, self.sink, self.source = folder, ListSink(), Growing([])
        self._start: Any = None
        self._batches = 0

    def run(self, *items: Any) -> None:
        self.source.add(*items)
        done = run_in_memory(self.source, self.sink, state=self.folder, start=self._start, first_batch=self._batches)
        self._start, self._batches = done.offset, self._batches + done.batches

    def edit(self, key: str, change: Callable[[str], str]) -> None:
        """What a person does in an editor: the last line that has the key is changed."""
        path = self.folder / "tables.jsonl"
        lines = path.read_text().splitlines()
        place = max(index for index, line in enumerate(lines) if f'"{key}":' in line)
        lines[place] = change(lines[place])
        path.write_text("\n".join(lines) + "\n")

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.sink.rows(T)]


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    made = Pipeline(tmp_path)
    made.run(CreateTable(T, NARROW), block(T, NARROW, [("+I", {"id": 1})]))
    return made


def row(number: int, schema: TableSchema = NARROW) -> Any:
    return block(T, schema, [("+I", {"id": number})], sequence=number)


def test_a_pair_that_is_paused_for_ever_follows_the_log_again(pipeline: Pipeline) -> None:
    Mailbox(StateDir(pipeline.folder).store).add(T, RequestKind.PAUSE)
    pipeline.run(row(2))
    assert pipeline.ids == [1]
    pipeline.edit("pairs", lambda line: line.replace('"state":"paused"', '"state":"live"'))
    pipeline.run(row(3))
    assert pipeline.ids == [1, 3]


def test_a_schema_becomes_what_the_sink_has(pipeline: Pipeline) -> None:
    """Somebody has added the column that the source gets by hand; the log had been told otherwise."""
    pipeline.edit(
        "sink",
        lambda line: line.replace(
            '"sink":{"shop.t":{"columns":[', '"sink":{"shop.t":{"columns":[{"name":"x","type":"INT","nullable":false},'
        ),
    )
    with pytest.raises(EngineError, match=r"rows with the columns id .* the sink's table, which has x, id"):
        pipeline.run(row(2))
    pipeline.edit("sink", lambda line: line.replace('{"name":"x","type":"INT","nullable":false},', ""))
    pipeline.run()
    assert pipeline.ids == [1, 2]


def test_a_line_that_cannot_be_read_is_named_and_goes_on_once_it_can(pipeline: Pipeline) -> None:
    pipeline.edit("source", lambda line: line.replace('"columns"', '"colums"'))
    with pytest.raises(StateError, match="the entry of batch 0 cannot be read") as caught:
        pipeline.run(AddColumn(T, NOTE), row(2, WIDE))
    assert "docs/state.md" in caught.value.hint
    pipeline.edit("source", lambda line: line.replace('"colums"', '"columns"'))
    pipeline.run()
    assert pipeline.ids == [1, 2]


def test_a_line_without_its_line_break_is_missed_at_the_start(pipeline: Pipeline) -> None:
    path = pipeline.folder / "tables.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    with pytest.raises(StateError, match="the log of tables holds 0 entries, 1 are needed"):
        pipeline.run(row(2))


def test_the_page_shows_the_file_as_it_is(pipeline: Pipeline) -> None:
    shown = re.search(r"```json\n(.*?)```", DOCS.read_text().partition("## The log of tables")[2], re.DOTALL)
    assert shown is not None
    lines = [json.loads(line) for line in re.sub(r"\n ", " ", shown[1]).splitlines()]
    real = [json.loads(line) for line in (pipeline.folder / "tables.jsonl").read_text().splitlines()]
    assert lines[0] == real[0]
    assert lines[1].keys() >= real[1].keys() - {"digest"}
    assert lines[1]["source"]["shop.orders"] == real[1]["source"]["shop.t"]

import re

import pytest
from together import together

from cdc.schema import TableId
from connectors.shared.streamload.labels import LONGEST, LabelSpace, check_prefix, table_hash

ORDERS = TableId("shop", "orders")


def test_a_label_names_its_load() -> None:
    space = LabelSpace("shop-1a2b3c4d", "cdc")
    label = space.label(7, ORDERS, 3, 1)
    assert label == f"cdc_shop-1a2b3c4d_7_{table_hash(ORDERS)}_3_1"
    found = space.read(label)
    assert found is not None
    assert (found.batch, found.table, found.partition, found.part) == (7, table_hash(ORDERS), 3, 1)


def test_a_used_up_label_has_a_successor_of_the_same_load() -> None:
    space = LabelSpace("shop", "cdc")
    again = space.label(7, ORDERS, 3, 1, again=2)
    assert again != space.label(7, ORDERS, 3, 1)
    found = space.read(again)
    assert found is not None
    assert found.batch == 7


@together("pipeline", ["shop", "Käse & Brot", "p" * 200, "a.b", "a_b", "", "a b"])
@together("prefix", ["", "cdc", "x" * 32])
def test_every_pipeline_makes_labels_that_both_servers_take(pipeline: str, prefix: str) -> None:
    label = LabelSpace(pipeline, prefix).label(10**12, TableId("d" * 64, "t" * 64), 99_999, 999, 19)
    assert re.fullmatch(r"[-_A-Za-z0-9]{1,128}", label)
    assert len(label) <= LONGEST


def test_pipelines_do_not_share_labels() -> None:
    names = ["a", "a_1", "a_1_00000000_0", "a.b", "a-b", "a b", "p" * 60, "p" * 61]
    labels = {LabelSpace(name).label(1, ORDERS, 0) for name in names}
    assert len(labels) == len(names)
    for name in names:
        space = LabelSpace(name)
        assert [label for label in labels if space.read(label)] == [space.label(1, ORDERS, 0)]


def test_tables_do_not_share_labels() -> None:
    assert table_hash(TableId("a", "b.c")) != table_hash(TableId("a.b", "c"))


@together("prefix", ["a b", "ä", "x" * 33, "a:b", "a.b"])
def test_prefixes_that_do_not_fit_into_a_label(prefix: str) -> None:
    with pytest.raises(ValueError, match="letters"):
        check_prefix(prefix)

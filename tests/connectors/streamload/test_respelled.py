"""Which changes of type spell the text of a key otherwise."""

import pytest

from cdc.schema import DataType
from connectors.streamload.respelled import respelled


@pytest.mark.parametrize(
    ("old", "new", "otherwise"),
    [
        ("DECIMAL(10, 2)", "DECIMAL(20, 4)", True),
        ("DECIMAL(10, 2)", "DECIMAL(20, 2)", False),
        ("TIME(0)", "TIME(3)", True),
        ("TIME(3)", "TIME(3)", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "DOUBLE", False),
        ("INT", "DOUBLE", True),
        ("VARCHAR(5)", "VARCHAR(9)", False),
        ("INT", "BIGINT", False),
    ],
)
def test_other_texts_of_the_same_value(old: str, new: str, otherwise: bool) -> None:
    assert respelled(DataType.parse(new), DataType.parse(old)) is otherwise

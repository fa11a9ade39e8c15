"""Types as trees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.data_types import DataType, parse_data_type

ATOMS = st.sampled_from(
    ["int", "decimal(10,2)", "interval day to second", "string collate UTF8_LCASE", "time(6)"]
).map(DataType)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)


def _nest(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(st.tuples(NAMES, inner), max_size=3)
    return st.one_of(
        inner.map(lambda child: DataType("array", (child,))),
        st.tuples(inner, inner).map(lambda children: DataType("map", children)),
        fields.map(
            lambda items: DataType(
                "struct", tuple(child for _, child in items), tuple(name for name, _ in items)
            )
        ),
    )


TYPES = st.recursive(ATOMS, _nest, max_leaves=6)


@given(TYPES)
def test_the_text_of_a_type_is_read_back(type_: DataType) -> None:
    assert parse_data_type(type_.sql) == type_


def test_spaces_and_plain_names_beyond_ascii_are_read() -> None:
    assert parse_data_type("struct<größe: int, a b:array< decimal(10, 2) >>") == DataType(
        "struct",
        (DataType("int"), DataType("array", (DataType("decimal(10, 2)"),))),
        ("größe", "a b"),
    )


@pytest.mark.parametrize("text", ["array<int", "map<int>", "struct<int>", "array<int>>", "", "a("])
def test_a_text_that_is_no_type_is_one_type_without_children(text: str) -> None:
    assert parse_data_type(text) == DataType(text)

"""Record batches: splitting and change of schema."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.java_arrow import write_as_java

from headrace.results.batches import (
    apply_schema,
    batch_bytes,
    complete_offsets,
    count_rows_within,
    count_values,
    group_by_size,
    normalize_batch,
    split_batch,
)

_texts = st.lists(st.none() | st.text(max_size=40), max_size=60)


def _batch(texts: list[str | None]) -> pa.RecordBatch:
    numbers = pa.array(range(len(texts)), pa.int64())
    return pa.record_batch([pa.array(texts, pa.string()), numbers], names=["_0", "_1"])


@settings(deadline=None)
@given(_texts, st.integers(1, 400), st.integers(0, 10))
def test_a_batch_is_split_into_slices_within_the_limit(
    texts: list[str | None], limit: int, start: int
) -> None:
    batch = _batch(texts).slice(start)
    slices = list(split_batch(batch, limit))
    assert all(batch_bytes(part) <= limit or part.num_rows == 1 for part in slices)
    assert all(part.num_rows for part in slices)
    table = pa.Table.from_batches(slices, batch.schema)
    assert table.equals(pa.Table.from_batches([batch]))


@settings(deadline=None)
@given(_texts, st.integers(0, 2000))
def test_rows_within_a_limit_are_the_longest_prefix(texts: list[str | None], limit: int) -> None:
    batch = _batch(texts)
    rows = count_rows_within(batch, limit)
    assert batch_bytes(batch.slice(0, rows)) <= limit or rows == 0
    if rows < batch.num_rows:
        assert batch_bytes(batch.slice(0, rows + 1)) > limit


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([3, 3, 3], [[3, 3], [3]]),
        ([9, 1, 1], [[9], [1, 1]]),
        ([1, 9, 1], [[1], [9], [1]]),
        ([4, 4, 4, 4], [[4, 4], [4, 4]]),
    ],
)
def test_batches_are_grouped_within_the_limit(sizes: list[int], groups: list[list[int]]) -> None:
    batches = [pa.record_batch([pa.array([1] * size, pa.int8())], names=["_0"]) for size in sizes]
    grouped = [[batch.num_rows for batch in group] for group in group_by_size(batches, 8)]
    assert grouped == groups


def test_each_row_counts_at_least_one_byte() -> None:
    assert batch_bytes(pa.record_batch([pa.nulls(7)], names=["_0"])) == 7


def _lists(values: pa.Array, offsets: list[int]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


@pytest.mark.finding("S3")
@pytest.mark.parametrize(
    ("array", "counts"),
    [
        (pa.array([True] * 16), [16, 4]),
        (_lists(pa.nulls(100), [0, 10, 20, 50, 60, 100]), [105, 94]),
        (_lists(_lists(pa.nulls(100), [0, 90, 100]), [0, 1, 2, 2, 2]), [106, 14]),
        (pa.StructArray.from_arrays([pa.nulls(8)] * 3, ["a", "b", "c"]), [32, 16]),
        (_lists(pa.array([{}] * 50, pa.struct([])), [0, 10, 20, 50, 50, 50]), [55, 44]),
        (
            pa.MapArray.from_arrays([0, 20, 25, 30, 50], pa.array([True] * 50), pa.nulls(50)),
            [104, 63],
        ),
        (pa.array([], pa.list_(pa.null())), [0, 0]),
    ],
)
def test_each_nested_value_counts_at_least_one_byte(array: pa.Array, counts: list[int]) -> None:
    batch = pa.record_batch([array], names=["_0"])
    assert [count_values(batch), count_values(batch.slice(1, 4))] == counts
    assert batch_bytes(batch) == max(batch.nbytes, counts[0])


_NESTED = pa.struct([("x", pa.int32()), ("x", pa.list_(pa.string()))])


def _nested(rows: int) -> pa.RecordBatch:
    lists = pa.array([["a", None], None, []][:rows], pa.list_(pa.string()))
    struct = pa.StructArray.from_arrays(
        [pa.array(range(rows), pa.int32()), lists], fields=list(_NESTED)
    )
    mapped = pa.array([[("k", 1)], None, []][:rows], pa.map_(pa.string(), pa.int64()))
    moments = pa.array(range(rows), pa.timestamp("us", "Asia/Kathmandu"))
    return pa.record_batch([struct, mapped, moments], names=["s", "s", "t"])


_POSITIONAL = pa.schema(
    [
        ("_0", pa.struct([("_0", pa.int32()), ("_1", pa.list_(pa.string()))])),
        ("_1", pa.map_(pa.string(), pa.int64())),
        ("_2", pa.timestamp("us", "UTC")),
    ]
)


@pytest.mark.parametrize(("start", "rows"), [(0, 3), (1, 2), (1, 1), (3, 0)])
def test_a_batch_has_the_same_values_under_another_schema(start: int, rows: int) -> None:
    batch = _nested(3).slice(start, rows)
    stored = apply_schema(batch, _POSITIONAL)
    stored.validate(full=True)
    assert stored.schema == _POSITIONAL
    restored = apply_schema(stored, batch.schema)
    restored.validate(full=True)
    assert restored.equals(batch)


def test_lists_of_nulls_survive_a_change_of_schema() -> None:
    batch = pa.record_batch([pa.array([[None, None]] * 3, pa.list_(pa.null()))], names=["a"])
    renamed = apply_schema(batch, pa.schema([("b", pa.list_(pa.null()))]))
    renamed.validate(full=True)
    assert renamed.column(0).to_pylist() == [[None, None]] * 3


def test_a_list_of_entries_becomes_a_map() -> None:
    entries = pa.list_(pa.struct([("_0", pa.string()), ("_1", pa.int64())]))
    batch = pa.record_batch([pa.array([[{"_0": "k", "_1": 1}], None], entries)], names=["_0"])
    mapped = apply_schema(batch, pa.schema([("_0", pa.map_(pa.string(), pa.int64()))]))
    assert mapped.column(0).to_pylist() == [[("k", 1)], None]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.float32(), pa.time32("ms"), pa.list_(pa.int32()), pa.large_string()]
)
def test_a_schema_of_another_layout_is_refused(kind: pa.DataType) -> None:
    batch = pa.record_batch([pa.array([1], pa.int32())], names=["a"])
    with pytest.raises(TypeError, match="not laid out"):
        apply_schema(batch, pa.schema([("a", kind)]))


def test_types_with_64_bit_offsets_become_types_with_32_bit_offsets() -> None:
    large = pa.struct(
        [("a", pa.large_string()), ("b", pa.map_(pa.large_string(), pa.large_binary()))]
    )
    small = pa.struct([("_0", pa.string()), ("_1", pa.map_(pa.string(), pa.binary()))])
    value = {"a": "x", "b": [("k", b"v")]}
    batch = pa.record_batch([pa.array([value, None], large)], names=["s"])
    stored = normalize_batch(batch, pa.schema([("_0", small)]))
    assert stored.column(0).to_pylist() == [{"_0": "x", "_1": [("k", b"v")]}, None]


_LEAVES = st.sampled_from(
    [pa.string(), pa.binary(), pa.int32(), pa.bool_(), pa.null(), pa.struct([]), pa.duration("us")]
)
_NESTED_TYPES = st.recursive(
    _LEAVES,
    lambda kinds: (
        kinds.map(pa.list_)
        | st.tuples(kinds, kinds).map(lambda pair: pa.struct([("x", pair[0]), ("x", pair[1])]))
        | kinds.map(lambda kind: pa.map_(pa.string(), kind))
    ),
    max_leaves=6,
)


def _empty_values(kind: pa.DataType) -> st.SearchStrategy[object]:
    """Return a strategy for values of a type without any value in a list or a map."""
    if not pa.types.is_nested(kind):
        return st.none()
    if pa.types.is_struct(kind):
        fields = [_empty_values(kind.field(index).type) for index in range(kind.num_fields)]
        names = [kind.field(index).name for index in range(kind.num_fields)]
        return st.tuples(*fields).map(lambda parts: list(zip(names, parts, strict=True)))
    return st.none() | st.just([])


@settings(deadline=None, max_examples=50)
@given(st.data(), _NESTED_TYPES, st.integers(0, 3))
def test_lists_without_values_need_no_offsets(
    data: st.DataObject, kind: pa.DataType, rows: int
) -> None:
    values = data.draw(st.lists(_empty_values(kind), min_size=rows, max_size=rows))
    array = pa.array(values, kind)
    schema = pa.schema([pa.field("_0", kind)])
    message = pa.record_batch([write_as_java(array)], schema=schema).serialize()
    batch = complete_offsets(pa.ipc.read_record_batch(message, schema))
    batch.validate(full=True)
    assert batch.column(0).equals(array)
    assert batch_bytes(batch) == batch_bytes(pa.record_batch([array], schema=schema))
    assert sum(each.num_rows for each in split_batch(batch, 1)) == rows

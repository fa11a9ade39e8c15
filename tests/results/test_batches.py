"""Cutting and relabelling record batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.result import ResultPart
from headrace.results.batches import conform, relabel, rows_within, size, split
from headrace.results.chunks import count_out

_texts = st.lists(st.none() | st.text(max_size=40), max_size=60)


def _batch(texts: list[str | None]) -> pa.RecordBatch:
    numbers = pa.array(range(len(texts)), pa.int64())
    return pa.record_batch([pa.array(texts, pa.string()), numbers], names=["_0", "_1"])


@settings(deadline=None)
@given(_texts, st.integers(1, 400), st.integers(0, 10))
def test_pieces_are_the_batch_within_the_limit(
    texts: list[str | None], limit: int, start: int
) -> None:
    batch = _batch(texts).slice(start)
    pieces = list(split(batch, limit))
    assert all(size(piece) <= limit or piece.num_rows == 1 for piece in pieces)
    assert all(piece.num_rows for piece in pieces)
    whole = pa.Table.from_batches(pieces, batch.schema)
    assert whole.equals(pa.Table.from_batches([batch]))


@settings(deadline=None)
@given(_texts, st.integers(0, 2000))
def test_rows_within_is_the_largest_prefix(texts: list[str | None], limit: int) -> None:
    batch = _batch(texts)
    rows = rows_within(batch, limit)
    assert size(batch.slice(0, rows)) <= limit or rows == 0
    if rows < batch.num_rows:
        assert size(batch.slice(0, rows + 1)) > limit


def test_rows_that_take_no_bytes_count() -> None:
    assert size(pa.record_batch([pa.nulls(7)], names=["_0"])) == 7


_sizes = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 100)), max_size=5), max_size=5
)


@settings(deadline=None)
@given(_sizes, st.integers(1, 150))
def test_chunks_hold_every_batch_once_and_in_order(
    parts: list[list[tuple[int, int]]], limit: int
) -> None:
    named = [
        ResultPart(
            name=f"p{n}", rows=[rows for rows, _ in part], bytes=[taken for _, taken in part]
        )
        for n, part in enumerate(parts)
    ]
    taken = {(part.name, i): size for part in named for i, size in enumerate(part.bytes)}
    chunks = count_out(named, limit)
    assert [batch[:2] for chunk in chunks for batch in chunk] == list(taken)
    sums = [sum(taken[name, index] for name, index, _ in chunk) for chunk in chunks]
    assert all(total <= limit or len(chunk) == 1 for total, chunk in zip(sums, chunks, strict=True))
    # No chunk could have taken the next one's first batch.
    for total, following in zip(sums, chunks[1:], strict=False):
        assert total + taken[following[0][:2]] > limit


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
def test_relabelled_batches_have_the_same_values(start: int, rows: int) -> None:
    batch = _nested(3).slice(start, rows)
    stored = relabel(batch, _POSITIONAL)
    stored.validate(full=True)
    assert stored.schema == _POSITIONAL
    again = relabel(stored, batch.schema)
    again.validate(full=True)
    assert again.equals(batch)


def test_lists_of_nulls_survive() -> None:
    batch = pa.record_batch([pa.array([[None, None]] * 3, pa.list_(pa.null()))], names=["a"])
    relabelled = relabel(batch, pa.schema([("b", pa.list_(pa.null()))]))
    relabelled.validate(full=True)
    assert relabelled.column(0).to_pylist() == [[None, None]] * 3


def test_a_map_may_come_as_the_list_of_its_entries() -> None:
    entries = pa.list_(pa.struct([("_0", pa.string()), ("_1", pa.int64())]))
    batch = pa.record_batch([pa.array([[{"_0": "k", "_1": 1}], None], entries)], names=["_0"])
    mapped = relabel(batch, pa.schema([("_0", pa.map_(pa.string(), pa.int64()))]))
    assert mapped.column(0).to_pylist() == [[("k", 1)], None]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.float32(), pa.time32("ms"), pa.list_(pa.int32()), pa.large_string()]
)
def test_buffers_are_never_read_as_what_they_are_not(kind: pa.DataType) -> None:
    batch = pa.record_batch([pa.array([1], pa.int32())], names=["a"])
    with pytest.raises(TypeError, match="not laid out"):
        relabel(batch, pa.schema([("a", kind)]))


def test_large_types_become_small() -> None:
    large = pa.struct(
        [("a", pa.large_string()), ("b", pa.map_(pa.large_string(), pa.large_binary()))]
    )
    small = pa.struct([("_0", pa.string()), ("_1", pa.map_(pa.string(), pa.binary()))])
    value = {"a": "x", "b": [("k", b"v")]}
    batch = pa.record_batch([pa.array([value, None], large)], names=["s"])
    stored = conform(batch, pa.schema([("_0", small)]))
    assert stored.column(0).to_pylist() == [{"_0": "x", "_1": [("k", b"v")]}, None]

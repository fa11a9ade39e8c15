"""Reading results by chunk and as a stream, and errors of damaged or deleted results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ChunkNotFound, InvalidResult, ResultGone
from headrace.files.locations import delete
from headrace.model.result import Disposition, Manifest, ResultInfo, ResultPart
from headrace.results.arrow_messages import BatchFile
from headrace.results.batches import serialize_batches
from headrace.results.manifest import write_manifest
from headrace.results.reader import (
    RowRange,
    find_next_offset,
    group_into_chunks,
    open_rows,
)

_SPARK = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
A, B = "part-a.arrow", "part-b.arrow"
_SCHEMA = pa.schema([("_0", pa.int64())])


def _batch(start: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(start, start + rows))], schema=_SCHEMA)


def _info(**fields: Any) -> ResultInfo:
    defaults = {
        "disposition": Disposition.STORED,
        "spark_schema": _SPARK,
        "row_count": 7,
        "byte_count": 56,
        "truncated": False,
        "chunks": 3,
        "location": None,
        "expires_at": datetime.now(UTC),
    }
    return ResultInfo(**{**defaults, **fields})


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Write a result of two parts: batches of 3 and 2 rows, and a batch of 2 rows cut to 1.

    A chunk holds two batches.
    """
    for name, batches in {A: [_batch(0, 3), _batch(3, 2)], B: [_batch(5, 2)]}.items():
        with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as part:
            for batch in batches:
                part.write_batch(batch)
    manifest = Manifest(
        spark_schema=_SPARK,
        row_count=6,
        byte_count=48,
        truncated=True,
        chunk_limit=40,
        parts=[
            ResultPart(name=A, rows=[3, 2], bytes=[24, 16]),
            ResultPart(name=B, rows=[1], bytes=[8]),
        ],
    )
    write_manifest(str(tmp_path), manifest)
    return tmp_path


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("limit", range(1, 8))
def test_a_range_of_rows_has_the_rows_of_a_slice(stored: Path, offset: int, limit: int) -> None:
    rows = open_rows(_info(location=str(stored)), None)
    batches = list(rows.select(RowRange(offset, limit)))
    expected = list(range(6))[offset : offset + limit]
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == expected
    assert all(batch.num_rows for batch in batches)


@pytest.mark.finding("U10")
def test_a_range_of_rows_is_read_without_the_batches_around_it(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    read_batch = BatchFile.read_batch

    def record(file: BatchFile, position: int) -> pa.RecordBatch:
        read.append(position)
        return read_batch(file, position)

    monkeypatch.setattr(BatchFile, "read_batch", record)
    rows = open_rows(_info(location=str(stored)), None)
    assert _ids(rows.select(RowRange(3, 2))) == [[3, 4]]
    assert read == [1]
    (stored / A).unlink()
    assert _ids(rows.select(RowRange(5, 100))) == [[5]]
    assert _ids(rows.select(RowRange(6, 100))) == []


def test_a_range_of_an_inline_result_has_the_rows_of_a_slice() -> None:
    data = serialize_batches([_batch(0, 3), _batch(3, 2)], _SCHEMA)
    rows = open_rows(_info(disposition=Disposition.INLINE, row_count=5, chunks=1), data)
    assert _ids(rows.select(RowRange(2, 2))) == [[2], [3]]
    assert find_next_offset(rows, RowRange(2, 2)) == 4
    assert find_next_offset(rows, RowRange(2, 3)) is None


def _ids(batches: Any) -> list[list[int]]:
    return [batch.column(0).to_pylist() for batch in batches]


_batch_sizes = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 100)), max_size=5), max_size=5
)


@settings(deadline=None)
@given(_batch_sizes, st.integers(1, 150))
def test_chunks_contain_every_batch_once_and_in_order(
    batches: list[list[tuple[int, int]]], limit: int
) -> None:
    parts = [
        ResultPart(
            name=f"part-{number}.arrow",
            rows=[rows for rows, _ in part],
            bytes=[size for _, size in part],
        )
        for number, part in enumerate(batches)
    ]
    sizes = {(part.name, i): size for part in parts for i, size in enumerate(part.bytes)}
    chunks = group_into_chunks(parts, limit)
    assert [batch[:2] for chunk in chunks for batch in chunk] == list(sizes)
    totals = [sum(sizes[batch[:2]] for batch in chunk) for chunk in chunks]
    assert all(
        total <= limit or len(chunk) == 1 for total, chunk in zip(totals, chunks, strict=True)
    )
    # The first batch of each chunk did not fit into the chunk before.
    for total, following in zip(totals, chunks[1:], strict=False):
        assert total + sizes[following[0][:2]] > limit


def test_a_stored_result_is_read_by_chunk_or_by_batch(stored: Path) -> None:
    rows = open_rows(_info(location=str(stored)), None)
    assert rows.chunks == 2
    # The report has claimed seven rows.
    assert rows.row_count == 6
    assert _ids(rows.chunk(0)) == [[0, 1, 2], [3, 4]]
    assert _ids(rows.chunk(1)) == [[5]]
    assert _ids(rows.batches()) == [[0, 1, 2], [3, 4], [5]]
    for number in (-1, 2):
        with pytest.raises(ChunkNotFound, match="chunks 0 to 1"):
            rows.chunk(number)


def test_a_part_is_opened_when_its_first_batch_is_read(stored: Path) -> None:
    batches = open_rows(_info(location=str(stored)), None).batches()
    assert _ids([next(batches)]) == [[0, 1, 2]]
    (stored / B).unlink()
    assert _ids([next(batches)]) == [[3, 4]]
    with pytest.raises(ResultGone, match=rf"has no {B}\.$"):
        next(batches)


def test_a_deleted_result_is_gone_even_if_its_manifest_is_cached(stored: Path) -> None:
    location = str(stored)
    rows = open_rows(_info(location=location), None)
    delete(location)
    for deleted in (rows, open_rows(_info(location=location), None)):
        with pytest.raises(ResultGone):
            next(deleted.chunk(0))
    with pytest.raises(ResultGone, match=r"manifest\.json"):
        open_rows(_info(location=f"{location}/other"), None)


def test_a_result_that_is_gone_in_the_store_is_not_looked_up() -> None:
    with pytest.raises(ResultGone):
        open_rows(_info(location="/nowhere", gone=True), None)
    with pytest.raises(ResultGone):
        open_rows(_info(disposition=Disposition.INLINE), None)


@pytest.mark.parametrize(
    ("name", "content"),
    [(A, b"no Arrow file"), (A, b""), ("manifest.json", b"{}"), ("manifest.json", b"\xff")],
)
def test_a_damaged_file_is_an_error(name: str, content: bytes, stored: Path) -> None:
    (stored / name).write_bytes(content)
    with pytest.raises(InvalidResult):
        next(open_rows(_info(location=str(stored)), None).chunk(0))


def test_a_truncated_file_is_an_error(stored: Path) -> None:
    content = (stored / A).read_bytes()
    (stored / A).write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidResult):
        next(open_rows(_info(location=str(stored)), None).chunk(0))


def test_a_part_of_another_result_is_refused(stored: Path) -> None:
    other = pa.record_batch([pa.array(["x"])], names=["_0"])
    with pa.OSFile(str(stored / A), "wb") as file, pa.ipc.new_file(file, other.schema) as part:
        part.write_batch(other)
    with pytest.raises(InvalidResult, match="do not have the schema"):
        next(open_rows(_info(location=str(stored)), None).chunk(0))


def test_an_inline_result_has_one_chunk() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_batch(_batch(0, 3))
    data = sink.getvalue().to_pybytes()
    rows = open_rows(_info(disposition=Disposition.INLINE), data)
    assert rows.chunks == 1
    assert _ids(rows.chunk(0)) == _ids(rows.batches()) == [[0, 1, 2]]
    with pytest.raises(ChunkNotFound):
        rows.chunk(1)


@pytest.mark.finding("S3")
def test_a_footer_is_read_up_to_the_batches_of_the_manifest(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    def open_part(file: Any, schema: Any, batch_count: int) -> BatchFile:
        counts.append(batch_count)
        return BatchFile(file, schema, batch_count)

    monkeypatch.setattr("headrace.results.reader.BatchFile", open_part)
    list(open_rows(_info(location=str(stored)), None).batches())
    assert counts == [2, 1]

"""Reading results back, and what can be wrong with them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import ChunkNotFound, ResultGone, ResultsUnavailable
from headrace.model.result import Disposition, Manifest, ResultInfo, ResultPart
from headrace.results.reader import open_rows, write_manifest
from headrace.storage.locations import delete

_SPARK = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
_SCHEMA = pa.schema([("_0", pa.int64())])


def _batch(start: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(start, start + rows))], schema=_SCHEMA)


def _info(**known: Any) -> ResultInfo:
    values = {
        "disposition": Disposition.STORED,
        "spark_schema": _SPARK,
        "row_count": 7,
        "byte_count": 56,
        "truncated": False,
        "chunks": 3,
        "location": None,
        "expires_at": datetime.now(UTC),
    }
    return ResultInfo(**{**values, **known})


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Parts of 3 + 2 and 2 rows, of the last of which one is cut off; chunks of two batches."""
    for name, batches in {"a": [_batch(0, 3), _batch(3, 2)], "b": [_batch(5, 2)]}.items():
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
            ResultPart(name="a", rows=[3, 2], bytes=[24, 16]),
            ResultPart(name="b", rows=[1], bytes=[8]),
        ],
    )
    write_manifest(str(tmp_path), manifest)
    return tmp_path


def _ids(batches: Any) -> list[list[int]]:
    return [batch.column(0).to_pylist() for batch in batches]


def test_chunks_and_batches(stored: Path) -> None:
    rows = open_rows(_info(location=str(stored)), None)
    assert rows.chunks == 2
    assert _ids(rows.chunk(0)) == [[0, 1, 2], [3, 4]]
    assert _ids(rows.chunk(1)) == [[5]]
    assert _ids(rows.batches()) == [[0, 1, 2], [3, 4], [5]]
    for number in (-1, 2):
        with pytest.raises(ChunkNotFound, match="chunks 0 to 1"):
            rows.chunk(number)


def test_parts_are_opened_when_they_are_reached(stored: Path) -> None:
    batches = open_rows(_info(location=str(stored)), None).batches()
    assert _ids([next(batches)]) == [[0, 1, 2]]
    (stored / "b").unlink()
    assert _ids([next(batches)]) == [[3, 4]]
    with pytest.raises(ResultGone, match=r"has no b$"):
        next(batches)


def test_deleted_results_are_gone_also_when_their_manifest_is_known(stored: Path) -> None:
    location = str(stored)
    rows = open_rows(_info(location=location), None)
    delete(location)
    for opened in (rows, open_rows(_info(location=location), None)):
        with pytest.raises(ResultGone):
            opened.chunk(0)
    with pytest.raises(ResultGone, match=r"manifest\.json"):
        open_rows(_info(location=f"{location}/other"), None)


def test_gone_results_are_told_before_anything_is_read() -> None:
    with pytest.raises(ResultGone):
        open_rows(_info(location="/nowhere", gone=True), None)
    with pytest.raises(ResultGone):
        open_rows(_info(disposition=Disposition.INLINE), None)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a", b"no Arrow file"), ("a", b""), ("manifest.json", b"{}"), ("manifest.json", b"\xff")],
)
def test_damaged_files(name: str, content: bytes, stored: Path) -> None:
    (stored / name).write_bytes(content)
    with pytest.raises(ResultsUnavailable):
        open_rows(_info(location=str(stored)), None).chunk(0)


def test_cut_off_files(stored: Path) -> None:
    content = (stored / "a").read_bytes()
    (stored / "a").write_bytes(content[: len(content) // 2])
    with pytest.raises(ResultsUnavailable):
        open_rows(_info(location=str(stored)), None).chunk(0)


def test_files_of_another_result(stored: Path) -> None:
    other = pa.record_batch([pa.array(["x"])], names=["_0"])
    with pa.OSFile(str(stored / "a"), "wb") as file, pa.ipc.new_file(file, other.schema) as part:
        part.write_batch(other)
    with pytest.raises(ResultsUnavailable, match="not what was written"):
        open_rows(_info(location=str(stored)), None).chunk(0)


def test_inline_results_are_one_chunk() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_batch(_batch(0, 3))
    data = sink.getvalue().to_pybytes()
    rows = open_rows(_info(disposition=Disposition.INLINE), data)
    assert rows.chunks == 1
    assert _ids(rows.chunk(0)) == _ids(rows.batches()) == [[0, 1, 2]]
    with pytest.raises(ChunkNotFound):
        rows.chunk(1)

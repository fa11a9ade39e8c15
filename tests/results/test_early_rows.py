"""The first rows of a result that is still being written, as a driver lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.made_results import spark_schema, stored_result

from headrace.errors import InvalidResult, ResultGone, ResultsUnavailable
from headrace.model.result import FinishedParts
from headrace.results.early_rows import EarlyRows, write_finished_parts
from headrace.results.manifest import read_manifest

COLUMNS = [("n", "integer")]
BATCHES = [[[1], [2]], [[3]], [[4], [5], [6]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a complete result of three parts."""
    stored_result(tmp_path / "result", COLUMNS, BATCHES, chunk_limit=8)
    return tmp_path / "result"


def list_parts(folder: Path, number: int, *positions: int, **changes: Any) -> None:
    """Write a file of finished parts with the parts of the result at these positions."""
    parts = read_manifest(str(folder)).parts
    finished = FinishedParts(
        spark_schema=spark_schema(COLUMNS), parts=[parts[position] for position in positions]
    )
    write_finished_parts(str(folder), number, finished.model_copy(update=changes))


def read_listed(rows: EarlyRows) -> list[int]:
    return [value for batch in rows.batches() for value in batch.column(0).to_pylist()]


def read_remaining(rows: EarlyRows) -> list[int]:
    return [value for batch in rows.remaining() for value in batch.column(0).to_pylist()]


def test_finished_parts_are_read_in_order_and_the_manifest_has_the_rest(folder: Path) -> None:
    rows = EarlyRows(str(folder))
    assert not rows.find_parts()
    list_parts(folder, 0, 0)
    assert rows.find_parts()
    assert rows.schema.names == ("n",)
    assert read_listed(rows) == [1, 2]
    assert not rows.find_parts()
    list_parts(folder, 1, 1)
    assert rows.find_parts()
    assert read_listed(rows) == [3]
    assert rows.row_count == 3
    assert read_remaining(rows) == [4, 5, 6]
    assert rows.row_count == 6


def test_listed_parts_that_were_not_read_are_read_from_the_manifest(folder: Path) -> None:
    list_parts(folder, 0, 0, 1)
    rows = EarlyRows(str(folder))
    assert rows.find_parts()
    assert next(rows.batches()).column(0).to_pylist() == [1, 2]
    (folder / "finished-000000.json").unlink()
    assert read_remaining(rows) == [3, 4, 5, 6]


def test_rows_that_are_not_the_beginning_of_the_result_are_an_error(folder: Path) -> None:
    list_parts(folder, 0, 1)
    rows = EarlyRows(str(folder))
    assert rows.find_parts()
    assert read_listed(rows) == [3]
    with pytest.raises(InvalidResult, match="does not begin with the parts"):
        read_remaining(rows)


def test_a_part_that_is_deleted_meanwhile_is_an_error(folder: Path) -> None:
    list_parts(folder, 0, 0)
    rows = EarlyRows(str(folder))
    assert rows.find_parts()
    for part in folder.glob("*.arrow"):
        part.unlink()
    with pytest.raises(ResultGone):
        read_listed(rows)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        json.dumps({"spark_schema": {}, "parts": [{"name": "../x", "rows": [], "bytes": []}]}),
        json.dumps({"spark_schema": spark_schema(COLUMNS), "parts": [{"name": "part-1.arrow"}]}),
        json.dumps({"spark_schema": {"type": "struct", "fields": 1}, "parts": []}),
        " " * (9 << 20),
    ],
)
def test_a_forged_list_is_an_error(folder: Path, content: str) -> None:
    (folder / "finished-000000.json").write_text(content)
    with pytest.raises(InvalidResult):
        EarlyRows(str(folder)).find_parts()


def test_a_list_with_another_schema_is_an_error(folder: Path) -> None:
    list_parts(folder, 0, 0)
    list_parts(folder, 1, 1, spark_schema=spark_schema([("n", "string")]))
    rows = EarlyRows(str(folder))
    assert rows.find_parts()
    assert read_listed(rows) == [1, 2]
    with pytest.raises(InvalidResult, match="different schemas"):
        rows.find_parts()


def test_a_link_in_place_of_a_list_is_not_followed(folder: Path, tmp_path: Path) -> None:
    list_parts(folder, 0, 0)
    (folder / "finished-000000.json").rename(tmp_path / "elsewhere.json")
    (folder / "finished-000000.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ResultsUnavailable):
        EarlyRows(str(folder)).find_parts()

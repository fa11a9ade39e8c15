"""The driver lists the parts of finished tasks while other tasks of the query run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results import Writer
from tests.support.waiting import wait_until

from headrace.driver.output.executor_write import PartsInOrder
from headrace.model.result import Disposition
from headrace.results.early_rows import EarlyRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.driver.output.task import FinishedTask

_ROWS_OF_A_PARTITION = 100_000


def finished(partition: int, name: str | None, *rows: int) -> FinishedTask:
    return {"partition": partition, "name": name, "rows": list(rows), "sizes": list(rows)}


def test_parts_are_listed_in_the_order_of_their_partitions() -> None:
    parts = PartsInOrder()
    assert parts.add([finished(2, "part-2.arrow", 1), finished(1, None)]) == []
    assert [part.name for part in parts.add([finished(0, "part-0.arrow", 1, 2)])] == [
        "part-0.arrow",
        "part-2.arrow",
    ]
    assert [part.rows for part in parts.add([finished(3, "part-3.arrow", 7)])] == [[7]]


def test_the_list_ends_before_rows_that_the_driver_has() -> None:
    parts = PartsInOrder()
    tasks = [finished(0, "part-0.arrow", 5), finished(1, None, 3), finished(2, "part-2.arrow", 5)]
    assert [part.name for part in parts.add(tasks)] == ["part-0.arrow"]
    assert parts.add([finished(3, "part-3.arrow", 5)]) == []


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return the file for which the last partition of `gated_rows` waits."""
    return tmp_path / "gate"


@pytest.fixture
def gated_rows(spark: SparkSession, gate: Path) -> DataFrame:
    """Return the numbers from 0 in three partitions. The last one waits until the gate exists."""
    path = str(gate)

    def wait(partition: int, values: Iterator[Any]) -> Iterator[Any]:
        import time
        from pathlib import Path

        while partition == 2 and not Path(path).exists():
            time.sleep(0.02)
        return ((value,) for value in values)

    numbers = spark.sparkContext.range(0, 3 * _ROWS_OF_A_PARTITION, 1, 3)
    return spark.createDataFrame(numbers.mapPartitionsWithIndex(wait), "n bigint")


@pytest.mark.spark
def test_rows_of_finished_tasks_are_readable_before_the_query_ends(
    gated_rows: DataFrame, gate: Path, writer: Writer
) -> None:
    rows = EarlyRows(str(writer.root / "result-1"))
    values: list[int] = []

    def read_more() -> bool:
        if rows.find_parts():
            values.extend(v for batch in rows.batches() for v in batch.column(0).to_pylist())
        return len(values) == 2 * _ROWS_OF_A_PARTITION

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(writer.write, gated_rows)
        try:
            wait_until(read_more, what="the rows of two partitions")
            assert not written.done()
        finally:
            gate.touch()
        report, _rows = written.result()
    assert report.disposition is Disposition.STORED
    assert not [path for path in writer.list_files() if "finished" in path.name]
    values += [v for batch in rows.remaining() for v in batch.column(0).to_pylist()]
    assert values == list(range(3 * _ROWS_OF_A_PARTITION))


@pytest.mark.spark
@pytest.mark.parametrize(
    "options", [{"row_limit": 10**9}, {"byte_limit": 10**12}, {"disposition": Disposition.MEMORY}]
)
def test_parts_that_may_not_be_in_the_result_are_not_listed(
    spark: SparkSession, writer: Writer, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.driver.output import executor_write

    def refuse(*_arguments: object) -> None:
        raise AssertionError("the parts would be listed")

    monkeypatch.setattr(executor_write, "FinishedPartsLister", refuse)
    frame = spark.sql("SELECT explode(sequence(1, 200000)) AS n")
    report, _rows = writer.write(frame, **options)
    assert report.row_count == 200_000
    with pytest.raises(AssertionError):
        writer.write(frame)

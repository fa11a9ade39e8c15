"""Writing results: disposition, order of the rows, limits and failures."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from tests.support.results import Writer, read_rows

from headrace.driver.output import write_result
from headrace.driver.output.executor_write import SHIPPED_MODULES
from headrace.driver.output.task import TaskOptions, make_task
from headrace.errors import ResultsWriteFailed, ResultTooLarge
from headrace.model.result import Disposition
from headrace.results.batches import batch_bytes
from headrace.results.formats import json as json_format
from headrace.results.manifest import read_manifest
from headrace.results.reader import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Spark has no upper bound for the rows of `explode`, so executors write them.
_HUNDRED_ROWS = "SELECT n FROM (SELECT explode(sequence(0, 99)) AS n)"


def _values(rows: Rows, column: int = 0) -> list[Any]:
    return [value for batch in rows.batches() for value in batch.column(column).to_pylist()]


def _json_rows(rows: Rows) -> Any:
    return json.loads(b"".join(json_format.write(rows, 0)))["rows"]


def test_a_small_result_is_inline_and_leaves_no_file(spark: SparkSession, writer: Writer) -> None:
    for sql in ("SELECT 1 AS n", "SELECT count(*) FROM range(9)", _HUNDRED_ROWS):
        report, rows = writer.write(spark.sql(sql))
        assert report.disposition is Disposition.INLINE
        assert report.chunks == rows.chunks == 1
        assert len(_values(rows)) == report.row_count
    assert writer.list_files() == []


def test_a_stored_result_can_be_read_from_its_location(spark: SparkSession, writer: Writer) -> None:
    generated = "SELECT 7 AS n FROM (SELECT explode(array(1)))"
    for sql in ("SELECT 7 AS n", "SELECT count(*) + 7 AS n FROM range(0)", generated):
        report, rows = writer.write(spark.sql(sql), disposition=Disposition.STORED)
        assert report.disposition is Disposition.STORED
        assert report.data is None
        assert _values(rows) == [7]
        manifest = read_manifest(writer.location)
        assert (manifest.row_count, manifest.truncated) == (1, False)


def test_rows_keep_their_order_across_partitions(spark: SparkSession, writer: Writer) -> None:
    frame = spark.sql("SELECT id, CAST(id AS STRING) FROM range(0, 1000000, 1, 7)")
    report, rows = writer.write(frame, chunk_limit=1024 * 1024)
    assert report.row_count == 1_000_000
    assert report.chunks == rows.chunks > 10
    count = 0
    for number in range(rows.chunks):
        batches = list(rows.chunk(number))
        assert sum(map(batch_bytes, batches)) <= 1024 * 1024
        for batch in batches:
            expected = pa.array(range(count, count + batch.num_rows))
            assert batch.column(0).equals(expected)
            assert batch.column(1).equals(expected.cast(pa.string()))
            count += batch.num_rows
    assert count == report.row_count


def test_sorted_rows_keep_their_order(spark: SparkSession, writer: Writer) -> None:
    frame = spark.sql("SELECT id FROM range(0, 20000, 1, 3) ORDER BY -id")
    _, rows = writer.write(frame, disposition=Disposition.STORED)
    assert _values(rows) == list(range(19_999, -1, -1))


def test_a_row_larger_than_a_chunk_is_a_chunk_of_its_own(
    spark: SparkSession, writer: Writer
) -> None:
    frame = spark.sql(
        "SELECT repeat('x', IF(n = 2, 200000, 30000)) FROM (SELECT explode(sequence(1, 4)) AS n)"
    )
    report, rows = writer.write(frame, chunk_limit=64 * 1024, inline_limit=0)
    lengths = [
        [len(value) for batch in rows.chunk(number) for value in batch.column(0).to_pylist()]
        for number in range(rows.chunks)
    ]
    assert lengths == [[30_000], [200_000], [30_000, 30_000]]
    assert report.chunks == 3


def test_columns_and_fields_may_have_duplicate_names(spark: SparkSession, writer: Writer) -> None:
    columns = "n AS a, n + 1 AS a, n + 2 AS A, named_struct('f', n, 'f', n + 1, 'F', n + 2) AS s"
    expected = [0, 1, 2, [["f", 0], ["f", 1], ["F", 2]]]
    for source in (
        "VALUES (0L) AS t(n)",
        "(SELECT count(*) AS n FROM range(0))",
        f"({_HUNDRED_ROWS})",
    ):
        _, rows = writer.write(spark.sql(f"SELECT {columns} FROM {source}"))
        assert rows.schema.names == ("a", "a", "A", "s")
        *plain, pairs = _json_rows(rows)[0]
        assert [int(value) for value in plain] == expected[:3]
        assert [[name, int(value)] for name, value in pairs] == expected[3]


@pytest.mark.parametrize("disposition", list(Disposition))
def test_rows_without_columns_are_counted(
    disposition: Disposition, spark: SparkSession, writer: Writer
) -> None:
    for sql, count in (("SELECT 1", 1), ("SELECT id FROM range(3)", 3), (_HUNDRED_ROWS, 100)):
        report, rows = writer.write(spark.sql(sql).select(), disposition=disposition)
        assert report.row_count == count
        assert sum(batch.num_rows for batch in rows.batches()) == count
        assert _json_rows(rows) == [[]] * count


@pytest.mark.parametrize("disposition", list(Disposition))
def test_a_result_may_have_no_rows(
    disposition: Disposition, spark: SparkSession, writer: Writer
) -> None:
    for sql in (
        "SELECT 1 AS n WHERE false",
        "SELECT sum(id) AS n FROM range(3) HAVING sum(id) < 0",
        f"{_HUNDRED_ROWS} WHERE n < 0",
        "SET spark.unheard.of",
    ):
        report, rows = writer.write(spark.sql(sql).where("false"), disposition=disposition)
        assert (report.row_count, report.byte_count, report.chunks) == (0, 0, 1)
        assert rows.schema.columns
        assert _json_rows(rows) == []


def test_commands_have_results(spark: SparkSession, writer: Writer) -> None:
    _, rows = writer.write(spark.sql("SHOW DATABASES"))
    assert ["default"] in _json_rows(rows)
    report, rows = writer.write(spark.sql("CREATE TEMPORARY VIEW made AS SELECT 1"))
    spark.catalog.dropTempView("made")
    assert rows.schema.columns == ()
    assert report.row_count == 0


@pytest.mark.parametrize("limit", [0, 1, 99, 100, 101])
def test_a_row_limit_truncates_the_result_and_is_reported(
    limit: int, spark: SparkSession, writer: Writer
) -> None:
    report, rows = writer.write(spark.sql(_HUNDRED_ROWS), row_limit=limit)
    assert report.row_count == len(_values(rows)) == min(limit, 100)
    assert report.truncated is (limit < 100)


def test_a_large_row_limit_is_applied_across_tasks(spark: SparkSession, writer: Writer) -> None:
    frame = spark.range(0, 4_000_000, 1, 3)
    report, rows = writer.write(frame, row_limit=2_000_001)
    assert report.truncated
    assert report.row_count == 2_000_001
    count = 0
    for batch in rows.batches():
        assert batch.column(0)[0].as_py() == count
        count += batch.num_rows
    assert count == 2_000_001


@pytest.mark.parametrize("disposition", [Disposition.AUTO, Disposition.STORED])
def test_a_byte_limit_keeps_the_longest_run_of_first_rows(
    disposition: Disposition, spark: SparkSession, writer: Writer
) -> None:
    frame = spark.sql("SELECT id FROM range(0, 30000, 1, 3)")
    for limit, count in ((0, 0), (7, 0), (100, 12), (100_001, 12_500), (240_000, 30_000)):
        report, rows = writer.write(frame, byte_limit=limit, disposition=disposition)
        assert report.row_count == len(_values(rows)) == count
        assert report.byte_count == count * 8
        assert report.truncated is (count < 30_000)
        assert _values(rows) == list(range(count))


@pytest.mark.parametrize(
    "sql", ["SELECT repeat('x', 300000)", "SELECT repeat('x', 300000) FROM range(0, 5, 1, 2)"]
)
def test_a_result_too_large_for_inline_is_an_error(
    sql: str, spark: SparkSession, writer: Writer
) -> None:
    with pytest.raises(ResultTooLarge, match=r"262144 bytes.*'stored'"):
        writer.write(spark.sql(sql), disposition=Disposition.INLINE)
    assert writer.list_files() == []
    report, _ = writer.write(spark.sql(sql))
    assert report.disposition is Disposition.STORED


def test_an_inline_result_includes_parts_of_later_partitions(
    spark: SparkSession, writer: Writer
) -> None:
    # Tasks after the first 16 may return less than the inline limit, and write a part instead.
    frame = spark.sql("SELECT repeat('x', IF(id = 63, 200000, 9)) FROM range(0, 64, 1, 64)")
    report, rows = writer.write(frame, disposition=Disposition.INLINE)
    assert report.row_count == 64
    assert len(_values(rows)[63]) == 200_000
    assert writer.list_files() == []


def test_many_small_partitions_become_few_parts(spark: SparkSession, writer: Writer) -> None:
    frame = spark.sql("SELECT id FROM range(0, 300, 1, 100)")
    report, rows = writer.write(frame, disposition=Disposition.AUTO, inline_limit=2048)
    assert report.disposition is Disposition.STORED
    assert len(read_manifest(writer.location).parts) < 100
    assert _values(rows) == list(range(300))


def test_retried_tasks_write_each_row_once(
    spark: SparkSession, writer: Writer, tmp_path: Path
) -> None:
    from pyspark.sql.functions import udf

    attempts = tmp_path / "attempts"
    attempts.mkdir()

    @udf("long", useArrow=False)
    def fail_once(value: int) -> int:
        if value % 50_000 == 49_999:
            first_attempt = attempts / str(value)
            if not first_attempt.exists():
                first_attempt.touch()
                raise ValueError("the first attempt fails")
        return value

    frame = spark.range(0, 150_000, 1, 3).select(fail_once("id").alias("id"))
    report, rows = writer.write(frame, inline_limit=1000)
    assert len(list(attempts.iterdir())) == 3
    assert report.row_count == 150_000
    assert _values(rows) == list(range(150_000))
    listed = {part.name for part in read_manifest(writer.location).parts}
    assert {path.name for path in writer.list_files()} == listed | {"manifest.json"}


def test_a_failed_query_leaves_no_files(spark: SparkSession, writer: Writer) -> None:
    frame = spark.sql("SELECT IF(id = 99999, raise_error('no more'), id) FROM range(0, 100000)")
    with pytest.raises(PySparkException, match="no more"):
        writer.write(frame, disposition=Disposition.STORED)
    assert writer.list_files() == []


def test_a_location_that_cannot_be_written_is_an_error(spark: SparkSession, writer: Writer) -> None:
    writer.root.mkdir()
    (writer.root / "file").write_text("not a directory")
    for sql in ("SELECT 1", "SELECT count(*) FROM range(2)", _HUNDRED_ROWS):
        with pytest.raises(ResultsWriteFailed, match="Not a directory"):
            writer.write(
                spark.sql(sql),
                disposition=Disposition.STORED,
                location=str(writer.root / "file" / "result"),
            )


@contextmanager
def _mount_small_disk(path: Path) -> Iterator[None]:
    path.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip(f"cannot mount a small disk (needs root): {mount.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_full_disk_is_an_error_and_leaves_no_files(spark: SparkSession, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with _mount_small_disk(disk):
        writer = Writer(disk)
        with pytest.raises(ResultsWriteFailed, match="No space left on device"):
            writer.write(spark.sql("SELECT id FROM range(0, 1000000, 1, 2)"))
        assert writer.list_files() == []
        _, rows = writer.write(spark.sql("SELECT id FROM range(0, 100000, 1, 2)"))
        assert _values(rows) == list(range(100_000))


def test_a_failed_write_of_the_driver_leaves_no_files(spark: SparkSession, writer: Writer) -> None:
    # Unlike a small disk, a limit on file sizes needs no root.
    frame = spark.sql("SELECT repeat('x', 3000000) AS text")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ResultsWriteFailed, match="File too large"):
            writer.write(frame, disposition=Disposition.STORED)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert writer.list_files() == []


def test_a_location_may_be_a_uri(spark: SparkSession, writer: Writer) -> None:
    for number, sql in enumerate(("SELECT 1", "SELECT id FROM range(0, 90000, 1, 2)")):
        report, rows = writer.write(
            spark.sql(sql),
            disposition=Disposition.STORED,
            location=f"local://{writer.root}/uri-{number}",
        )
        assert sum(batch.num_rows for batch in rows.batches()) == report.row_count
    assert any(path.parent.name == "uri-1" for path in writer.list_files())


_WITHOUT_HEADRACE = """
import pickle, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "headrace":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import pyarrow as pa
from pyspark import TaskContext

context = TaskContext._getOrCreate()
context._partitionId, context._taskAttemptId = 3, 17
task = pickle.load(sys.stdin.buffer)
batch = pa.record_batch([pa.array(range(5000))], names=["_0"])
message = batch.serialize().to_pybytes()
report, = task(3, [message, message])
print(report["name"], report["rows"])
assert not any(name.split(".")[0] == "headrace" for name in sys.modules)
"""


def test_tasks_run_without_headrace(tmp_path: Path) -> None:
    options = TaskOptions(
        schema=pa.schema([("_0", pa.int64())]),
        location=str(tmp_path),
        local=True,
        buffer_bytes=1000,
        chunk_limit=64 * 1024,
        row_limit=None,
        byte_limit=None,
    )
    for module in SHIPPED_MODULES:
        cloudpickle.register_pickle_by_value(module)
    process = subprocess.run(
        [sys.executable, "-c", _WITHOUT_HEADRACE],
        input=cloudpickle.dumps(make_task(options, options.schema)),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout.decode().strip() == "part-000003-17.arrow [5000, 5000]"
    assert (tmp_path / "part-000003-17.arrow").stat().st_size > 80_000


def test_large_arrow_types_in_the_session_do_not_change_the_result(
    spark: SparkSession, writer: Writer
) -> None:
    key = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(key, "true")
    try:
        for source in ("", "FROM (SELECT count(*) FROM range(2))", f"FROM ({_HUNDRED_ROWS})"):
            frame = spark.sql(f"SELECT 'a', map('k', array(X'00')) {source}")
            _, rows = writer.write(frame)
            assert _json_rows(rows)[0] == ["a", [["k", ["AA=="]]]]
    finally:
        spark.conf.unset(key)


def test_a_report_with_binary_rows_survives_json(spark: SparkSession, writer: Writer) -> None:
    report = write_result(spark.sql("SELECT X'FF' AS b"), writer.make_options())
    assert _values(read_rows(report)) == [b"\xff"]


@pytest.mark.finding("U9")
def test_a_result_with_timestamps_names_the_time_zone_of_its_session(
    spark: SparkSession, writer: Writer
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    for sql, zone in [
        ("SELECT timestamp'2026-01-01 00:00:00' AS t", "Asia/Kathmandu"),
        ("SELECT array(named_struct('t', current_timestamp())) AS a", "Asia/Kathmandu"),
        ("SELECT timestamp_ntz'2026-01-01 00:00:00' AS t, current_date() AS d", None),
        ("SELECT 1 AS n", None),
    ]:
        report, rows = writer.write(session.sql(sql))
        assert report.time_zone == zone
        assert "time_zone" not in str(rows.schema.spark)

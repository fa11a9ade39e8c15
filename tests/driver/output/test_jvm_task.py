"""Tasks in the JVM: their files, the sizes that they report, and the results that they leave."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.support.aws import account, moto_server
from tests.support.results import Writer
from tests.support.s3 import s3_conf
from tests.support.waiting import wait_until

from headrace.driver.output import executor_write
from headrace.driver.output.jvm_task import find_jvm_location, run_tasks
from headrace.driver.output.task import TaskOptions
from headrace.model.result import Disposition
from headrace.results.batches import batch_bytes
from headrace.results.manifest import read_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TYPES = """
SELECT id, IF(id % 3 = 0, NULL, id) AS with_nulls, id % 2 = 0 AS flag, CAST(id AS DECIMAL(30, 2)),
    repeat('é', CAST(id % 50 AS INT)) AS text, CAST(CAST(id AS STRING) AS BINARY) AS bytes,
    array_repeat(id, CAST(id % 3 AS INT)) AS list, map(id, 'v') AS map,
    struct(id AS a, struct(CAST(NULL AS STRING) AS b) AS c) AS struct, NULL AS void,
    TIMESTAMP '2026-01-01 00:00:00' AS instant, make_ym_interval(1, 1) AS months
FROM range(0, 30000, 1, 2)
"""


@pytest.fixture
def no_python_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test whose result needs a Python worker."""

    def refuse(*_arguments: object) -> None:
        raise AssertionError("a Python worker writes this result")

    monkeypatch.setattr(executor_write, "_run_python_tasks", refuse)


def options(schema: pa.Schema, location: str, *, local: bool = True) -> TaskOptions:
    return TaskOptions(
        schema=schema,
        location=location,
        local=local,
        buffer_bytes=1000,
        chunk_limit=1000,
        row_limit=None,
        byte_limit=None,
    )


@pytest.mark.usefixtures("no_python_tasks")
@pytest.mark.parametrize("chunk_limit", [8 * 1024 * 1024, 100_000])
def test_a_part_has_the_batches_and_sizes_that_the_manifest_states(
    spark: SparkSession, writer: Writer, chunk_limit: int
) -> None:
    frame = spark.sql(_TYPES)
    report, rows = writer.write(
        frame, disposition=Disposition.STORED, inline_limit=0, chunk_limit=chunk_limit
    )

    assert report.row_count == 30_000
    assert [row for batch in rows.batches() for row in batch.column(0).to_pylist()] == list(
        range(30_000)
    )
    parts = read_manifest(writer.location).parts
    assert [part.name[:11] for part in parts] == ["part-000000", "part-000001"]
    for part in parts:
        with pa.ipc.open_file(Path(writer.location) / part.name) as file:
            batches = [file.get_batch(index) for index in range(file.num_record_batches)]
        assert part.rows == [batch.num_rows for batch in batches]
        assert part.bytes == [batch_bytes(batch) for batch in batches]
        assert max(part.bytes) <= chunk_limit
        for batch in batches:
            batch.validate(full=True)


@pytest.mark.usefixtures("no_python_tasks")
def test_values_without_bytes_limit_a_batch(spark: SparkSession, writer: Writer) -> None:
    nulls = ", ".join("NULL" for _ in range(20))
    report, _rows = writer.write(
        spark.sql(f"SELECT {nulls} FROM range(0, 20000, 1, 1)"),
        disposition=Disposition.STORED,
        inline_limit=0,
        chunk_limit=1000,
    )

    assert report.row_count == 20_000
    [part] = read_manifest(writer.location).parts
    # Each row has 20 values, and a value counts as one byte.
    assert max(part.rows) <= 50
    assert part.bytes == [20 * rows for rows in part.rows]


@pytest.mark.usefixtures("no_python_tasks")
def test_a_result_of_a_few_rows_leaves_no_file(spark: SparkSession, writer: Writer) -> None:
    report, rows = writer.write(spark.sql("SELECT explode(sequence(0, 99)) AS n"))

    assert report.disposition is Disposition.INLINE
    assert [row for batch in rows.batches() for row in batch.column(0).to_pylist()] == list(
        range(100)
    )
    assert writer.list_files() == []


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.list_(pa.int64()), True),
        (pa.struct([("a", pa.list_(pa.int64()))]), True),
        (pa.list_(pa.struct([("a", pa.int64())])), True),
        (pa.list_(pa.list_(pa.int64())), False),
        (pa.map_(pa.string(), pa.list_(pa.int64())), False),
        (pa.struct([("a", pa.list_(pa.struct([("b", pa.map_(pa.string(), pa.int8()))])))]), False),
    ],
    ids=str,
)
def test_python_completes_the_lists_in_lists(
    spark: SparkSession, type_: pa.DataType, *, expected: bool
) -> None:
    schema = pa.schema([("_0", type_)])
    expected_location = "/results" if expected else None
    assert find_jvm_location(spark, options(schema, "/results")) == expected_location


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("hdfs://host/results", "hdfs://host/results"),
        ("s3://bucket/results", "s3a://bucket/results"),
        ("local:///results", None),
    ],
)
def test_python_writes_where_hadoop_has_no_file_system(
    spark: SparkSession, location: str, expected: str | None
) -> None:
    schema = pa.schema([("_0", pa.int64())])
    assert find_jvm_location(spark, options(schema, location, local=False)) == expected


@pytest.mark.usefixtures("no_python_tasks")
def test_a_task_that_fails_after_it_has_begun_a_part_deletes_it(
    spark: SparkSession, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The driver deletes the location at the end: here the files of the tasks stay.
    monkeypatch.setattr("headrace.driver.output.write.locations.delete", lambda _location: None)
    frame = spark.sql("SELECT IF(id = 99999, raise_error('late'), id) FROM range(0, 100000, 1, 1)")

    with pytest.raises(Exception, match="late"):
        writer.write(frame, disposition=Disposition.STORED, inline_limit=0)

    assert writer.list_files() == []


@pytest.mark.s3
@pytest.mark.usefixtures("no_python_tasks")
def test_a_result_is_written_to_s3(
    spark: SparkSession, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moto_server() as endpoint:
        bucket = urlsplit(account(endpoint).results).netloc
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        for key, value in s3_conf(endpoint).items():
            hadoop.set(key, value)
        # A user reads another store in this session.
        spark.conf.set("fs.s3a.endpoint", "http://127.0.0.1:1")
        try:
            report, rows = writer.write(
                spark.sql("SELECT id FROM range(0, 90000, 1, 2)"),
                disposition=Disposition.STORED,
                location=f"s3://{bucket}/results/one",
            )
            numbers = [n for batch in rows.batches() for n in batch.column(0).to_pylist()]
        finally:
            spark.conf.unset("fs.s3a.endpoint")
            for key in s3_conf(endpoint):
                hadoop.unset(key)

    assert report.row_count == 90_000
    assert numbers == list(range(90_000))


TEXTS = "SELECT CAST(id AS STRING), repeat('x', 100) FROM range(0, 30000, 1, 1)"


def check_sizes(writer: Writer) -> None:
    """Fail if the sizes in the manifest of the last result, which has one part, are wrong."""
    [part] = read_manifest(writer.location).parts
    with pa.ipc.open_file(Path(writer.location) / part.name) as file:
        batches = [file.get_batch(index) for index in range(file.num_record_batches)]
    assert part.bytes == [batch_bytes(batch) for batch in batches]


def check_texts(spark: SparkSession, writer: Writer, **changes: Any) -> None:
    """Write and read TEXTS, and fail if a row or a size is wrong."""
    report, rows = writer.write(spark.sql(TEXTS), disposition=Disposition.STORED, **changes)
    texts = [text for batch in rows.batches() for text in batch.column(0).to_pylist()]
    assert report.row_count == 30_000
    assert texts == [str(number) for number in range(30_000)]
    check_sizes(writer)


@pytest.mark.usefixtures("no_python_tasks")
@pytest.mark.parametrize(
    "column",
    [
        "map(1Y, NULL, 2Y, NULL, 3Y, NULL, 4Y, NULL)",
        "array(NULL, NULL, NULL, NULL)",
        "id % 2 = 0",
        "IF(id % 2 = 0, NULL, id)",
        "named_struct('a', NULL, 'b', NULL)",
    ],
)
def test_few_bytes_for_many_values_are_counted_as_python_does(
    spark: SparkSession, writer: Writer, column: str
) -> None:
    writer.write(
        spark.sql(f"SELECT {column} FROM range(0, 30000, 1, 1)"),
        disposition=Disposition.STORED,
        inline_limit=0,
    )
    check_sizes(writer)


@pytest.mark.usefixtures("no_python_tasks")
@pytest.mark.parametrize("codec", ["zstd", "LZ4", "none"])
@pytest.mark.parametrize("changes", [{}, {"chunk_limit": 50_000}, {"byte_limit": 10_000_000}])
def test_compressed_batches_of_spark_are_written_without_compression(
    spark: SparkSession, writer: Writer, codec: str, changes: dict[str, int]
) -> None:
    """Nodes refuse compressed batches."""
    spark.conf.set("spark.sql.execution.arrow.compression.codec", codec)
    try:
        check_texts(spark, writer, inline_limit=0, **changes)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.compression.codec")


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_python_writes_rows_with_large_offsets(
    spark: SparkSession, writer: Writer, value: str
) -> None:
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", value)
    try:
        check_texts(spark, writer, inline_limit=0)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


@pytest.mark.usefixtures("no_python_tasks")
def test_a_cancelled_task_ends_and_deletes_its_part(
    spark: SparkSession, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The driver deletes the location at the end: here the files of the tasks stay.
    monkeypatch.setattr("headrace.driver.output.write.locations.delete", lambda _location: None)
    numbers = "SELECT explode(sequence(1, 20000)) AS n"
    frame = spark.sql(f"SELECT explode(sequence(1, 20000)) AS m FROM ({numbers})")

    def run() -> None:
        spark.sparkContext.addJobTag("long")
        with pytest.raises(Exception, match="cancelled"):
            writer.write(frame, disposition=Disposition.STORED, inline_limit=0)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run)
        wait_until(lambda: bool(writer.list_files()), what="the task has begun a part")
        spark.sparkContext.cancelJobsWithTag("long")
        ended.result(120)
        wait_until(lambda: not writer.list_files(), what="the part is deleted")


def test_an_unchecked_exception_of_a_file_system_is_an_error_of_the_location(
    spark: SparkSession,
) -> None:
    remote = options(pa.schema([("_0", pa.int64())]), "hdfs://host.invalid/results", local=False)
    location = find_jvm_location(spark, remote)
    assert location is not None

    [report] = run_tasks(spark.sql("SELECT id FROM range(0, 90000, 1, 1)"), remote, location, None)

    assert "host.invalid" in str(report["failure"])

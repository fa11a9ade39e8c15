"""Tasks in the JVM: their files, the sizes that they report, and the results that they leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.support.aws import account, moto_server
from tests.support.results import Writer
from tests.support.s3 import s3_conf

from headrace.driver.output import executor_write
from headrace.driver.output.jvm_task import find_jvm_location
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
        for key, value in s3_conf(endpoint).items():
            spark.conf.set(key, value)
        try:
            report, rows = writer.write(
                spark.sql("SELECT id FROM range(0, 90000, 1, 2)"),
                disposition=Disposition.STORED,
                location=f"s3://{bucket}/results/one",
            )
            numbers = [n for batch in rows.batches() for n in batch.column(0).to_pylist()]
        finally:
            for key in s3_conf(endpoint):
                spark.conf.unset(key)

    assert report.row_count == 90_000
    assert numbers == list(range(90_000))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.execution.arrow.compression.codec", "zstd"),
        ("spark.sql.execution.arrow.compression.codec", "LZ4"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "TRUE"),
    ],
)
def test_messages_that_nodes_cannot_read_are_written_by_python(
    spark: SparkSession, writer: Writer, key: str, value: str
) -> None:
    spark.conf.set(key, value)
    try:
        report, rows = writer.write(
            spark.sql("SELECT CAST(id AS STRING), repeat('x', 100) FROM range(0, 30000, 1, 1)"),
            disposition=Disposition.STORED,
            inline_limit=0,
        )
        texts = [text for batch in rows.batches() for text in batch.column(0).to_pylist()]
    finally:
        spark.conf.unset(key)

    assert report.row_count == 30_000
    assert texts == [str(number) for number in range(30_000)]

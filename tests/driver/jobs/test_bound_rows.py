"""The driver runs the code of a batch job, whose rows a statement of SQL reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import fetch_rows

from headrace.errors import HeadraceError
from headrace.model.job_messages import ROWS_VIEW
from headrace.model.statement import Parameter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = datetime(2026, 3, 29, 1, tzinfo=UTC)
PARAMETERS = [
    Parameter(name="interval_start", value=START.isoformat(), type="TIMESTAMP"),
    Parameter(name="query_version", value=3, type="INT"),
]


def test_the_times_of_the_run_are_variables_and_instants_in_every_time_zone(
    spark: SparkSession,
) -> None:
    from headrace.driver.jobs.bound_rows import bind_rows

    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    code = (
        "from pyspark.sql import functions as F\n"
        "values = [F.lit(interval_start).alias('t'), F.lit(query_version).alias('v')]\n"
        "execution_output = spark.range(1).select(*values)"
    )
    bind_rows(session, code, PARAMETERS)
    rows = fetch_rows(session, f"SELECT unix_seconds(t), v FROM {ROWS_VIEW}")
    assert rows == [(int(START.timestamp()), 3)]


def test_the_files_of_the_run_are_paths_for_spark(spark: SparkSession, tmp_path: Path) -> None:
    from headrace.driver.jobs.bound_rows import bind_rows

    (tmp_path / "a +50%.json").write_text('{"n": 1}')
    (tmp_path / "other.json").write_text('{"n": 2}')
    files = Parameter(
        name="input_files", value=[f"file:{tmp_path}/a%20+50%25.json"], type="ARRAY<STRING>"
    )
    session = spark.newSession()
    bind_rows(session, "execution_output = spark.read.json(input_files)", [files])
    assert fetch_rows(session, f"SELECT n FROM {ROWS_VIEW}") == [(1,)]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("\nraise ValueError('no rows')", "line 2 of `code`: ValueError: no rows"),
        ("x = 1", "did not bind `execution_output`"),
        (
            "execution_output = spark.readStream.format('rate').load()",
            "to the rows of a stream",
        ),
    ],
    ids=["error", "nothing bound", "stream"],
)
def test_code_without_rows_fails_and_says_why(spark: SparkSession, code: str, message: str) -> None:
    from headrace.driver.jobs.bound_rows import bind_rows

    with pytest.raises(HeadraceError, match=message):
        bind_rows(spark.newSession(), code, PARAMETERS)

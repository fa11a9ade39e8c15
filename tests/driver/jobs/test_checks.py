"""Checks of jobs in real Spark: rows, names, targets, and what a plan says about its state."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import read_rows

from headrace.driver.jobs import tasks
from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.grammar.secret_references import KnownSecrets
from headrace.model import text as model_text
from headrace.model.job import METADATA_COLUMNS, JobMetadata, JobRows
from headrace.model.job_messages import CheckedJob, CheckJobs, JobToCheck, QueryToCheck
from headrace.model.stream_query import QuerySpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATE = "CREATE STREAM ticks FROM `rate-micro-batch` OPTIONS ('rowsPerBatch' = '10')"
QUALIFIED = (
    "CREATE STREAM `kafka`.`some-input` FROM `rate-micro-batch` OPTIONS ('rowsPerBatch' = '10')"
)
METADATA = JobMetadata(
    name="job",
    description="A job",
    query_id="q1",
    version=3,
    created_at=datetime(2026, 11, 23, 10, tzinfo=UTC),
)


class Checker:
    """Checks one job with one query."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def check(
        self,
        rows: JobRows,
        *definitions: str,
        save: str = "SAVE STREAM job TO noop",
        sink: str = "noop",
        path: str | None = None,
        location: str | None = None,
    ) -> CheckedJob:
        from headrace.driver.jobs.tasks import check_jobs

        spec = QuerySpec(text=save, definitions=list(definitions), sink=sink, path=path, rows=rows)
        job = JobToCheck(name="job", queries=[QueryToCheck(name="job", spec=spec)])
        task = CheckJobs(state_location=location or str(self.folder), jobs=[job])
        checked = check_jobs(self.spark, task, self._clone)
        self.location_problem = checked.location_problem
        return checked.jobs[0]

    def summarize(self, sql: str) -> list[str]:
        checked = self.check(
            JobRows(sql=sql), RATE, save="SAVE STREAM job TO noop OUTPUT MODE UPDATE"
        )
        assert checked.problems == []
        summary = checked.summaries["job"]
        assert summary.is_complete
        return summary.operators

    def _clone(self) -> SparkSession:
        from pyspark.sql import SparkSession

        return SparkSession(self.spark.sparkContext, Py4JBridge(self.spark).session.cloneSession())


@pytest.fixture
def checker(spark: SparkSession, tmp_path: Path) -> Checker:
    return Checker(spark, tmp_path)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value FROM `kafka`.`some-input` WHERE value > 1",
        "SELECT value FROM kafka.`some-input` -- `kafka`.`some-input`\nWHERE value > 1",
        "WITH x AS (SELECT value FROM `kafka`.`some-input`) SELECT * FROM x",
        "SELECT '\N{GRINNING FACE}' AS a, t.value FROM (SELECT * FROM `KAFKA`.`some-input` AS t) t",
        "SELECT a.value FROM `kafka`.`some-input` a UNION ALL SELECT value FROM kafka.`some-input`",
    ],
)
def test_a_query_can_read_streams_with_qualified_names(checker: Checker, sql: str) -> None:
    checked = checker.check(JobRows(sql=sql), QUALIFIED)

    assert checked.problems == []
    assert checked.summaries["job"].sources[0].startswith("rate-micro-batch")


def test_a_position_behind_a_qualified_name_is_that_in_the_users_text(checker: Checker) -> None:
    sql = "SELECT value FROM `kafka`.`some-input` WHERE missing > 1"
    [problem] = checker.check(JobRows(sql=sql), QUALIFIED).problems

    assert (problem.line, problem.column) == (1, sql.index("missing") + 1)


def test_a_stream_can_be_defined_over_one_with_a_qualified_name(checker: Checker) -> None:
    over = "CREATE STREAM `kafka`.`large` AS SELECT * FROM `kafka`.`some-input` WHERE value > 5"
    checked = checker.check(JobRows(sql="SELECT * FROM kafka.large"), QUALIFIED, over)

    assert checked.problems == []


def test_code_binds_the_rows(checker: Checker) -> None:
    code = "execution_output = spark.table('ticks').where('value > 1')"

    assert checker.check(JobRows(code=code), RATE).problems == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = missing_name", "line 2 of `code`: NameError"),
        ("x = (", "line 1 of `code`"),
        ("execution_output = 5", "a value of the type int"),
        ("x = 1", "did not bind `execution_output`"),
    ],
)
def test_code_that_cannot_run_is_a_problem(checker: Checker, code: str, message: str) -> None:
    [problem] = checker.check(JobRows(code=code), RATE).problems

    assert message in problem.message


def test_rows_get_the_metadata_columns(spark: SparkSession) -> None:
    from headrace.driver.streams.job_rows import _add_metadata

    [row] = read_rows(_add_metadata(spark.range(1), METADATA))

    assert list(row) == ["id", *METADATA_COLUMNS]
    assert row["__query_version"] == 3
    assert row["__query_create_timestamp"] == "2026-11-23T15:45:00.000+05:45"


def test_a_column_with_the_name_of_a_metadata_column_is_a_problem(checker: Checker) -> None:
    rows = JobRows(sql="SELECT 1 AS __QUERY_ID FROM ticks", metadata=METADATA)
    [problem] = checker.check(rows, RATE).problems

    assert "__query_id" in problem.message


def test_setup_cannot_write_rows(checker: Checker) -> None:
    rows = JobRows(setup=["INSERT INTO t VALUES (1)"], sql="SELECT * FROM ticks")
    [problem] = checker.check(rows, RATE).problems

    assert "INSERT INTO t" in problem.message


def test_a_missing_target_comes_with_the_statement_that_creates_it(checker: Checker) -> None:
    save = "SAVE STREAM job TO TABLE absent_target"
    rows = JobRows(sql="SELECT value FROM ticks", metadata=METADATA)
    [problem] = checker.check(rows, RATE, save=save, sink="table").problems

    assert problem.code == "target_missing"
    assert "CREATE TABLE `absent_target` (`value` bigint, `__create_timestamp` timestamp" in (
        problem.message
    )


def test_a_target_of_the_table_definitions_is_not_created_by_a_check(
    spark: SparkSession, checker: Checker
) -> None:
    create = "CREATE TABLE IF NOT EXISTS future_target (value BIGINT)"
    save = "SAVE STREAM job TO TABLE future_target"
    rows = JobRows(setup=[create], sql="SELECT value, timestamp FROM ticks")
    [problem] = checker.check(rows, RATE, save=save, sink="table").problems

    assert problem.code == "target_columns_missing"
    assert "ALTER TABLE `future_target` ADD COLUMNS (`timestamp` timestamp)" in problem.message
    assert not spark.catalog.tableExists("future_target")


def test_an_output_mode_that_spark_cannot_run_is_a_problem(checker: Checker) -> None:
    rows = JobRows(sql="SELECT count(*) AS c FROM ticks")
    [problem] = checker.check(rows, RATE).problems

    assert "watermark" in problem.message.lower()


def test_a_used_log_of_a_sink_of_files_is_found(checker: Checker, tmp_path: Path) -> None:
    rows = JobRows(sql="SELECT value FROM ticks")
    save = f"SAVE STREAM job TO json OPTIONS ('path' = '{tmp_path}/out')"
    before = checker.check(rows, RATE, save=save, sink="json", path=f"{tmp_path}/out")
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "out" / "_spark_metadata" / "0").write_text("v1")
    after = checker.check(rows, RATE, save=save, sink="json", path=f"{tmp_path}/out")

    assert before.used_logs == []
    assert after.used_logs == ["job"]


def test_a_state_location_that_cannot_be_written_is_reported(
    checker: Checker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    checker.check(JobRows(sql="SELECT * FROM ticks"), RATE, location=f"{tmp_path}/file/below")

    assert checker.location_problem


COUNT = "SELECT value % 2 AS k, count(*) AS c FROM ticks WHERE value > 0 GROUP BY value % 2"


@pytest.mark.parametrize(
    "changed",
    [
        COUNT.replace("value > 0", "value > 10"),
        COUNT.replace("WHERE value > 0 ", ""),
        f"SELECT k, c, c * 2 AS twice FROM ({COUNT})",
    ],
)
def test_filters_and_later_projections_keep_the_state(checker: Checker, changed: str) -> None:
    assert checker.summarize(changed) == checker.summarize(COUNT)


@pytest.mark.parametrize(
    "changed",
    [
        COUNT.replace("% 2", "% 3"),
        COUNT.replace("count(*)", "sum(value)"),
        "SELECT DISTINCT value FROM ticks",
        COUNT.replace("FROM ticks", "FROM (SELECT value + 1 AS value FROM ticks)"),
    ],
)
def test_keys_functions_and_earlier_computations_are_state(checker: Checker, changed: str) -> None:
    assert checker.summarize(changed) != checker.summarize(COUNT)


def test_the_width_of_a_window_is_state(checker: Checker) -> None:
    text = "SELECT window(timestamp, '1 minute') AS w, count(*) AS c FROM ticks"
    minutes = f"{text} GROUP BY window(timestamp, '1 minute')"
    hours = minutes.replace("minute", "hour")

    assert checker.summarize(minutes) == checker.summarize(minutes)
    assert checker.summarize(minutes) != checker.summarize(hours)


def test_a_stateless_query_has_no_operators(checker: Checker) -> None:
    assert checker.summarize("SELECT value FROM ticks WHERE value > 1") == []


def test_the_sources_of_a_summary_are_in_the_order_of_the_plan(checker: Checker) -> None:
    fast = "CREATE STREAM a FROM `rate-micro-batch` OPTIONS ('rowsPerBatch' = '20')"
    slow = "CREATE STREAM b FROM rate"

    def list_sources(sql: str) -> list[str]:
        checked = checker.check(JobRows(sql=sql), fast, slow)
        return [source.partition("(")[0] for source in checked.summaries["job"].sources]

    first = list_sources("SELECT value FROM a UNION ALL SELECT value FROM b")
    second = list_sources("SELECT value FROM b UNION ALL SELECT value FROM a")

    assert first == list(reversed(second))
    assert len(set(first)) == 2


def test_a_long_description_of_a_source_is_cut_and_stays_unequal_to_others() -> None:
    from headrace.driver.jobs.tasks import _shorten

    one, other = _shorten("x" * 5000 + "1"), _shorten("x" * 5000 + "2")

    assert one != other
    assert len(one) < 1000
    assert _shorten("short") == "short"


@pytest.mark.parametrize(
    ("setup", "sql"),
    [
        ("CREATE VIEW checked_view AS SELECT 1 AS x", "SELECT * FROM ticks, checked_view"),
        (
            "CREATE FUNCTION checked_function (x BIGINT) RETURNS BIGINT RETURN x + 1",
            "SELECT checked_function(value) AS value FROM ticks",
        ),
    ],
)
def test_a_check_creates_no_persistent_view_or_function(
    checker: Checker, setup: str, sql: str
) -> None:
    checked = checker.check(JobRows(setup=[setup], sql=sql), RATE)

    assert checked.problems == []
    assert "because the deployment creates it" in checked.notes[0]
    assert not checker.spark.catalog.tableExists("checked_view")
    assert not checker.spark.catalog.functionExists("checked_function")


@pytest.mark.parametrize(
    ("view", "name", "reason"),
    [
        ("CREATE VIEW kept AS SELECT value FROM ticks", "ticks", "it is a stream"),
        ("CREATE OR REPLACE VIEW a.b AS SELECT 1 FROM TICKS AS t", "TICKS", "it is a stream"),
        (
            "CREATE VIEW v AS SELECT * FROM `kafka`.`some-input`",
            *("`kafka`.`some-input`", "it is a stream"),
        ),
        (
            "CREATE VIEW v AS WITH x AS (SELECT 1 WHERE EXISTS (TABLE small)) TABLE x",
            *("small", "it is a temporary view over a stream"),
        ),
    ],
)
@pytest.mark.parametrize("is_checked", [True, False], ids=["plan", "run"])
def test_a_permanent_view_over_a_stream_of_the_job_is_refused_with_what_to_write(
    checker: Checker, view: str, name: str, reason: str, is_checked: bool
) -> None:
    from headrace.driver.failures import InvalidStream
    from headrace.driver.streams.job_rows import run_setup

    small = "CREATE TEMPORARY VIEW small AS SELECT value FROM ticks WHERE value < 3"
    definitions = [RATE, QUALIFIED, small]
    if is_checked:
        [problem] = checker.check(JobRows(setup=[view], sql="TABLE ticks"), *definitions).problems
        assert (problem.code, problem.setup) == ("invalid_stream", 0)
        assert (problem.line, problem.column) == (1, view.index(name) + 1)
        message = problem.message
    else:
        with pytest.raises(InvalidStream) as refused:
            run_setup(checker.spark, [view], definitions, persists=True)
        error = refused.value
        assert (error.condition, error.sqlstate) == ("INVALID_TEMP_OBJ_REFERENCE", "42K0F")
        message = error.message
    assert f"cannot read {name}, because {reason}" in message
    assert "Write CREATE TEMPORARY VIEW" in message


@pytest.mark.parametrize(
    "setup",
    [
        ["CREATE VIEW kept AS WITH ticks AS (SELECT 1 AS value) SELECT * FROM ticks"],
        ["CREATE TABLE ticks (value INT)", "CREATE VIEW kept AS SELECT * FROM ticks"],
        ["CREATE VIEW kept AS SELECT * FROM created_by_another_job"],
    ],
)
def test_a_permanent_view_may_read_what_has_the_name_of_a_stream(
    checker: Checker, setup: list[str]
) -> None:
    assert checker.check(JobRows(setup=setup, sql="TABLE ticks"), RATE).problems == []


def test_a_check_uses_temporary_views_and_functions(checker: Checker) -> None:
    setup = [
        "CREATE TEMPORARY VIEW checked_once AS SELECT 1 AS x",
        "CREATE TEMPORARY FUNCTION add_one (x BIGINT) RETURNS BIGINT RETURN x + 1",
    ]
    sql = "SELECT add_one(value) AS value FROM ticks, checked_once"
    checked = checker.check(JobRows(setup=setup, sql=sql), RATE)

    assert (checked.problems, checked.notes) == ([], [])


@pytest.mark.parametrize(
    ("statement", "line", "column"),
    [
        ("-- A table.\nCREATE TABLE t (\n  at TIMESTAMP(3))", 3, 6),
        ("INSERT INTO t VALUES (1)", None, None),
    ],
)
def test_a_refused_statement_before_the_query_is_named_by_its_number(
    checker: Checker, statement: str, line: int | None, column: int | None
) -> None:
    rows = JobRows(setup=["SET a.b=1", statement, "SET a.c=1"], sql="SELECT value FROM ticks")
    [problem] = checker.check(rows, RATE).problems

    assert problem.setup == 1
    assert (problem.line, problem.column) == (line, column)


@pytest.mark.parametrize("begin", [0, *range(785, 801), 2000])
def test_a_description_that_is_cut_inside_a_secret_has_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    """The hash does not depend on the value either: a changed password changes no plan."""
    descriptions = set()
    for value in ("hunter2-and-more", "hunter3-and-others"):
        known = KnownSecrets({"pg": value})
        monkeypatch.setattr(model_text, "_hide_secrets", known.mask_text)
        descriptions.add(tasks._shorten("x" * begin + value + "y" * 1000))
    [description] = descriptions
    assert "hun" not in description

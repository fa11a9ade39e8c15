"""Expectations on the rows of an INSERT: counted and dropped in the one pass that writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import Crash, CtasRun, fetch_rows, journal_entry
from tests.support.journal import JournalLink

from headrace.driver.spark_version.metrics import ProgressReader
from headrace.driver.writes.staged_write import StagedWrite
from headrace.errors import (
    AtomicityRequired,
    ExpectationCountsWrong,
    ExpectationFailed,
    InvalidExpectation,
)
from headrace.model.expectation import Expectation, ExpectationCounts, OnViolation
from headrace.model.headrace_options import WRITES_ATOMICITY
from headrace.model.lifecycle import TransactionState
from headrace.model.statement import Parameter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WARN, DROP, FAIL = OnViolation
ROWS = "SELECT id AS n, nullif(id, 4) AS amount FROM range(10)"
INSERT = f"INSERT INTO checked BY NAME {ROWS}"


def expect(condition: str, on_violation: OnViolation = WARN, name: str = "e") -> Expectation:
    return Expectation(name=name, condition=condition, on_violation=on_violation)


@pytest.fixture(autouse=True)
def _table(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE checked (n BIGINT, amount BIGINT) USING parquet")


def counts_of(run: CtasRun) -> ExpectationCounts:
    counts = run.plan.expectation_counts
    assert counts is not None
    return counts


def summary(run: CtasRun) -> tuple[int, int, int | None, list[tuple[int, int]]]:
    counts = counts_of(run)
    violations = [(each.violations, each.nulls) for each in counts.expectations]
    return counts.rows_in, counts.rows_dropped, counts.rows_written, violations


def stored(spark: SparkSession) -> int:
    return int(fetch_rows(spark, "SELECT count(*) FROM checked")[0][0])


@pytest.mark.parametrize(
    ("query", "expectations", "counts"),
    [
        (ROWS, [expect("amount > 2")], (10, 0, 10, [(4, 1)])),
        (ROWS, [expect("amount > 2", DROP)], (10, 4, 6, [(4, 1)])),
        (
            ROWS,
            [expect("amount > 2", DROP, "a"), expect("n < 9", WARN, "b"), expect("n >= 0", FAIL)],
            (10, 4, 6, [(4, 1), (1, 0), (0, 0)]),
        ),
        # The optimiser knows the outcome of each of these before it runs them.
        (ROWS, [expect("false", DROP)], (10, 10, 0, [(10, 0)])),
        (ROWS, [expect("true", DROP)], (10, 0, 10, [(0, 0)])),
        (ROWS, [expect("CAST(NULL AS BOOLEAN)", DROP)], (10, 10, 0, [(10, 10)])),
        (f"{ROWS} WHERE false", [expect("n > 2", DROP)], (0, 0, 0, [(0, 0)])),
        (f"{ROWS} LIMIT 0", [expect("n > 2", FAIL)], (0, 0, 0, [(0, 0)])),
        (f"{ROWS} WHERE id > 100", [expect("n > 2", FAIL)], (0, 0, 0, [(0, 0)])),
        # Stages of a shuffle, and a plan that is adaptive.
        (
            "SELECT id % 4 AS n, count(*) AS amount FROM range(10) GROUP BY 1 ORDER BY 1",
            [expect("amount > 2", DROP)],
            (4, 2, 2, [(2, 0)]),
        ),
        # A condition is evaluated once for a row.
        (ROWS, [expect("rand() >= 0", DROP)], (10, 0, 10, [(0, 0)])),
    ],
    ids=[
        *("warn", "drop", "all", "false", "true", "null", "where-false", "limit-0", "no-rows"),
        *("shuffle", "random"),
    ],
)
def test_the_rows_of_a_write_are_counted_and_dropped(
    spark: SparkSession,
    link: JournalLink,
    query: str,
    expectations: list[Expectation],
    counts: tuple[int, int, int, list[tuple[int, int]]],
) -> None:
    text = f"INSERT INTO checked BY NAME {query}"
    run = CtasRun(spark, text, link, expectations=expectations)
    assert summary(run) == counts
    assert stored(spark) == counts[2]


def test_the_source_is_read_once(spark: SparkSession, link: JournalLink) -> None:
    spark.sql("CREATE TABLE source (n BIGINT, amount BIGINT) USING parquet")
    spark.sql(f"INSERT INTO source {ROWS}")
    tag = "reads-once"
    spark.sparkContext.addJobTag(tag)
    try:
        CtasRun(
            spark,
            "INSERT INTO checked BY NAME SELECT * FROM source",
            link,
            expectations=[expect("n > 2", DROP), expect("amount > 2", WARN, "b")],
        )
    finally:
        spark.sparkContext.removeJobTag(tag)
    progress = ProgressReader(spark.sparkContext).read_final(tag)
    assert progress is not None
    assert (progress.rows_read, progress.rows_written) == (10, 7)


def test_a_violated_expectation_with_fail_publishes_nothing(
    spark: SparkSession, link: JournalLink
) -> None:
    failing = [expect("amount > 2", FAIL, "positive"), expect("n < 9", DROP, "small")]
    with pytest.raises(ExpectationFailed) as raised:
        CtasRun(spark, INSERT, link, expectations=failing)
    assert raised.value.message == (
        "Expectations were violated: `positive` by 4 of 10 rows (1 of them NULL). Nothing was"
        " published."
    )
    assert stored(spark) == 0
    assert link.steps[-1] is TransactionState.ABORTED


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("n > ", "not valid: Syntax error at or near end of input. (line 1, column 5)"),
        ("n >\n 1) AS x, (n", "Syntax error at or near ')'. (line 2, column 3)"),
        ("missing > 1", "`missing` cannot be resolved"),
        ("n + 1", "is bigint, and not boolean"),
        ("count(1) > 0", "MISSING_GROUP_BY"),
        ("n IN (SELECT 1)", "needs other rows"),
        ("row_number() OVER (ORDER BY n) > 1", "needs other rows"),
        ("explode(array(true))", "needs other rows"),
        ("n = :x", "unbound parameter: x"),
    ],
)
def test_a_condition_that_is_not_an_expression_over_a_row_is_refused(
    spark: SparkSession, link: JournalLink, condition: str, message: str
) -> None:
    with pytest.raises(InvalidExpectation) as raised:
        CtasRun(spark, INSERT, link, expectations=[expect(condition, name="odd")])
    assert "the expectation odd " in raised.value.message
    assert message in raised.value.message
    assert stored(spark) == 0


def test_parameters_of_the_query_are_bound(spark: SparkSession, link: JournalLink) -> None:
    least = Parameter(name="least", value="7.5", type="DECIMAL(10,2)")
    run = CtasRun(
        spark,
        f"{INSERT} WHERE id > :least",
        link,
        parameters=[least],
        expectations=[expect("n < 9", DROP)],
    )
    assert summary(run) == (2, 1, 1, [(1, 0)])


def test_counts_that_do_not_agree_with_the_rows_written_publish_nothing(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with tasks of a map stage that Spark runs twice, or an observation that is lost."""
    place = "headrace.driver.writes.expectations.read_observation"
    for values in ({"rows": 20, "kept": 20, "violations_0": 0, "nulls_0": 0}, None):
        with monkeypatch.context() as patch:
            patch.setattr(place, lambda _frame, _observation, values=values: values)
            with pytest.raises(ExpectationCountsWrong, match="not proven"):
                CtasRun(spark, INSERT, JournalLink(), expectations=[expect("n > 2", DROP)])
        assert stored(spark) == 0


def test_the_next_driver_reports_the_counts_of_the_driver_that_wrote(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    expectations = [expect("amount > 2", DROP)]

    def crash(_write: StagedWrite) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(StagedWrite, "commit", crash)
        with pytest.raises(Crash):
            CtasRun(spark, INSERT, link, expectations=expectations)
    assert (link.steps[-1], stored(spark)) == (TransactionState.COMMITTING, 0)
    again = CtasRun(spark, INSERT, link, earlier=journal_entry(link), expectations=expectations)
    assert summary(again) == (10, 4, 6, [(4, 1)])
    assert stored(spark) == 6


@pytest.mark.parametrize("on_violation", [WARN, DROP])
def test_a_write_that_is_not_atomic_can_drop_rows_and_cannot_fail(
    spark: SparkSession, link: JournalLink, on_violation: OnViolation
) -> None:
    spark.conf.set(WRITES_ATOMICITY.key, "off")
    try:
        run = CtasRun(spark, INSERT, link, expectations=[expect("amount > 2", on_violation)])
        assert stored(spark) == counts_of(run).rows_written
        with pytest.raises(AtomicityRequired, match="not atomic"):
            CtasRun(spark, INSERT, link, expectations=[expect("amount > 2", FAIL)])
    finally:
        spark.conf.unset(WRITES_ATOMICITY.key)

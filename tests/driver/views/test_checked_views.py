"""Expectations of materialized views in every catalog: counted in the write of each refresh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_implementations, for_lakes
from tests.support.ctas import Crash, fetch_rows
from tests.support.view_link import ViewLink

from headrace.errors import ExpectationFailed, InvalidExpectation
from headrace.model.materialized_view import IntentAction
from headrace.model.statement import REFRESH_VIEW

if TYPE_CHECKING:
    from headrace.model.expectation import ExpectationCounts

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]
DROP, FAIL = "ON VIOLATION DROP ROW", "ON VIOLATION FAIL UPDATE"


class CheckedView:
    """A materialized view with expectations over a table of files."""

    def __init__(self, namespace: LakeNamespace) -> None:
        self.namespace = namespace
        self.spark = namespace.spark
        self.table = f"spark_catalog.default.sales_{namespace.name.rpartition('_')[2]}"
        self.view = f"{namespace.name}.v"
        self.spark.sql(f"CREATE TABLE {self.table} (id BIGINT, amount BIGINT) USING parquet")
        self.write("(1, 10), (2, 20), (3, -1), (4, NULL)")

    def write(self, rows: str) -> None:
        """Replace the rows of the table."""
        self.spark.sql(f"INSERT OVERWRITE {self.table} VALUES {rows}")

    def make_create(self, *constraints: str) -> str:
        """Return the statement that creates the view."""
        clause = self.namespace.lake.clause.split("PARTITIONED")[0]
        listed = ",\n  ".join(constraints)
        query = f"SELECT * FROM {self.table}"
        return f"CREATE MATERIALIZED VIEW {self.view} (\n  {listed}) {clause} AS {query}"

    def read(self) -> list[int]:
        """Return the ids of the rows of the view."""
        rows = fetch_rows(self.spark, f"SELECT id FROM {self.view} ORDER BY id")
        return [int(row[0]) for row in rows]


@pytest.fixture
def checked(namespace: LakeNamespace) -> Iterator[CheckedView]:
    view = CheckedView(namespace)
    yield view
    view.spark.sql(f"DROP TABLE IF EXISTS {view.table}")
    if namespace.lake.catalog == "spark_catalog":
        # Before the namespace is dropped.
        view.spark.sql(f"DROP VIEW IF EXISTS {view.view}")


def summarize(counts: ExpectationCounts | None) -> tuple[int, int, int | None, list[object]]:
    assert counts is not None
    violations: list[object] = [
        (each.name, each.violations, each.nulls) for each in counts.expectations
    ]
    return counts.rows_in, counts.rows_dropped, counts.rows_written, violations


@for_implementations()
def test_the_rows_of_every_refresh_are_counted_and_dropped(
    checked: CheckedView, link: ViewLink
) -> None:
    text = checked.make_create(
        f"CONSTRAINT positive EXPECT (amount > 0) {DROP}", "CONSTRAINT small EXPECT (amount < 20)"
    )
    created = link.create(checked.spark, text)
    first = checked.read()
    checked.write("(5, 30), (6, 1), (7, 0)")
    refreshed = link.refresh(checked.spark)

    assert summarize(created.expectation_counts) == (
        4,
        2,
        2,
        [("positive", 2, 1), ("small", 2, 1)],
    )
    assert first == [1, 2]
    assert summarize(refreshed.expectation_counts) == (
        3,
        1,
        2,
        [("positive", 1, 0), ("small", 1, 0)],
    )
    assert checked.read() == [5, 6]
    link.intend(IntentAction.DROP_VIEW)
    link.carry_out_due(checked.spark)
    assert checked.namespace.is_empty()


@for_implementations()
def test_a_refresh_that_violates_fail_update_keeps_the_rows_before(
    checked: CheckedView, link: ViewLink
) -> None:
    text = checked.make_create(
        f"CONSTRAINT positive EXPECT (amount > 0) {FAIL}", f"CONSTRAINT odd EXPECT (id <> 2) {DROP}"
    )
    checked.write("(1, 10), (2, 20)")
    link.create(checked.spark, text)
    checked.write("(3, 1), (4, 0), (5, NULL)")
    with pytest.raises(ExpectationFailed, match=r"`positive` by (2 of 3 rows|at least 1 row)"):
        link.refresh(checked.spark)
    kept = checked.read()
    checked.write("(6, 1)")
    link.refresh(checked.spark)

    assert (kept, checked.read()) == ([1], [6])


@for_lakes("parquet", "iceberg-base")
def test_a_view_whose_first_rows_violate_fail_update_is_not_created(
    checked: CheckedView, link: ViewLink
) -> None:
    text = checked.make_create(f"CONSTRAINT positive EXPECT (amount > 0) {FAIL}")
    with pytest.raises(ExpectationFailed, match="`positive`"):
        link.create(checked.spark, text)

    assert checked.namespace.is_empty()


@for_lakes("parquet")
def test_the_next_driver_reports_the_counts_of_the_lost_one(
    checked: CheckedView, link: ViewLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_arguments: object) -> None:
        raise Crash

    text = checked.make_create(f"CONSTRAINT positive EXPECT (amount > 0) {DROP}")
    link.create(checked.spark, text)
    checked.write("(7, 1), (8, 0)")
    with monkeypatch.context() as patch:
        patch.setattr("headrace.driver.ctas.view_switch.ViewSwitch.switch_to", crash)
        with pytest.raises(Crash):
            link.refresh(checked.spark)
    resumed = link.resume(checked.spark, REFRESH_VIEW)

    assert summarize(resumed.expectation_counts) == (2, 1, 1, [("positive", 1, 0)])
    assert checked.read() == [7]


REFUSED = {
    "none > 0": (3, 28, "cannot be resolved"),
    "amount >": (3, 36, "line 3, column 36"),
    "amount": (3, 28, "is bigint, and not boolean"),
    "sum(amount) > 0": (3, 28, "is not valid"),
    "row_number() OVER (ORDER BY id) > 0": (3, 28, "needs other rows"),
    "EXISTS (TABLE spark_catalog.default.none)": (3, 42, "is not valid"),
}


@for_lakes("parquet")
@pytest.mark.parametrize("condition", REFUSED)
def test_a_condition_that_the_rows_do_not_allow_is_refused_at_its_position(
    checked: CheckedView, link: ViewLink, condition: str
) -> None:
    line, column, message = REFUSED[condition]
    text = checked.make_create(
        "CONSTRAINT id EXPECT (id > 0)", f"CONSTRAINT other EXPECT ({condition})"
    )
    with pytest.raises(InvalidExpectation) as caught:
        link.create(checked.spark, text)
    position = caught.value.position

    assert message in caught.value.message
    assert "the expectation other" in caught.value.message
    assert position is not None
    assert (position.line, position.column) == (line, column)
    assert (link.generation, link.steps) == (0, [])


@for_lakes("parquet")
def test_a_refresh_fails_if_the_column_of_a_condition_is_gone(
    checked: CheckedView, link: ViewLink
) -> None:
    link.create(checked.spark, checked.make_create(f"CONSTRAINT a EXPECT (amount > 0) {DROP}"))
    checked.spark.sql(f"DROP TABLE {checked.table}")
    checked.spark.sql(f"CREATE TABLE {checked.table} USING parquet AS SELECT 1L AS id")
    with pytest.raises(InvalidExpectation, match="amount"):
        link.refresh(checked.spark)

    assert checked.read() == [1, 2]

"""Expectations of materialized views in a node: checked, stored for each refresh, and shown."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.runs.test_expectations import make_counts
from tests.support.in_process_node import InProcessNode
from tests.support.views import ViewWriter, begin_generation, new_view
from tests.support.waiting import wait_until

from headrace.model.expectation import Violations
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

CONSTRAINTS = """(CONSTRAINT positive EXPECT (a > 0) ON VIOLATION DROP ROW,
  CONSTRAINT named EXPECT (b IS NOT NULL))"""
FAILED = Failure(code="expectation_failed", message="`named` by 2 of 5 rows.")
UNKNOWN = {"expectation positive": "drop: unknown", "expectation named": "warn: unknown"}


def make_failed_counts() -> Any:
    violations = [
        Violations(name="positive", violations=0, nulls=0),
        Violations(name="named", violations=2, nulls=2),
    ]
    return make_counts(rows_in=5, rows_dropped=0, rows_written=None, expectations=violations)


def describe_checks(view: ViewWriter) -> dict[str, str | None]:
    """Return what DESCRIBE shows of the expectations."""
    shown = view.describe()
    names = ("rows_dropped", "checked_statement")
    return {
        name: value
        for name, value in shown.items()
        if name.startswith("expectation ") or name in names
    }


@pytest.fixture
def view(node: InProcessNode) -> ViewWriter:
    view = ViewWriter(node, constraints=CONSTRAINTS)
    view.statement = view.submit_create()
    view.write(view.driver, view.statement, make_counts())
    return view


def test_the_counts_of_the_last_refresh_are_shown(node: InProcessNode, view: ViewWriter) -> None:
    created = describe_checks(view)
    statement, driver = view.submit_refresh()
    while_it_runs = describe_checks(view)
    none = [each.model_copy(update={"violations": 0, "nulls": 0}) for each in _violations()]
    view.write(driver, statement, make_counts(rows_dropped=0, rows_written=10, expectations=none))
    refreshed = describe_checks(view)
    view.refresh(make_counts(rows_in=0, rows_dropped=0, rows_written=0, expectations=none))

    assert created == while_it_runs
    assert created == {
        "expectation positive": "drop: violated by 3 of 10 rows, 1 of them NULL",
        "expectation named": "warn: passed",
        "rows_dropped": "3",
        "checked_statement": view.statement,
    }
    assert refreshed == {
        "expectation positive": "drop: passed",
        "expectation named": "warn: passed",
        "rows_dropped": "0",
        "checked_statement": statement,
    }
    assert describe_checks(view)["expectation named"] == "warn: no rows"
    shown = str(view.describe()["statement"])
    assert "CONSTRAINT positive EXPECT (a > 0) ON VIOLATION DROP ROW" in shown


def test_a_refresh_that_violates_fail_update_keeps_the_generation_and_shows_its_counts(
    view: ViewWriter,
) -> None:
    generation = view.describe()["generation"]
    statement, driver = view.submit_refresh()
    begin_generation(driver, statement)
    driver.report_end(
        statement,
        StatementState.FAILED,
        failure=FAILED,
        expectation_counts=make_failed_counts(),
    )
    shown = describe_checks(view)

    assert view.describe()["generation"] == generation
    assert shown["expectation named"] == "warn: violated by 2 of 5 rows, 2 of them NULL"
    assert shown["checked_statement"] == statement


def test_a_refresh_that_fails_before_it_counts_keeps_the_last_counts(view: ViewWriter) -> None:
    before = describe_checks(view)
    statement, driver = view.submit_refresh()
    begin_generation(driver, statement)
    driver.report_end(statement, StatementState.FAILED, failure=FAILED)

    assert describe_checks(view) == before


def test_counts_that_a_lost_driver_has_journalled_are_stored(node: InProcessNode) -> None:
    view = ViewWriter(node, constraints=CONSTRAINTS)
    view.statement = view.submit_create()
    generation = begin_generation(view.driver, view.statement, new_view(view.name))
    view.prepare(view.driver, view.statement, generation.number, counts=make_counts())

    assert describe_checks(view)["rows_dropped"] == "3"


def _violations() -> list[Violations]:
    violations: list[Violations] = make_counts().expectations
    return violations


@pytest.mark.parametrize(
    "reported",
    [
        None,
        make_counts(expectations=_violations()[:1]),
        make_counts(expectations=_violations()[::-1]),
    ],
    ids=["none", "fewer", "others"],
)
def test_counts_that_contradict_the_view_are_stored_as_unknown(
    view: ViewWriter, reported: Any
) -> None:
    view.refresh(reported)
    shown = describe_checks(view)

    assert {name: shown[name] for name in UNKNOWN} == UNKNOWN
    assert shown["rows_dropped"] is None


def test_counts_of_rows_that_were_not_committed_are_ignored(view: ViewWriter) -> None:
    before = describe_checks(view)
    statement, driver = view.submit_refresh()
    begin_generation(driver, statement)
    driver.succeed(statement, expectation_counts=make_counts())

    assert view.node.statement(statement)["error"]["code"] == "invalid_materialized_view"
    assert describe_checks(view) == before


def test_counts_of_a_view_without_expectations_are_ignored(node: InProcessNode) -> None:
    view = ViewWriter(node).make()
    view.refresh(make_counts())

    assert describe_checks(view) == {}


def test_checked_rows_are_a_metric(view: ViewWriter) -> None:
    metrics = view.node.http.get("/metrics").text
    name = f'job="spark_catalog.default.{view.name}"'
    lines = [line for line in metrics.splitlines() if name in line and "_created" not in line]
    values = {
        (label, line.rpartition(" ")[2])
        for line in lines
        for label in ("passed", "violated", "null")
        if 'expectation="positive"' in line and f'outcome="{label}"' in line
    }

    assert values == {("passed", "7.0"), ("violated", "2.0"), ("null", "1.0")}


@pytest.fixture
def own_view(node: InProcessNode) -> ViewWriter:
    """Create a view that refreshes itself."""
    return ViewWriter(node, properties="WITH (auto_refresh = true)", constraints=CONSTRAINTS).make()


def test_the_last_batch_of_a_view_that_refreshes_itself_is_shown(own_view: ViewWriter) -> None:
    created = describe_checks(own_view)
    own_view.report_batch(0, make_counts())
    first = describe_checks(own_view)
    own_view.report_batch(1)

    assert created == {**UNKNOWN, "rows_dropped": None, "checked_statement": None}
    assert first == {
        "expectation positive": "drop: violated by 3 of 10 rows, 1 of them NULL",
        "expectation named": "warn: passed",
        "rows_dropped": "3",
        "checked_statement": None,
    }
    assert describe_checks(own_view) == created


def test_the_batches_of_a_view_that_refreshes_itself_are_a_metric(own_view: ViewWriter) -> None:
    own_view.report_batch(0, make_counts())
    own_view.report_batch(1, make_counts())
    label = f'expectation="positive",job="spark_catalog.default.{own_view.name}",outcome="passed"'

    def read_passed() -> list[str]:
        lines = own_view.node.http.get("/metrics").text.splitlines()
        return [line.split()[-1] for line in lines if label in line and "_created" not in line]

    # The node counts the rows just after the commit of the batches.
    wait_until(lambda: read_passed() == ["14.0"], what="the rows of both batches are counted")


REFUSED = {
    "CREATE MATERIALIZED VIEW v (CONSTRAINT a EXPECT (b), CONSTRAINT a EXPECT (c)) AS SELECT 1": (
        "invalid_statement",
        "Two expectations have the name a.",
    ),
    "CREATE VIEW v (CONSTRAINT a EXPECT (b > 0)) AS SELECT 1 AS b": (
        "invalid_statement",
        "Only materialized views have expectations",
    ),
}


@pytest.mark.parametrize("text", REFUSED, ids=["duplicate", "view"])
def test_expectations_that_are_not_possible_are_refused_when_they_are_submitted(
    node: InProcessNode, text: str
) -> None:
    code, message = REFUSED[text]
    answer = node.http.post("/api/v1/statements", json={"statement": text})

    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert message in answer.json()["detail"]

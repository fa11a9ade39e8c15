"""Progress of a statement, from the report of its driver to the API."""

from __future__ import annotations

import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result

from headrace.model.lifecycle import StatementState
from headrace.model.statement import Progress

HALF = Progress(
    jobs=1,
    stages_done=1,
    stages_total=2,
    tasks_done=5,
    tasks_total=10,
    tasks_active=2,
    tasks_failed=0,
    rows_read=2**40,
    bytes_read=2**50,
    rows_written=0,
    bytes_written=0,
)


def test_reported_progress_is_part_of_the_statement(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    assert node.statement(statement_id)["progress"] is None
    event_count = len(node.events(statement_id))
    assert driver.report_progress({statement_id: HALF}).applied
    assert node.statement(statement_id)["progress"] == HALF.model_dump()
    assert len(node.events(statement_id)) == event_count, "progress is not a change of state"


def test_progress_is_accepted_only_from_the_driver_of_a_statement_in_flight(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    assert not driver.report_progress({statement_id: HALF}).applied
    driver.claim()
    _other, stranger = node.start_session()
    assert not stranger.report_progress({statement_id: HALF}).applied
    driver.succeed(statement_id)
    assert not driver.report_progress({statement_id: HALF}).applied
    assert node.statement(statement_id)["progress"] is None


@pytest.mark.finding("B15")
def test_the_report_of_the_end_brings_the_final_progress_and_the_rows_written(
    node: InProcessNode,
) -> None:
    final = HALF.model_copy(update={"tasks_done": 10, "tasks_active": 0, "rows_written": 70})
    session_id, driver = node.start_session()
    statement_id = node.submit("INSERT INTO t SELECT 1", session=session_id)["id"]
    driver.claim()
    driver.report_progress({statement_id: HALF})
    driver.succeed(statement_id, inline_result([], []), progress=final, rows_written=70)
    statement = node.statement(statement_id)
    assert statement["progress"] == final.model_dump()
    assert statement["result"]["row_count"] == 70
    assert node.result(statement_id)["rows"] == []


@pytest.mark.finding("B15")
def test_an_end_without_progress_keeps_the_last_progress(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_progress({statement_id: HALF})
    driver.report_end(statement_id, StatementState.FAILED)
    assert node.statement(statement_id)["progress"] == HALF.model_dump()


def test_a_query_writes_no_rows_whatever_its_driver_reports(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    for text, expected in (("SELECT 1", None), ("INSERT INTO t SELECT 1", 7)):
        statement_id = node.submit(text, session=session_id)["id"]
        driver.claim()
        driver.succeed(statement_id, inline_result([], []), rows_written=7)
        assert node.statement(statement_id)["result"]["rows_written"] == expected

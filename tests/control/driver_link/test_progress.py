"""Progress of a statement, from the report of its driver to the API."""

from __future__ import annotations

from tests.support.in_process_node import InProcessNode

from headrace.model.progress import Progress

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

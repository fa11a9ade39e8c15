"""How far a statement is, from its driver to whoever asks."""

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


def test_progress_is_kept_with_the_statement(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    assert node.statement(statement_id)["progress"] is None
    before = len(
        node.http.get("/api/v1/events", params={"entity_id": statement_id}).json()["items"]
    )
    assert driver.report_progress({statement_id: HALF}).applied
    assert node.statement(statement_id)["progress"] == HALF.model_dump()
    # It is no change of state.
    told = node.http.get("/api/v1/events", params={"entity_id": statement_id}).json()["items"]
    assert len(told) == before


def test_progress_comes_from_who_has_the_statement_and_while_it_lives(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    assert not driver.report_progress({statement_id: HALF}).applied
    driver.claim()
    _other, stranger = node.driven_session()
    assert not stranger.report_progress({statement_id: HALF}).applied
    driver.succeed(statement_id)
    assert not driver.report_progress({statement_id: HALF}).applied
    assert node.statement(statement_id)["progress"] is None

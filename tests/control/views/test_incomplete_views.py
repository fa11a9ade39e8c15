"""Materialized views that no statement completes."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.views import ViewWriter, begin_generation, carry_out, new_view
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import QueryReport
from headrace.store import history
from headrace.store.tables import materialized_views


def test_a_driver_cannot_make_another_table_the_generation_of_a_view(node: InProcessNode) -> None:
    writer = ViewWriter(node)
    writer.statement = writer.submit_create()
    writer.write(writer.driver, writer.statement, table="secret")
    error = node.statement(writer.statement)["error"]

    assert error["code"] == "invalid_materialized_view"
    assert "has not committed the rows" in error["message"]
    assert writer.is_missing()


@pytest.mark.parametrize("end", ["close", "fail"])
def test_a_view_ends_with_the_session_in_which_its_statement_waits_again(
    start_node: StartNode, end: str
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    writer = ViewWriter(node)
    statement = writer.submit_create()
    begin_generation(writer.driver, statement, new_view(writer.name))
    node.launcher.report_exit(writer.session, "killed by SIGKILL")
    wait_until(lambda: node.statement(statement)["state"] == "waiting", what="a retry")
    if end == "close":
        node.http.delete(f"/api/v1/sessions/{writer.session}")
    else:
        node.launcher.connect_driver(writer.session, launch=2).report_spark_failure()
    wait_until(lambda: node.statement(statement)["state"] in {"cancelled", "failed"}, what="an end")
    writer.session, writer.driver = node.start_session()

    assert writer.is_missing()
    assert (
        begin_generation(writer.driver, writer.submit_create(), new_view(writer.name)).failure
        is None
    )


def test_a_success_without_a_commit_fails_and_ends_the_new_view(node: InProcessNode) -> None:
    writer = ViewWriter(node)
    statement = writer.submit_create()
    begin_generation(writer.driver, statement, new_view(writer.name))
    writer.driver.succeed(statement)

    assert node.statement(statement)["error"]["code"] == "invalid_materialized_view"
    assert writer.is_missing()


def test_a_refresh_without_a_commit_fails(node: InProcessNode) -> None:
    view = ViewWriter(node).make()
    statement, driver = view.submit_refresh()
    begin_generation(driver, statement)
    driver.succeed(statement)

    assert node.statement(statement)["error"]["code"] == "invalid_materialized_view"
    assert view.describe()["state"] == "active"


def test_a_view_that_no_statement_completes_can_only_be_dropped(node: InProcessNode) -> None:
    view = ViewWriter(node).make()
    with node.database.write("test") as tx:
        incomplete = {"current_generation": None, "fresh_as_of": None}
        tx.execute(
            update(materialized_views)
            .where(materialized_views.c.writer_id == view.statement)
            .values(incomplete)
        )
    body = {"statement": f"REFRESH MATERIALIZED VIEW {view.name}"}
    refused = node.http.post("/api/v1/statements", json=body)
    dropped = node.run(f"DROP MATERIALIZED VIEW {view.name}")
    intents = [intent.id for intent in carry_out(view.driver)]
    carry_out(view.driver, done=intents)

    assert (refused.status_code, "never completed" in refused.json()["detail"]) == (409, True)
    assert (dropped["state"], len(intents)) == ("success", 1)
    assert view.is_missing()


def test_a_committing_view_is_completed_also_after_the_last_attempt(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"}, statements={"max_attempts": 1})
    writer = ViewWriter(node)
    statement = writer.submit_create()
    generation = begin_generation(writer.driver, statement, new_view(writer.name))
    transaction = writer.prepare(writer.driver, statement, generation.number)
    node.launcher.report_exit(writer.session, "killed by SIGKILL")
    with node.launcher.connect_driver(writer.session, launch=2) as second:
        second.hello()
        assert second.claim().statement_id == statement
        assert second.succeed(statement, committed=transaction).applied

    assert writer.describe()["state"] == "active"


def delete_streams(node: InProcessNode) -> None:
    """Delete all streams that have ended, also those of other tests."""
    with node.database.write("test") as tx:
        while any(history.delete_streams(tx, -1, 100).values()):
            pass


def test_the_last_query_of_a_view_stays_in_the_store(node: InProcessNode) -> None:
    view = ViewWriter(node, properties="WITH (auto_refresh = true)").make()
    node.act_on_stream(view.name, "stop")
    [query] = view.driver.read_streams().queries
    report = QueryReport(id=query.id, generation=2, state=StreamState.STOPPED)
    view.driver.renew(queries=[report])
    delete_streams(node)
    kept = node.stream(view.name)["state"]
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    assert view.carry_out_all() == 1
    delete_streams(node)
    assert kept == "stopped"
    assert node.http.get(f"/api/v1/streams/{view.name}").status_code == 404

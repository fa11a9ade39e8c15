"""Materialized views in the store: generations, ends, and intents for the catalog."""

from __future__ import annotations

import re

import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.views import IDENTITY, ViewWriter, begin_generation, carry_out, new_view
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState, StreamState, TransactionState
from headrace.model.materialized_view import IntentAction, RowStorage
from headrace.model.stream_query import QueryReport
from headrace.store.catalog_intents import MAX_ATTEMPTS

FAILURE = Failure(code="execution_error", message="no")
AUTO = "WITH (auto_refresh = true)"


INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


@pytest.fixture(scope="module")
def view(node: InProcessNode) -> ViewWriter:
    return ViewWriter(node).make()


def test_a_view_exists_from_the_commit_of_its_first_generation(node: InProcessNode) -> None:
    writer = ViewWriter(node)
    writer.statement = writer.submit_create()
    generation = begin_generation(writer.driver, writer.statement, new_view(writer.name))
    creating = writer.describe()
    transaction = writer.prepare(writer.driver, writer.statement, generation.number)
    writer.driver.succeed(writer.statement, committed=transaction)
    active = writer.describe()

    assert (creating["state"], creating["fresh_as_of"]) == ("creating", None)
    assert (active["state"], active["table"]) == (
        "active",
        f"spark_catalog.default.__mv_{writer.name}_1",
    )
    for field in ("fresh_as_of", "created_at"):
        assert re.fullmatch(INSTANT, str(active[field])), field
    assert [event["to"] for event in node.events(str(active["id"]))] == ["creating", "active"]


def test_a_refresh_replaces_the_generation_and_the_old_one_is_dropped_after_the_grace_period(
    start_node: StartNode,
) -> None:
    node = start_node(materialized_views={"grace": "100ms"})
    view = ViewWriter(node).make()
    before = view.describe()
    number = view.refresh()
    after = view.describe()

    assert (before["generation"], number, after["generation"]) == ("1", 2, "2")
    assert str(after["fresh_as_of"]) > str(before["fresh_as_of"])
    wait_until(lambda: view.driver.renew().has_intents, what="the old generation can be dropped")
    [intent] = carry_out(view.driver)
    assert (intent.action, intent.generation) == (IntentAction.DROP_GENERATION, 1)
    assert intent.view == after["id"]
    assert carry_out(view.driver, done=[intent.id]) == []
    assert not view.driver.renew().has_intents


def test_a_view_that_a_statement_writes_cannot_be_refreshed_or_dropped(
    node: InProcessNode, view: ViewWriter
) -> None:
    statement, driver = view.submit_refresh()
    body = {"statement": f"REFRESH MATERIALIZED VIEW {view.name}"}
    refused = node.http.post("/api/v1/statements", json=body)
    dropped = node.run(f"DROP MATERIALIZED VIEW {view.name}")
    shown = view.describe()["state"]
    driver.report_end(statement, StatementState.FAILED, failure=FAILURE)

    assert (refused.status_code, refused.json()["code"]) == (409, "materialized_view_busy")
    assert statement in refused.json()["detail"]
    assert dropped["error"]["code"] == "materialized_view_busy"
    assert (shown, view.describe()["state"]) == ("refreshing", "active")
    assert view.describe()["generation"] == "1"


@pytest.mark.parametrize(
    "statement",
    ["REFRESH MATERIALIZED VIEW", "DROP MATERIALIZED VIEW", "DESCRIBE MATERIALIZED VIEW"],
)
@pytest.mark.parametrize("name", ["none", "other.{}", "other.default.{}"])
def test_a_view_that_does_not_exist_is_not_found(
    node: InProcessNode, view: ViewWriter, statement: str, name: str
) -> None:
    body = {"statement": f"{statement} {name.format(view.name)}"}
    answer = node.http.post("/api/v1/statements", json=body).json()

    assert answer.get("code", (answer.get("error") or {}).get("code")) == (
        "materialized_view_not_found"
    )


def test_a_name_with_catalog_and_namespace_in_any_case_finds_a_view(
    node: InProcessNode, view: ViewWriter
) -> None:
    rows = node.rows(f"DESCRIBE MATERIALIZED VIEW SPARK_CATALOG.Default.{view.name.upper()}")

    assert rows[0] == ["view", f"spark_catalog.default.{view.name}"]


def test_show_lists_the_views_of_the_owner(node: InProcessNode, view: ViewWriter) -> None:
    rows = node.rows("SHOW MATERIALIZED VIEWS")

    assert [row[1] for row in rows if row[0] == f"spark_catalog.default.{view.name}"] == ["active"]


def test_a_dropped_view_is_removed_from_the_catalog_by_a_driver(node: InProcessNode) -> None:
    view = ViewWriter(node).make()
    view_id = view.describe()["id"]
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    intents = carry_out(view.driver)

    assert [(each.action, each.view) for each in intents] == [(IntentAction.DROP_VIEW, view_id)]
    assert intents[0].path == ["spark_catalog", "default", view.name]
    assert carry_out(view.driver, done=[intents[0].id]) == []


def test_an_intent_that_fails_is_tried_again_and_fails_for_good_at_last(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.catalog_intents._RETRY_SECONDS", 0.0)
    node = start_node()
    view = ViewWriter(node).make()
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    attempts = 0
    failed: list[str] = []
    while intents := carry_out(view.driver, failed=failed):
        failed = [intent.id for intent in intents]
        attempts += 1
    events = node.events(failed[0] if failed else "")

    assert attempts == MAX_ATTEMPTS
    assert events[-1]["to"] == "failed"
    assert events[-1]["detail"] == {"error": "no access"}


def test_a_late_failure_of_an_earlier_claim_does_not_end_the_present_claim(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.catalog_intents._RETRY_SECONDS", 0.0)
    node = start_node()
    view = ViewWriter(node).make()
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    [first] = carry_out(view.driver)
    [second] = carry_out(view.driver, failed=[first.id], attempt=first.attempt)
    assert (first.attempt, second.attempt) == (1, 2)
    before = node.events(first.id)

    assert carry_out(view.driver, failed=[first.id], attempt=first.attempt) == []
    assert node.events(first.id) == before


def test_a_driver_cannot_end_an_intent_that_another_driver_has_claimed(
    node: InProcessNode,
) -> None:
    view = ViewWriter(node).make()
    _session, other = node.start_session()
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    [intent] = carry_out(view.driver)

    assert carry_out(other, done=[intent.id], failed=[intent.id]) == []
    assert [event["to"] for event in node.events(intent.id)] == ["pending", "claimed"]
    carry_out(view.driver, done=[intent.id])
    assert node.events(intent.id)[-1]["to"] == "done"


@pytest.mark.parametrize("outcome", [StatementState.FAILED, StatementState.CANCELLED])
def test_a_view_ends_with_the_statement_that_does_not_complete_it(
    node: InProcessNode, outcome: StatementState
) -> None:
    writer = ViewWriter(node)
    statement = writer.submit_create()
    first = begin_generation(writer.driver, statement, new_view(writer.name)).view
    if outcome is StatementState.CANCELLED:
        node.http.post(f"/api/v1/statements/{statement}/cancel")
    writer.driver.report_end(statement, outcome, failure=FAILURE)
    again = writer.submit_create()
    second = begin_generation(writer.driver, again, new_view(writer.name))

    assert first is not None
    assert [event["to"] for event in node.events(first)] == ["creating", "failed"]
    assert second.view not in {None, first}
    # The number is not used again: a table of the first attempt could still exist.
    assert second.number == 2


def test_two_views_cannot_have_one_name_in_a_catalog(node: InProcessNode, view: ViewWriter) -> None:
    statement = node.submit(view.create, session=view.session)["id"]
    assert view.driver.claim().statement_id == statement
    answer = begin_generation(view.driver, statement, new_view(view.name))
    view.driver.report_end(statement, StatementState.FAILED, failure=answer.failure)

    assert answer.failure is not None
    assert answer.failure.code == "materialized_view_exists"


def test_a_cancelled_statement_begins_no_generation(node: InProcessNode) -> None:
    writer = ViewWriter(node)
    statement = writer.submit_create()
    node.http.post(f"/api/v1/statements/{statement}/cancel")
    answer = begin_generation(writer.driver, statement, new_view(writer.name))

    assert (answer.view, answer.failure, answer.busy) == (None, None, False)


def test_an_attempt_that_asks_again_for_its_generation_gets_the_same_one(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    writer = ViewWriter(node)
    statement = writer.submit_create()
    first = begin_generation(writer.driver, statement, new_view(writer.name))
    assert begin_generation(writer.driver, statement, new_view(writer.name)) == first
    node.launcher.report_exit(writer.session, "killed by SIGKILL")
    second = node.launcher.connect_driver(writer.session, launch=2)
    assert second.hello().applied
    assert second.claim().attempt == 2
    numbers = [begin_generation(second, statement, new_view(writer.name)).number for _ in range(3)]

    assert numbers == [first.number + 1] * 3


def test_the_generation_of_a_lost_driver_is_completed_by_the_next_attempt(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    writer = ViewWriter(node)
    writer.statement = writer.submit_create()
    begin_generation(writer.driver, writer.statement, new_view(writer.name))
    transaction = writer.prepare(writer.driver, writer.statement, 1)
    node.launcher.report_exit(writer.session, "killed by SIGKILL")
    second = node.launcher.connect_driver(writer.session, launch=2)
    assert second.hello().applied
    adopted = second.claim().transaction
    assert adopted is not None
    assert adopted.id == transaction
    assert second.succeed(writer.statement, committed=transaction).applied

    assert (writer.describe()["state"], writer.describe()["generation"]) == ("active", "1")


def test_a_refresh_waits_for_the_table_that_a_lost_driver_may_have_published(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"}, statements={"max_attempts": 1})
    view = ViewWriter(node).make()
    lost, driver = view.submit_refresh()
    generation = begin_generation(driver, lost)
    transaction = view.prepare(driver, lost, generation.number)
    node.http.delete(f"/api/v1/sessions/{node.statement(lost)['session_id']}")
    driver.goodbye()
    wait_until(lambda: node.statement(lost)["state"] == "failed", what="the refresh has failed")
    statement, next_driver = view.submit_refresh()

    assert begin_generation(next_driver, statement).busy
    wait_until(
        lambda: view.driver.recover([IDENTITY]), seconds=30, what="the transaction is orphaned"
    )
    view.driver.transact(transaction, lost, TransactionState.COMMITTED)
    assert view.describe()["generation"] == "2"
    assert begin_generation(next_driver, statement).number == 3


def test_a_driver_cannot_choose_the_name_of_a_view(node: InProcessNode) -> None:
    writer = ViewWriter(node)
    statement = writer.submit_create()
    answer = begin_generation(writer.driver, statement, new_view("other"))

    assert answer.failure is not None
    assert answer.failure.code == "invalid_materialized_view"
    assert "as spark_catalog.default.other" in answer.failure.message


def test_a_statement_of_spark_begins_no_generation(node: InProcessNode) -> None:
    session, driver = node.start_session()
    statement = node.submit("SELECT 1", session=session)["id"]
    driver.claim()
    answer = begin_generation(driver, statement, new_view("x"))

    assert answer.failure is not None
    assert answer.view is None


def test_a_replaced_table_leaves_no_generation_to_drop(node: InProcessNode) -> None:
    writer = ViewWriter(node)
    writer.statement = writer.submit_create()
    new = new_view(writer.name, storage=RowStorage.REPLACEMENT)
    generation = begin_generation(writer.driver, writer.statement, new)
    transaction = writer.prepare(
        writer.driver, writer.statement, generation.number, table=writer.name
    )
    writer.driver.succeed(writer.statement, committed=transaction)
    statement, driver = writer.submit_refresh()
    number = begin_generation(driver, statement).number
    second = writer.prepare(driver, statement, number, table=writer.name)
    driver.succeed(statement, committed=second)

    assert (writer.describe()["generation"], writer.describe()["table"]) == ("2", None)
    assert not any(intent.view == generation.view for intent in carry_out(driver))


def test_the_query_of_a_view_starts_after_the_success_and_stops_with_the_view(
    node: InProcessNode,
) -> None:
    writer = ViewWriter(node, properties=AUTO)
    writer.statement = writer.submit_create()
    new = new_view(writer.name)
    generation = begin_generation(writer.driver, writer.statement, new)
    [held] = writer.driver.read_streams().queries
    transaction = writer.prepare(writer.driver, writer.statement, generation.number)
    writer.driver.succeed(writer.statement, committed=transaction)
    [desired] = writer.driver.read_streams().queries
    report = QueryReport(
        id=desired.id, generation=1, state=StreamState.RUNNING, run_id="r", last_batch=0
    )
    writer.driver.renew(queries=[report])
    described = writer.describe()
    refused = node.http.post(
        "/api/v1/statements", json={"statement": f"REFRESH MATERIALIZED VIEW {writer.name}"}
    )
    node.run(f"DROP MATERIALIZED VIEW {writer.name}")
    early = carry_out(writer.driver)
    stopped = report.model_copy(update={"generation": 2, "state": StreamState.STOPPED})
    writer.driver.renew(queries=[stopped])
    intents = carry_out(writer.driver)
    restarted = node.http.post(f"/api/v1/streams/{desired.id}/restart")

    assert (held.held, desired.held) == (True, False)
    assert desired.spec.view is not None
    assert desired.spec.view.id == generation.view
    assert str(desired.spec.checkpoint).endswith(f"/{writer.name}/{generation.view}")
    assert (described["refresh"], described["query_state"]) == ("automatic", "running")
    assert (refused.status_code, "refreshes itself" in refused.json()["detail"]) == (400, True)
    # The query would write to the view again.
    assert early == []
    assert [intent.view for intent in intents] == [generation.view]
    assert (restarted.status_code, restarted.json()["code"]) == (409, "stream_state_conflict")


def test_the_query_of_a_view_ends_with_the_statement_that_fails(node: InProcessNode) -> None:
    writer = ViewWriter(node, properties=AUTO)
    statement = writer.submit_create()
    begin_generation(writer.driver, statement, new_view(writer.name))
    writer.driver.report_end(statement, StatementState.FAILED, failure=FAILURE)

    assert node.stream(writer.name)["state"] == "failed"


INVALID = {
    "WITH (refresh_interval = '5m')": "refresh_interval needs auto_refresh = true",
    "WITH (checkpoint_location = '/x')": "checkpoint_location needs auto_refresh = true",
    "WITH (auto_refresh = true, refresh_interval = '5')": "Add a unit",
    "WITH (auto_refresh = true, refresh_interval = '-5 SECONDS')": "is not a duration",
    "WITH (auto_refresh = true, refresh_interval = '3 FORTNIGHTS')": "is not a duration",
    "WITH (auto_refresh = true, refresh_interval = '10 ms')": "The shortest interval is 1 second",
    "WITH (auto_refresh = 'yes')": "auto_refresh must be true or false",
    "WITH (auto = true)": "Allowed: auto_refresh, refresh_interval, checkpoint_location",
}


@pytest.mark.parametrize("properties", INVALID)
def test_an_invalid_property_is_refused(node: InProcessNode, properties: str) -> None:
    text = f"CREATE MATERIALIZED VIEW v {properties} AS SELECT 1"
    with node.expect_no_changes():
        response = node.http.post("/api/v1/statements", json={"statement": text})

    assert response.status_code == 400, response.json()
    assert INVALID[properties] in response.json()["detail"]


@pytest.mark.parametrize(
    ("interval", "seconds"), [("5 MINUTES", 300), ("1 day", 86_400), ("90s", 90), ("1.5 min", 90)]
)
def test_an_interval_has_a_unit_of_either_spelling(
    node: InProcessNode, interval: str, seconds: float
) -> None:
    properties = f"WITH (auto_refresh = true, refresh_interval = '{interval}')"
    writer = ViewWriter(node, properties=properties)
    statement = writer.submit_create()
    begin_generation(writer.driver, statement, new_view(writer.name))
    [query] = writer.driver.read_streams().queries
    writer.driver.report_end(statement, StatementState.FAILED, failure=FAILURE)

    assert query.spec.view is not None
    assert query.spec.view.interval_seconds == seconds


def test_a_live_query_with_the_name_of_the_view_is_named(node: InProcessNode) -> None:
    session, _driver = node.start_session(kind="streaming")
    node.submit("SAVE STREAM t TO noop IDENTIFIED BY taken", session=session)
    text = "CREATE MATERIALIZED VIEW taken WITH (auto_refresh = true) AS SELECT 1"
    response = node.http.post("/api/v1/statements", json={"statement": text, "session": session})

    assert (response.status_code, response.json()["code"]) == (409, "stream_name_exists")
    assert node.stream("taken")["id"] in response.json()["detail"]


def test_a_checkpoint_that_another_query_has_used_is_refused(node: InProcessNode) -> None:
    session, driver = node.start_session(kind="streaming")
    options = "OPTIONS ('checkpointLocation' = '/data/used')"
    statement = node.submit(f"SAVE STREAM t TO noop IDENTIFIED BY used {options}", session=session)
    query = driver.claim().query
    assert query is not None
    driver.succeed(statement["id"])
    for generation, state in ((1, StreamState.RUNNING), (2, StreamState.STOPPED)):
        if state is StreamState.STOPPED:
            node.act_on_stream("used", "stop")
        report = QueryReport(id=query.id, generation=generation, state=state, last_batch=3)
        driver.renew(queries=[report])
    properties = "WITH (auto_refresh = true, checkpoint_location = '/data/used')"
    text = f"CREATE MATERIALIZED VIEW w {properties} AS SELECT 1"
    response = node.http.post("/api/v1/statements", json={"statement": text, "session": session})

    assert (response.status_code, response.json()["code"]) == (409, "checkpoint_of_other_sink")


def test_a_very_long_view_is_refused(node: InProcessNode) -> None:
    text = f"CREATE MATERIALIZED VIEW v AS SELECT '{'x' * 65_536}'"
    response = node.http.post("/api/v1/statements", json={"statement": text})

    assert response.status_code == 400
    assert "at most 65,536 characters" in response.json()["detail"]

"""`/metrics`: counts of live objects, store writes and backend calls."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update
from tests.support.batch_jobs import insert_batch_job
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.store import INLINE, new_statement, set_present_since
from tests.support.waiting import wait_until

from headrace.control import node_lease
from headrace.model.failure import Failure
from headrace.model.lifecycle import RunState, StatementState
from headrace.model.run import FiringRules, RunTimes, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store import nodes
from headrace.store.clock import clock, read_clock
from headrace.store.jobs import runs
from headrace.store.statements import statement_transitions
from headrace.store.tables import runs as run_table
from headrace.store.tables import sessions, statements


def read_samples(node: InProcessNode) -> dict[tuple[str, str], float]:
    """Return every sample, by its name and its last label."""
    response = node.http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, next(reversed(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def count_backend_calls(node: InProcessNode) -> dict[str, float]:
    name = "headrace_backend_calls_total"
    return {op: value for (sample, op), value in read_samples(node).items() if sample == name}


def test_reading_a_statement_never_calls_the_backend(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "20ms"})
    statement = node.submit("SELECT 1", kind="batch")
    driver = node.launcher.connect_driver(statement["session_id"])
    driver.hello()
    driver.claim()
    driver.report_start(statement["id"])
    before = count_backend_calls(node)
    assert before == {"start": 1, "find": 0, "poll": 0, "kill": 0}
    for _ in range(1000):
        assert node.statement(statement["id"])["state"] == "running"
    assert count_backend_calls(node) == before


def test_an_expired_lease_makes_the_node_poll_and_kill_the_driver(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "20ms"})
    node.start_session()
    with node.database.write("test") as tx:
        set_present_since(tx, node.node.id, clock(-3600))
        tx.execute(update(sessions).values(lease_until=clock(-1)))
    wait_until(lambda: count_backend_calls(node) == {"start": 1, "find": 0, "poll": 1, "kill": 1})


def test_live_sessions_and_statements_are_counted_by_state(start_node: StartNode) -> None:
    node = start_node()
    session_id, driver = node.start_session()
    for _ in range(3):
        node.submit(session=session_id)
    driver.succeed(driver.claim().statement_id)
    driver.claim()
    values = read_samples(node)
    assert values["headrace_live_sessions", "running"] == 1
    assert values["headrace_live_sessions", "closing"] == 0
    assert values["headrace_live_statements", "waiting"] == 1
    assert values["headrace_live_statements", "launched"] == 1
    assert values["headrace_live_streams", "backing_off"] == 0

    def sum_writes() -> float:
        samples = read_samples(node).items()
        return sum(value for (name, _), value in samples if name == "headrace_store_writes_total")

    # The node may write between the two reads.
    wait_until(lambda: sum_writes() == node.database.write_count)


def test_metrics_need_the_token(start_node: StartNode) -> None:
    node = start_node(token="secret")
    assert node.http.get("/metrics").status_code == 401
    allowed = node.http.get("/metrics", headers={"Authorization": "Bearer secret"})
    assert allowed.status_code == 200


def read_labelled(node: InProcessNode, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a name by the values of their labels, in order of the labels."""
    return {
        tuple(value for _label, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(node.http.get("/metrics").text)
        for sample in family.samples
        if sample.name == name
    }


def test_statements_are_counted_by_kind_outcome_and_error_when_they_end(
    start_node: StartNode,
) -> None:
    node = start_node()
    session_id, driver = node.start_session()
    for code in (None, "execution_error", "invented_by_a_driver"):
        statement = node.submit(session=session_id)["id"]
        driver.claim()
        driver.report_start(statement)
        if code is None:
            driver.succeed(statement)
        else:
            failure = Failure(code=code, message="No.")
            driver.report_end(statement, StatementState.FAILED, failure=failure)
    for _number in range(2):
        waiting = node.submit(session=session_id)["id"]
        node.http.post(f"/api/v1/statements/{waiting}/cancel")
    node.submit("SHOW STREAMS")
    # Code, kind, outcome.
    assert read_labelled(node, "headrace_statements_ended_total") == {
        ("none", "interactive", "success"): 1,
        ("execution_error", "interactive", "failed"): 1,
        ("other", "interactive", "failed"): 1,
        ("none", "interactive", "cancelled"): 2,
        ("none", "local", "success"): 1,
    }
    # Only statements that ran have a duration, and only those that a driver claimed a wait.
    durations = read_labelled(node, "headrace_statement_duration_seconds_count")
    assert durations[("interactive", "success")] == 1
    assert durations[("interactive", "failed")] == 2
    assert durations.get(("interactive", "cancelled"), 0) == 0
    assert read_labelled(node, "headrace_statement_queue_seconds_count")[("interactive",)] == 3
    assert read_labelled(node, "headrace_statement_start_seconds_count")[("interactive",)] == 3


def test_the_waiting_statements_of_a_closed_session_are_counted(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "20ms"})
    session_id, driver = node.start_session()
    for _number in range(3):
        node.submit(session=session_id)
    node.http.delete(f"/api/v1/sessions/{session_id}")
    ended = ("none", "interactive", "cancelled")
    wait_until(lambda: read_labelled(node, "headrace_statements_ended_total").get(ended) == 3)
    driver.goodbye()


def test_a_statement_whose_end_is_not_committed_is_not_counted(start_node: StartNode) -> None:
    node = start_node()
    session_id, _driver = node.start_session()
    statement = node.submit(session=session_id)["id"]
    with pytest.raises(RuntimeError), node.database.write("test") as tx:
        statement_transitions.transition(tx, statement, StatementState.FAILED, actor="test")
        raise RuntimeError
    assert read_labelled(node, "headrace_statements_ended_total") == {}


def test_the_times_of_a_statement_are_those_between_its_submit_claim_start_and_end(
    start_node: StartNode,
) -> None:
    node = start_node()
    session_id, driver = node.start_session()
    statement = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement)
    seconds = {"created_at": -1000, "waiting_since": -100, "launched_at": -60, "started_at": -10}
    with node.database.write("test") as tx:
        tx.execute(update(statements).values({name: clock(at) for name, at in seconds.items()}))
    driver.succeed(statement)
    shown = node.statement(statement)
    start, end = (datetime.fromisoformat(shown[name]) for name in ("started_at", "ended_at"))

    def read_sum(name: str, *labels: str) -> float:
        return read_labelled(node, f"headrace_statement_{name}_seconds_sum")["interactive", *labels]

    expected = pytest.approx((end - start).total_seconds(), abs=1e-5)
    assert read_sum("duration", "success") == expected
    assert read_sum("queue") == pytest.approx(40, abs=0.1)
    assert read_sum("start") == pytest.approx(990, abs=0.1)


def test_the_start_of_a_driver_is_observed_by_profile(start_node: StartNode) -> None:
    node = start_node()
    node.start_session()
    node.start_session()
    assert read_labelled(node, "headrace_driver_start_seconds_count") == {("default",): 2}


def test_requests_are_observed_by_the_template_of_their_path(start_node: StartNode) -> None:
    node = start_node(token="secret")
    node.http.get("/api/v1/statements")
    node.http.headers["Authorization"] = "Bearer secret"
    session_id = node.session()
    for _number in range(3):
        node.http.get(f"/api/v1/sessions/{session_id}")
        node.http.get("/api/v1/sessions/se_0")
    node.http.get("/nothing/like/this")
    node.http.get("/_plugins/_async_query/st_0")
    node.http.request("PUT", "/api/v1/sessions")
    node.launcher.connect_driver(session_id).hello()
    # Method, route, status.
    counts = read_labelled(node, "headrace_http_request_duration_seconds_count")
    link = "/driver/v1/sessions/{session_id}/{epoch}/{call}"
    expected = {
        ("GET", "other", "401"): 1,
        ("POST", "/api/v1/sessions", "201"): 1,
        ("GET", "/api/v1/sessions/{session}", "200"): 3,
        ("GET", "/api/v1/sessions/{session}", "404"): 3,
        ("GET", "other", "404"): 1,
        ("GET", "/_plugins/_async_query/{query_id}", "400"): 1,
        ("POST", link, "200"): 1,
    }
    assert counts.items() >= expected.items()
    routes = {route for _method, route, _status in counts}
    assert not any(session_id in route or "nothing" in route for route in routes)
    assert {method for method, _route, _status in counts} == {"GET", "POST", "other"}


def test_lost_drivers_and_failed_starts_are_counted(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "20ms"})
    session_id, _driver = node.start_session()
    node.launcher.report_exit(session_id, "it was killed")
    lost, failed = "headrace_lost_drivers_total", "headrace_failed_driver_starts_total"
    wait_until(lambda: read_samples(node)[lost, ""] == 1)
    assert read_samples(node)[failed, ""] == 0
    node.launcher.refusal = "no memory"
    node.session()
    wait_until(lambda: read_samples(node)[failed, ""] >= 1)


def test_late_renewals_of_the_lease_are_counted(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node(lease={"renew": "20ms"})
    late = "headrace_late_lease_renewals_total"
    writes = ("headrace_store_writes_total", "node.renew")
    wait_until(lambda: read_samples(node).get(writes, 0) >= 2)
    assert read_samples(node)[late, ""] == 0
    steps = count(step=1000)
    monkeypatch.setattr(node_lease, "read_boot_clock", lambda: next(steps))
    wait_until(lambda: read_samples(node)[late, ""] >= 2)


def test_what_needs_an_operator_is_measured(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "1h"})
    session_id, _driver = node.start_session()
    names = ("oldest_waiting_seconds", "overdue_sessions", "expired_nodes", "expired_results")
    values = read_samples(node)
    assert [values[f"headrace_{name}", ""] for name in names] == [0, 0, 0, 0]
    assert values["headrace_live_nodes", "up"] == 1
    assert values["headrace_live_jobs", "failed"] == 0
    assert 0 < values["headrace_home_free_bytes", ""] <= values["headrace_home_size_bytes", ""]
    node.submit(session=session_id)
    ended = new_statement(node.database, session_id, StatementState.RUNNING, owner=LOCAL_OWNER)
    with node.database.write("test") as tx:
        assert statement_transitions.transition(
            tx, ended, StatementState.SUCCESS, actor="driver", result=INLINE, result_seconds=-601
        )
        nodes.register(tx, "no_crashed", address="http://b", version="1", seconds=-1)
        tx.execute(update(sessions).values(lease_until=clock(-1)))
        tx.execute(update(statements).values(waiting_since=clock(-100)))
    values = read_samples(node)
    assert 100 <= values["headrace_oldest_waiting_seconds", ""] < 1000
    assert [values[f"headrace_{name}", ""] for name in names[1:]] == [1, 1, 1]
    assert values["headrace_live_nodes", "up"] == 2


def test_late_waiting_and_failed_runs_are_measured(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "1h"})
    names = ("waiting_runs", "oldest_due_run_seconds", "oldest_due_schedule_seconds")
    measured = [f"headrace_{name}" for name in (*names, "recently_failed_runs")]
    values = read_samples(node)
    assert [values[name, ""] for name in measured] == [0, 0, 0, 0]
    with node.database.read() as tx:
        now = read_clock(tx.connection)
    rules = FiringRules(schedule=Schedule(cron="0 * * * *"))
    # Due since the cursor, and no sweep fires it.
    job_id = insert_batch_job(node.database, rules, cursor=now - timedelta(minutes=5))
    with node.database.write("test") as tx:
        for minutes, state in ((90, RunState.FAILED), (60, RunState.DUE), (30, RunState.DUE)):
            due_at = now - timedelta(minutes=minutes)
            run = runs.insert_run(
                tx,
                job_id,
                owner="ada",
                name="load",
                version_id="jv_x",
                trigger=RunTrigger.SCHEDULE,
                times=RunTimes(logical_time=due_at, interval_start=due_at, interval_end=due_at),
                due_at=due_at,
                actor="test",
            )
            if state is RunState.FAILED:
                runs.begin_attempt(tx, run, position=0, connection_id="cn_x", actor="test")
                begun = runs.lock(tx, run.id)
                assert begun is not None
                runs.end(tx, begun, RunState.FAILED, actor="test")
    values = read_samples(node)
    assert values["headrace_live_runs", "due"] == 2
    assert values["headrace_live_runs", "running"] == 0
    waiting, late_run, late_schedule, failed = (values[name, ""] for name in measured)
    assert (waiting, failed) == (2, 1)
    assert 3600 <= late_run < 5000
    assert 300 <= late_schedule < 1000
    with node.database.write("test") as tx:
        tx.execute(update(run_table).values(backfill_id="bf_x"))
    # The runs of a backfill wait for each other.
    assert read_samples(node)["headrace_oldest_due_run_seconds", ""] == 0

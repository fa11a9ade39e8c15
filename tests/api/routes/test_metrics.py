"""`/metrics`: counts of live objects, store writes and backend calls."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until


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
    node = start_node(lease={"duration": "300ms", "sweep": "20ms"})
    node.start_session()
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
    writes = [value for (name, _), value in values.items() if name == "headrace_store_writes_total"]
    assert sum(writes) == node.database.write_count


def test_metrics_need_the_token(start_node: StartNode) -> None:
    node = start_node(token="secret")
    assert node.http.get("/metrics").status_code == 401
    allowed = node.http.get("/metrics", headers={"Authorization": "Bearer secret"})
    assert allowed.status_code == 200

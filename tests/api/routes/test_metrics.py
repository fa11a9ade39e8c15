"""`/metrics`: what is live, and how seldom the backend is asked."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until


def samples(node: InProcessNode) -> dict[tuple[str, str], float]:
    """Every sample by its name and its last label."""
    response = node.http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, next(reversed(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def backend_calls(node: InProcessNode) -> dict[str, float]:
    name = "headrace_backend_calls_total"
    return {op: value for (known, op), value in samples(node).items() if known == name}


def test_status_reads_never_ask_the_backend(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "20ms"})
    statement = node.submit("SELECT 1", kind="batch")
    driver = node.launcher.connect_driver(statement["session_id"])
    driver.hello()
    driver.claim()
    driver.report_start(statement["id"])
    before = backend_calls(node)
    assert before == {"start": 1, "find": 0, "poll": 0, "kill": 0}
    for _ in range(1000):
        assert node.statement(statement["id"])["state"] == "running"
    assert backend_calls(node) == before


def test_a_lost_lease_is_what_the_backend_is_asked_for(start_node: StartNode) -> None:
    node = start_node(lease={"duration": "300ms", "sweep": "20ms"})
    node.driven_session()
    wait_until(lambda: backend_calls(node) == {"start": 1, "find": 0, "poll": 1, "kill": 1})


def test_what_is_live_is_counted(start_node: StartNode) -> None:
    node = start_node()
    session_id, driver = node.driven_session()
    for _ in range(3):
        node.submit(session=session_id)
    driver.succeed(driver.claim().statement_id)
    driver.claim()
    found = samples(node)
    assert found["headrace_live_sessions", "running"] == 1
    assert found["headrace_live_sessions", "closing"] == 0
    assert found["headrace_live_statements", "waiting"] == 1
    assert found["headrace_live_statements", "launched"] == 1
    assert found["headrace_store_writes_total", ""] == node.database.write_count


def test_metrics_are_for_who_has_the_token(start_node: StartNode) -> None:
    node = start_node(token="secret")
    assert node.http.get("/metrics").status_code == 401
    allowed = node.http.get("/metrics", headers={"Authorization": "Bearer secret"})
    assert allowed.status_code == 200

from __future__ import annotations

import pytest
from tests.support.in_process_node import InProcessNode, StartNode


def test_a_session_is_opened_with_what_was_asked_for(node: InProcessNode) -> None:
    body = {
        "name": "reports",
        "conf": {"spark.sql.ansi.enabled": "false"},
        "catalog": "spark_catalog",
        "database": "default",
        "jars": ["a.jar"],
        "files": ["b.txt"],
        "py_files": ["c.py"],
    }
    response = node.http.post("/api/v1/sessions", json=body)
    assert response.status_code == 201
    session = response.json()
    assert response.headers["location"] == f"/api/v1/sessions/{session['id']}"
    assert body.items() <= session.items()
    assert session["state"] in {"not_started", "starting"}
    assert (session["owner"], session["kind"]) == ("anonymous", "interactive")

    bootstrap = node.launcher.wait_for_request(session["id"]).bootstrap
    assert (bootstrap.catalog, bootstrap.database) == ("spark_catalog", "default")
    assert bootstrap.conf["spark.sql.ansi.enabled"] == "false"
    assert bootstrap.conf["spark.jars"] == "a.jar"
    assert bootstrap.conf["spark.headrace.session.id"] == session["id"]


def test_a_session_runs_once_its_driver_says_hello(node: InProcessNode) -> None:
    session_id, _driver = node.driven_session()
    session = node.http.get(f"/api/v1/sessions/{session_id}").json()
    assert session["state"] == "running"
    assert session["epoch"] == 1
    assert session["driver"]["spark_version"] == "4.1.3"
    assert session["created_at"] <= session["started_at"] <= session["last_update_time"]
    assert session["busy"] is False

    node.submit(session=session_id)
    assert node.http.get(f"/api/v1/sessions/{session_id}").json()["busy"] is True


def test_a_live_session_is_found_by_name(node: InProcessNode) -> None:
    session_id = node.session(name="by-name")
    assert node.http.get("/api/v1/sessions/by-name").json()["id"] == session_id
    assert node.submit(session="by-name")["session_id"] == session_id


def test_a_name_is_free_again_once_its_session_has_ended(node: InProcessNode) -> None:
    first, driver = node.driven_session(name="once")
    response = node.http.post("/api/v1/sessions", json={"name": "once"})
    assert (response.status_code, response.json()["code"]) == (409, "session_name_exists")

    assert driver.report_spark_failure().applied
    assert node.http.get("/api/v1/sessions/once").status_code == 404
    second = node.session(name="once")
    assert node.http.get("/api/v1/sessions/once").json()["id"] == second != first


def test_closing_cancels_what_runs_and_ends_with_the_drivers_goodbye(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    running = node.submit(session=session_id)["id"]
    waiting = node.submit(session=session_id)["id"]
    assert driver.claim().statement_id == running

    response = node.http.delete(f"/api/v1/sessions/{session_id}")
    assert (response.status_code, response.json()["state"]) == (202, "closing")
    assert node.statement(waiting)["state"] == "cancelled"
    orders = driver.poll(in_flight=[running])
    assert (orders.close, orders.cancel) == (True, [running])
    late = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 1", "session": session_id}
    )
    assert (late.status_code, late.json()["code"]) == (409, "session_ended")

    assert driver.goodbye().applied
    session = node.http.get(f"/api/v1/sessions/{session_id}").json()
    assert (session["state"], session["error"]) == ("dead", None)
    assert session["ended_at"] is not None
    assert node.statement(running)["state"] == "cancelled"
    again = node.http.delete(f"/api/v1/sessions/{session_id}")
    assert (again.status_code, again.json()["state"]) == (202, "dead")


def test_a_session_whose_driver_cannot_be_started_says_why(start_node: StartNode) -> None:
    node = start_node()
    node.launcher.refusal = "no such backend"
    statement = node.submit(wait_timeout="20s")
    assert statement["state"] == "failed"
    assert "no such backend" in statement["error"]["message"]
    session = node.http.get(f"/api/v1/sessions/{statement['session_id']}").json()
    assert (session["state"], session["error"]["code"]) == ("failed", "launch_failed")


def test_sessions_are_listed_in_pages_newest_first(start_node: StartNode) -> None:
    node = start_node()
    made = [node.session() for _ in range(5)]
    first = node.http.get("/api/v1/sessions", params={"limit": 2}).json()
    second = node.http.get("/api/v1/sessions", params={"limit": 2, "before": first["next"]}).json()
    third = node.http.get("/api/v1/sessions", params={"limit": 2, "before": second["next"]}).json()
    found = [one["id"] for page in (first, second, third) for one in page["items"]]
    assert found == made[::-1]
    assert third["next"] is None


def test_sessions_are_listed_by_state(start_node: StartNode) -> None:
    node = start_node()
    running, driver = node.driven_session()
    ended, other = node.driven_session()
    other.report_spark_failure()
    for state, expected in (("running", [running]), ("failed", [ended]), ("closing", [])):
        page = node.http.get("/api/v1/sessions", params={"state": state}).json()
        assert [one["id"] for one in page["items"]] == expected
    both = node.http.get("/api/v1/sessions", params={"state": ["running", "failed"]}).json()
    assert [one["id"] for one in both["items"]] == [ended, running]
    driver.renew()


def test_the_log_is_the_end_of_what_the_driver_wrote(node: InProcessNode) -> None:
    session_id = node.session()
    url = f"/api/v1/sessions/{session_id}/log"
    empty = node.http.get(url)
    assert (empty.status_code, empty.text) == (200, "")
    assert empty.headers["content-type"] == "text/plain; charset=utf-8"

    log = node.launcher.wait_for_request(session_id).log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"first\nsecond\xff\n")
    assert node.http.get(url).text == "first\nsecond\ufffd\n"
    assert node.http.get(url, params={"tail": 2}).text == "\ufffd\n"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/sessions/{0}"),
        ("GET", "/api/v1/sessions/{0}/log"),
        ("DELETE", "/api/v1/sessions/{0}"),
        ("GET", "/api/v1/statements?session={0}"),
    ],
)
@pytest.mark.parametrize("name", ["nobody", "se_" + "0" * 32, "st_" + "0" * 32])
def test_a_session_that_is_not_there_is_404(
    node: InProcessNode, method: str, path: str, name: str
) -> None:
    with node.storing_nothing():
        response = node.http.request(method, path.format(name))
        assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
        assert name in response.json()["detail"]


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "ä", "a/b", "a" * 101, "se_" + "0" * 32, "x\u0000"]
)
def test_a_session_cannot_have_any_name(node: InProcessNode, name: str) -> None:
    with node.storing_nothing():
        response = node.http.post("/api/v1/sessions", json={"name": name})
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"conf": {"sparksql.x": "1"}}, "sparksql.x"),
        ({"conf": {"spark.headrace.session.id": "x"}}, "spark.headrace.session.id"),
        ({"profile": "big"}, "'big'"),
    ],
)
def test_an_unknown_setting_is_refused(
    node: InProcessNode, body: dict[str, object], told: str
) -> None:
    with node.storing_nothing():
        response = node.http.post("/api/v1/sessions", json=body)
        assert (response.status_code, response.json()["code"]) == (400, "invalid_setting")
        assert told in response.json()["detail"]

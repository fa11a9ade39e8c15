"""Sessions: create, read, list, close, and the log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import ARTIFACTS_ALLOWED, InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.waiting import wait_until


def test_a_new_session_has_the_requested_fields_and_passes_them_to_its_driver(
    start_node: StartNode,
) -> None:
    node = start_node(conf_policy=ARTIFACTS_ALLOWED)
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
    assert (session["owner"], session["kind"]) == (LOCAL_OWNER, "interactive")

    bootstrap = node.launcher.wait_for_request(session["id"]).bootstrap
    assert (bootstrap.catalog, bootstrap.database) == ("spark_catalog", "default")
    assert bootstrap.conf["spark.sql.ansi.enabled"] == "false"
    assert bootstrap.conf["spark.jars"] == "a.jar"
    assert bootstrap.conf["spark.headrace.session.id"] == session["id"]


def test_a_session_is_running_after_the_hello_of_its_driver(node: InProcessNode) -> None:
    session_id, _driver = node.start_session()
    session = node.describe_session(session_id)
    assert session["state"] == "running"
    assert session["epoch"] == 1
    assert session["driver"]["spark_version"] == "4.1.3"
    assert session["created_at"] <= session["started_at"] <= session["last_update_time"]
    assert session["busy"] is False

    node.submit(session=session_id)
    assert node.describe_session(session_id)["busy"] is True


def test_a_live_session_is_found_by_name(node: InProcessNode) -> None:
    session_id = node.session(name="by-name")
    assert node.describe_session("by-name")["id"] == session_id
    assert node.submit(session="by-name")["session_id"] == session_id


def test_a_name_can_be_used_again_after_its_session_has_ended(node: InProcessNode) -> None:
    first, driver = node.start_session(name="once")
    response = node.http.post("/api/v1/sessions", json={"name": "once"})
    assert (response.status_code, response.json()["code"]) == (409, "session_name_exists")

    node.fail_session(first, driver)
    assert node.http.get("/api/v1/sessions/once").status_code == 404
    second = node.session(name="once")
    assert node.describe_session("once")["id"] == second != first


def test_closing_a_session_cancels_its_statements_and_ends_when_the_driver_says_goodbye(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session()
    running = node.submit(session=session_id)["id"]
    waiting = node.submit(session=session_id)["id"]
    assert driver.claim().statement_id == running

    response = node.http.delete(f"/api/v1/sessions/{session_id}")
    assert (response.status_code, response.json()["state"]) == (202, "closing")
    assert node.statement(waiting)["state"] == "cancelled"
    orders = driver.poll(in_flight=[running])
    assert (orders.close, orders.cancel) == (True, [running])
    submit = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 1", "session": session_id}
    )
    assert (submit.status_code, submit.json()["code"]) == (409, "session_ended")

    assert driver.goodbye().applied
    wait_until(lambda: node.session_state(session_id) == "dead", what="its process is gone")
    session = node.describe_session(session_id)
    assert (session["state"], session["error"]) == ("dead", None)
    assert session["ended_at"] is not None
    assert node.statement(running)["state"] == "cancelled"
    second_close = node.http.delete(f"/api/v1/sessions/{session_id}")
    assert (second_close.status_code, second_close.json()["state"]) == (202, "dead")


def test_a_session_whose_driver_cannot_start_fails_with_the_reason(start_node: StartNode) -> None:
    node = start_node()
    node.launcher.refusal = "no such backend"
    statement = node.submit(wait_timeout="50s")
    assert statement["state"] == "failed"
    assert "no such backend" in statement["error"]["message"]
    session = node.describe_session(statement["session_id"])
    assert (session["state"], session["error"]["code"]) == ("failed", "launch_failed")


def test_sessions_are_listed_in_pages_newest_first(start_node: StartNode) -> None:
    node = start_node()
    session_ids = [node.session() for _ in range(5)]
    first = node.http.get("/api/v1/sessions", params={"limit": 2}).json()
    second = node.http.get("/api/v1/sessions", params={"limit": 2, "before": first["next"]}).json()
    third = node.http.get("/api/v1/sessions", params={"limit": 2, "before": second["next"]}).json()
    listed_ids = [session["id"] for page in (first, second, third) for session in page["items"]]
    assert listed_ids == session_ids[::-1]
    assert third["next"] is None


def test_sessions_are_listed_by_state(start_node: StartNode) -> None:
    node = start_node()
    running, driver = node.start_session()
    failed, other = node.start_session()
    node.fail_session(failed, other)
    for state, expected in (("running", [running]), ("failed", [failed]), ("closing", [])):
        page = node.http.get("/api/v1/sessions", params={"state": state}).json()
        assert [session["id"] for session in page["items"]] == expected
    both = node.http.get("/api/v1/sessions", params={"state": ["running", "failed"]}).json()
    assert [session["id"] for session in both["items"]] == [failed, running]
    driver.renew()


def test_the_log_of_a_session_is_the_end_of_the_output_of_its_driver(node: InProcessNode) -> None:
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


def test_no_browser_runs_a_script_in_a_log_in_rows_or_in_an_error(node: InProcessNode) -> None:
    script = "<script>alert(1)</script>"
    session_id, driver = node.start_session()
    log = node.launcher.wait_for_request(session_id).log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{script}\n")
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.succeed(statement_id, result=inline_result([(script, "string")], [[script]]))
    url = f"/api/v1/sessions/{session_id}/log"
    rows = f"/api/v1/statements/{statement_id}/result"
    shown = {
        "text/plain; charset=utf-8": node.http.get(url),
        "text/csv; charset=utf-8": node.http.get(rows, params={"format": "csv"}),
        "application/json": node.http.get(rows),
        "application/problem+json": node.http.get("/api/v1/statements", params={script: "1"}),
    }
    for media_type, response in shown.items():
        assert script in response.text
        assert response.headers["content-type"] == media_type
        assert response.headers.get_list("x-content-type-options") == ["nosniff"]
    assert shown["text/plain; charset=utf-8"].headers["content-security-policy"] == "sandbox"


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
def test_an_unknown_session_gets_404(
    node: InProcessNode, method: str, path: str, name: str
) -> None:
    with node.expect_no_changes():
        response = node.http.request(method, path.format(name))
        assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
        assert name in response.json()["detail"]


@pytest.mark.parametrize("name", ["", "1a", "a b", "ä", "a/b", "a" * 101, "se_" + "0" * 32])
def test_an_invalid_session_name_is_refused(node: InProcessNode, name: str) -> None:
    with node.expect_no_changes():
        response = node.http.post("/api/v1/sessions", json={"name": name})
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"conf": {"sparksql.x": "1"}}, "sparksql.x"),
        ({"conf": {"spark.headrace.session.id": "x"}}, "spark.headrace.session.id"),
        ({"profile": "big"}, "'big'"),
    ],
)
def test_an_unknown_setting_or_profile_is_refused_by_name(
    node: InProcessNode, body: dict[str, object], expected: str
) -> None:
    with node.expect_no_changes():
        response = node.http.post("/api/v1/sessions", json=body)
        assert (response.status_code, response.json()["code"]) == (400, "invalid_setting")
        assert expected in response.json()["detail"]


@pytest.mark.finding("S4")
def test_a_pipe_in_place_of_a_log_does_not_block_the_node(node: InProcessNode) -> None:
    session_id = node.session()
    log = node.node.settings.layout.session_log(session_id)
    os.mkfifo(log)
    try:
        response = node.http.get(f"/api/v1/sessions/{session_id}/log", timeout=60)
    finally:
        # A reader that waits for a writer continues.
        os.close(os.open(log, os.O_RDWR | os.O_NONBLOCK))
    assert response.status_code == 503
    assert "not a regular file" in response.json()["detail"]


@pytest.mark.finding("S4")
def test_a_link_in_place_of_a_log_is_not_followed(node: InProcessNode, tmp_path: Path) -> None:
    session_id = node.session()
    (tmp_path / "other").write_text("of others")
    node.node.settings.layout.session_log(session_id).symlink_to(tmp_path / "other")
    response = node.http.get(f"/api/v1/sessions/{session_id}/log")
    assert response.status_code == 503
    assert "of others" not in response.text


SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "s3cr3t",
    "spark.sql.catalog.pg.url": "jdbc:postgresql://u:s3cr3t@h/db?password=s3cr3t",
}


def test_no_response_about_a_session_contains_its_secrets(start_node: StartNode) -> None:
    node = start_node(conf_policy=ARTIFACTS_ALLOWED)
    body = {"conf": SECRETS | {"spark.executor.memory": "2g"}, "jars": ["http://u:s3cr3t@h/a.jar"]}
    opened = node.http.post("/api/v1/sessions", json=body)
    session_id = opened.json()["id"]
    closed = node.http.delete(f"/api/v1/sessions/{session_id}")
    for response in (
        opened,
        node.http.get(f"/api/v1/sessions/{session_id}"),
        node.http.get("/api/v1/sessions"),
        closed,
        node.http.get("/api/v1/events"),
    ):
        assert response.is_success
        assert "s3cr3t" not in response.text
    assert opened.json()["conf"]["spark.executor.memory"] == "2g"
    assert opened.json()["jars"] == ["http://u:*********(redacted)@h/a.jar"]


def test_a_session_like_another_has_its_configuration_with_the_secrets(node: InProcessNode) -> None:
    first = node.session(conf=SECRETS, database="sales")
    second = node.session(like=first, name="second")
    third = node.session(like="second")
    for session_id in (first, second, third):
        conf = node.launcher.wait_for_request(session_id).bootstrap.conf
        assert SECRETS.items() <= conf.items()
        assert node.describe_session(session_id)["database"] == "sales"


def test_a_session_cannot_be_like_another_and_configured(node: InProcessNode) -> None:
    first = node.session()
    for fields, code in (
        ({"like": first, "conf": {"spark.a": "1"}}, "invalid_request"),
        ({"like": first, "catalog": "c"}, "invalid_request"),
        ({"like": "nowhere"}, "session_not_found"),
    ):
        with node.expect_no_changes():
            response = node.http.post("/api/v1/sessions", json=fields)
        assert response.json()["code"] == code

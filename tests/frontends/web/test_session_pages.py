"""The pages of sessions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.browsers import Browser
from tests.support.in_process_node import InProcessNode

from headrace.frontends.web import statement_pages
from headrace.frontends.web.session_pages import SessionEnd, find_end


def test_a_session_shows_its_driver_its_configuration_and_its_end(
    node: InProcessNode, browser: Browser
) -> None:
    conf = {"spark.sql.shuffle.partitions": "7"}
    session, _driver = node.start_session(name="etl", conf=conf, idle_timeout="30m", ttl="1d")
    page = browser.open("sessions")
    assert f"sessions/{session}" in page.response.text
    assert "Ends in 30 min : idle." in page.text or "Ends in 29 min 5" in page.text
    page = browser.open("sessions/etl")
    assert "spark.sql.shuffle.partitions 7" in page.text
    assert "Ends in 30 min" in page.text or "Ends in 29 min" in page.text
    assert f"headrace session show {session}" in page.text
    shown = browser.http.get(f"sessions/{session}/json").json()
    assert shown["id"] == session
    assert browser.open("sessions/nothing").response.status_code == 404
    assert browser.open("sessions/nothing/json").response.status_code == 404


def test_a_session_is_closed_from_its_page(node: InProcessNode, browser: Browser) -> None:
    session, _driver = node.start_session()
    waiting = str(node.submit("SELECT 1", session=session)["id"])
    page = browser.open(f"sessions/{session}")
    assert "Close, and cancel 1 statement" in page.text
    page = browser.submit(page, f"sessions/{session}/close")
    assert f"Close the session {session}? 1 statement of it will be cancelled." in page.text
    # Another one was submitted since the question: it is asked again.
    node.submit("SELECT 2", session=session)
    for wrong in ("", "x", "-2", "9" * 40, page.hidden["confirmed"]):
        page = browser.submit(page, f"sessions/{session}/close", confirmed=wrong)
        assert "2 statements of it will be cancelled." in page.text, wrong
    assert node.statement(waiting)["state"] == "waiting"
    page = browser.submit(page, f"sessions/{session}/close")
    assert page.response.url.path == f"/ui/sessions/{session}"
    assert "closing" in page.text
    assert "Close, and cancel" not in page.text
    assert node.statement(waiting)["state"] in {"cancelled", "cancelling"}
    # A second tab has the button still.
    assert browser.submit(page, f"sessions/{session}/close").response.status_code == 200


def test_the_last_events_come_first_and_older_ones_by_a_link(
    node: InProcessNode, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement_pages, "EVENTS", 1)
    session, _driver = node.start_session()
    page = browser.open(f"sessions/{session}")
    assert "not started" not in page.text.partition("Events")[2]
    seen = 0
    while older := [each for each in page.links if "events=" in each]:
        [link] = older
        page = browser.open(link.removeprefix("../"))
        assert "Newest events" in page.text
        seen += 1
    assert seen >= 2
    assert "not started" in page.text.partition("Events")[2]
    for wrong in ("x", "1.2", "9" * 61):
        page = browser.open(f"sessions/{session}?events={wrong}")
        assert page.response.status_code == 400


def test_the_rule_that_ends_a_session_first_is_named(node: InProcessNode) -> None:
    session_id, _driver = node.start_session(idle_timeout="1h", ttl="10m")
    caller = node.node.authenticator.local_caller
    session = node.node.sessions.get(caller, session_id)
    age = SessionEnd(session.created_at + timedelta(minutes=10), "its age")
    assert find_end(session) == age
    assert age.left(session.created_at + timedelta(minutes=4)) == 360
    assert age.left(session.created_at + timedelta(days=1)) == 0
    node.submit("SELECT 1", session=session_id)
    assert find_end(node.node.sessions.get(caller, session_id)) == age
    assert find_end(replace(session, idle_seconds=None, ttl_seconds=None)) is None

"""The pages of streams."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.browsers import Browser, resolve
from tests.support.in_process_node import InProcessNode
from tests.support.running_query import ERROR, RunningQuery, make_batch
from tests.support.stream_minutes import add_minutes, make_older

from headrace.control.streams import history, service
from headrace.frontends.web import stream_pages
from headrace.frontends.web.stream_pages import draw_bars, draw_durations, draw_spark
from headrace.grammar.parse import find_sink_options
from headrace.model.failure import Failure
from headrace.model.lifecycle import StreamState

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def query(node: InProcessNode) -> RunningQuery:
    return RunningQuery(node)


def test_a_list_without_streams_says_how_to_start_one(browser: Browser) -> None:
    assert "None of your streams runs." in browser.open("streams").text
    assert "SAVE STREAM" in browser.open("streams?state=all").text
    assert browser.open("streams/nothing").response.status_code == 404


def test_a_running_stream_shows_its_batches(query: RunningQuery, browser: Browser) -> None:
    batches = [make_batch(number) for number in range(5)]
    query.report(StreamState.RUNNING, last_batch=4, progress=batches)
    page = browser.open("streams")
    assert query.name in page.text
    assert "1,234.5" in page.text
    page = browser.open(f"streams/{query.id}")
    assert "Batch 4 at" in page.text
    assert sum(tag == "rect" and values.get("class") != "target" for tag, values in page.tags) == 10
    assert "Stop" in page.text
    assert "Retry now" not in page.text


def test_a_failing_stream_says_when_it_is_tried_again_and_can_be_tried_now(
    query: RunningQuery, browser: Browser
) -> None:
    error = Failure(code="execution_error", message=f"Kafka refused the connection. {HOSTILE}")
    query.report(
        StreamState.BACKING_OFF, failures=4, delay_seconds=60.0, retry_seconds=32.0, error=error
    )
    for link in ("streams", f"streams/{query.id}"):
        page = browser.open(link)
        assert "Retry 4 of ∞ in" in page.text
        assert "Kafka refused the connection." in page.text
        assert page.find_unwanted_tags() == []
    assert "Retry now" in page.text
    page = browser.submit(page, f"streams/{query.id}/retry")
    assert page.response.url.path == f"/ui/streams/{query.id}"
    assert "Retry now" not in page.text
    # A second tab has the button still.
    assert browser.submit(page, f"streams/{query.id}/retry").response.status_code == 200


def test_a_stopped_stream_shows_the_reason_and_can_be_restarted(
    query: RunningQuery, browser: Browser
) -> None:
    page = browser.open(f"streams/{query.id}")
    page = browser.submit(page, f"streams/{query.id}/stop")
    assert f"Stop the stream adhoc.{query.name}?" in page.text
    assert query.state == "running"
    page = browser.submit(page, f"streams/{query.id}/stop")
    assert "Its driver stops it (stopped by a user). Then it is stopped." in page.text
    query.report(StreamState.STOPPED)
    page = browser.open(f"streams/{query.id}")
    assert "Stopped: stopped by a user." in page.text
    assert query.name not in browser.open("streams").text
    assert query.name in browser.open("streams?state=all").text
    page = browser.submit(page, f"streams/{query.id}/restart")
    assert page.response.url.path != f"/ui/streams/{query.id}"
    assert "the one before" in page.text


def test_a_list_has_the_worst_streams_first(node: InProcessNode, browser: Browser) -> None:
    names = ("running", "paused", "lagging", "failing", "failed", "restarted", "failed before")
    queries = {name: RunningQuery(node) for name in names}
    node.act_on_stream(queries["paused"].id, "pause")
    queries["paused"].report(StreamState.STOPPED)
    lagging = make_batch(1).model_copy(
        update={"lag": {"kafka": 1234}, "watermark": "2025-12-31T23:59:01+00:00"}
    )
    queries["lagging"].report(StreamState.RUNNING, last_batch=1, progress=[lagging])
    backoff = {"failures": 2, "delay_seconds": 60.0, "retry_seconds": 60.0, "error": ERROR}
    queries["failing"].report(StreamState.BACKING_OFF, **backoff)
    for name in ("failed", "restarted", "failed before"):
        queries[name].report(StreamState.FAILED, failures=1, error=ERROR)
    node.act_on_stream(queries["restarted"].id, "restart")
    make_older(node.database, queries["failed before"].id, 25 * 60)
    page = browser.open("streams")
    listed = [values["id"] for tag, values in page.tags if tag == "tr" and values.get("id")]
    ids = {query.id: name for name, query in queries.items()}
    assert [ids.get(str(each), "restart") for each in listed] == [
        *("failed", "failing", "restart", "lagging", "running", "paused")
    ]
    assert "1,234 records" in page.text
    assert "1 min" in page.text
    assert sum(tag == "path" for tag, _ in page.tags) == 1
    waits = [values for tag, values in page.tags if values.get("data-until")]
    assert len(waits) == 1
    # Without a length of time in it, the list is the same until something changes.
    [title] = [values["title"] for _, values in page.tags if "Retry" in str(values.get("title"))]
    assert f" at {waits[0]['data-until']}" in str(title)
    assert " in " not in str(title).partition(":")[0]


def test_a_list_of_many_streams_says_that_it_is_cut(
    node: InProcessNode, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_pages, "ITEMS", 2)
    for _number in range(3):
        RunningQuery(node)
    page = browser.open("streams")
    assert "These are the 2 worst by state and failures." in page.text
    assert "streams?state=all&owner=mine" in page.links[-1]
    assert sum(tag == "tr" and "id" in values for tag, values in page.tags) == 2


def test_many_failures_leave_room_for_live_streams(node: InProcessNode) -> None:
    live = [RunningQuery(node).id for _number in range(8)]
    failed = [RunningQuery(node) for _number in range(10)]
    for query in failed:
        query.report(StreamState.FAILED, failures=1, error=ERROR)
    caller, streams = node.node.authenticator.local_caller, node.node.streams
    listed = [each.status.query.id for each in streams.list_worst(caller, limit=10)]
    # The last failures have three tenths of the list.
    assert set(listed[:3]) == {query.id for query in failed[-3:]}
    assert set(listed[3:]) == set(live[-7:])
    # They have the places that live queries do not need.
    listed = [each.status.query.id for each in streams.list_worst(caller, limit=16)]
    assert len(listed) == 16
    assert set(live) < set(listed)


def test_the_sql_of_a_failing_stream_is_parsed_once_however_often_it_is_shown(
    node: InProcessNode, query: RunningQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[tuple[str, ...]] = []

    def note(texts: tuple[str, ...]) -> Any:
        parsed.append(texts)
        return find_sink_options(texts)

    monkeypatch.setattr(service, "find_sink_options", note)
    query.report(
        StreamState.BACKING_OFF, failures=2, delay_seconds=60.0, retry_seconds=60.0, error=ERROR
    )
    for _number in range(3):
        assert "Retry 2 of ∞" in str(node.stream(query.id))
    assert len(parsed) == 1


@given(st.lists(st.none() | st.integers(0, 10**15), max_size=60))
def test_a_spark_has_a_stroke_for_each_minute_with_a_batch(rows: list[int | None]) -> None:
    strokes = re.findall(r"M([\d.]+) 20V(\d+)", draw_spark(rows))
    assert [float(x) - 0.5 for x, _ in strokes] == [x for x, y in enumerate(rows) if y is not None]
    heights = [20 - int(y) for _, y in strokes]
    assert all(1 <= height <= 20 for height in heights)
    if any(rows):
        assert max(heights) == 20


@pytest.mark.parametrize("action", ["delete", "Stop", "%2e%2e", "stop/now"])
def test_an_unknown_action_is_an_error_page(
    query: RunningQuery, browser: Browser, action: str
) -> None:
    page = browser.submit(browser.open("streams"), f"streams/{query.id}/{action}")
    assert page.response.status_code in {400, 404}
    assert query.state == "running"


def test_a_name_with_a_slash_leads_to_its_page(node: InProcessNode, browser: Browser) -> None:
    session, driver = node.start_session(kind="streaming")
    text = "SAVE STREAM t TO noop IDENTIFIED BY `a/b ü`"
    statement_id = node.submit(text, session=session)["id"]
    assert driver.claim().query is not None
    driver.succeed(statement_id)
    page = browser.open("streams/a%2Fb%20%C3%BC")
    assert page.response.status_code == 200
    assert "Stream adhoc.a/b ü" in page.text
    assert {resolve(page, each) for each in page.links if "nodes" in each} == {"nodes"}


@given(st.lists(st.integers(0, 10**12), max_size=100))
def test_the_bars_of_a_plot_fit_into_it(values: list[int]) -> None:
    bars = draw_bars([make_batch(1)] * len(values), values, "rows")
    assert [each.x for each in bars] == list(range(len(values)))
    assert all(0 <= each.height <= 40 for each in bars)
    if any(values):
        assert max(each.height for each in bars) == 40


@pytest.mark.parametrize(
    ("milliseconds", "slow"),
    [
        ([], []),
        ([100] * 5, []),
        ([100, 100, 100, 250], [3]),
        ([1, 1, 1, 90], []),
        ([1, 1, 1, 101], [3]),
        ([5000], []),
    ],
    ids=["none", "equal", "slow", "fast beside faster", "above a tenth", "single"],
)
def test_slow_batches_are_marked(milliseconds: list[int], slow: list[int]) -> None:
    batches = [make_batch(at, milliseconds=value) for at, value in enumerate(milliseconds)]
    assert [bar.batch for bar in draw_durations(batches) if bar.is_slow] == slow


def test_a_batch_is_picked_by_its_number_without_scripts(
    query: RunningQuery, browser: Browser
) -> None:
    query.report(StreamState.RUNNING, last_batch=2, progress=[make_batch(2)])
    page = browser.open(f"streams/{query.id}")
    # The strip and the table have it.
    assert page.links.count("?batch=2#batches") == 2
    assert "Show none" not in page.text
    page = browser.open(f"streams/{query.id}?batch=2")
    assert [values["class"] for tag, values in page.tags if values.get("aria-current") == "true"]
    assert "Begun" in page.text
    assert "is not kept any more" in browser.open(f"streams/{query.id}?batch=1").text
    for number in ("-1", "x", str(2**63)):
        assert browser.open(f"streams/{query.id}?batch={number}").response.status_code == 400


def test_a_stream_shows_its_minutes_and_attempts_without_scripts(
    query: RunningQuery, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = browser.open(f"streams/{query.id}")
    assert "No batch was reported in this time." in page.text
    add_minutes(query.node.database, query.id, 5, input_rows=4242, backlog=17)
    query.report(StreamState.FAILED, failures=1, error=ERROR)
    query.node.act_on_stream(query.id, "restart")
    page = browser.open(f"streams/{query.name}")
    assert "4242" in page.text
    assert "Failed: division by zero" in page.text
    assert "When it did not run" in page.text
    # A refresh leaves the numbers out, and reads none.
    for unused in (history.stream_minutes, history.jobs):
        monkeypatch.setattr(unused, "read" if unused is history.stream_minutes else "find", None)
    page = browser.open(f"streams/{query.name}", headers={"HX-Request": "true"})
    assert "4242" not in page.text
    assert "When it did not run" in page.text


def test_a_stream_and_its_history_are_shown_as_the_api_does(
    query: RunningQuery, browser: Browser
) -> None:
    page = browser.open(f"streams/{query.id}")
    assert f"headrace stream show {query.id}" in page.text
    assert f"/api/v1/streams/{query.id}" in page.text
    for link, path in (("json", ""), ("history", "/history")):
        shown = browser.open(f"streams/{query.id}/{link}").response
        assert shown.headers["Content-Type"] == "application/json"
        answer = query.node.http.get(f"/api/v1/streams/{query.id}{path}").json()
        assert shown.json().keys() == answer.keys()
        # The two are read at different times, between which a minute may begin.
        of_clock = dict.fromkeys(("read_at", "began_at"))
        assert {**shown.json(), **of_clock} == {**answer, **of_clock}
    # The plots read the history again and again.
    assert "\n" not in shown.text

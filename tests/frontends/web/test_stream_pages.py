"""The pages of streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.browsers import Browser, resolve
from tests.support.in_process_node import InProcessNode
from tests.support.running_query import RunningQuery, make_batch

from headrace.frontends.web.stream_pages import draw_bars
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
    assert sum(tag == "rect" for tag, _ in page.tags) == 10
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
    assert "Its driver stops it (stopped by a user). Then it is stopped." in page.text
    query.report(StreamState.STOPPED)
    page = browser.open(f"streams/{query.id}")
    assert "Stopped: stopped by a user." in page.text
    assert query.name not in browser.open("streams").text
    assert query.name in browser.open("streams?state=all").text
    page = browser.submit(page, f"streams/{query.id}/restart")
    assert page.response.url.path != f"/ui/streams/{query.id}"
    assert "the one before" in page.text


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

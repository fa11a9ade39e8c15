"""The plots of a stream in a browser: gaps, bands, marks, and the batch that a user has picked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, Request, expect
from tests.support.chromium import pause_clock, watch
from tests.support.in_process_node import InProcessNode
from tests.support.running_query import RunningQuery, make_batch
from tests.support.stream_minutes import add_minutes, make_older

from headrace.frontends.web import rendering
from headrace.model.lifecycle import StreamState
from headrace.store.streams import stream_transitions

pytestmark = pytest.mark.browser

AXE = Path(".tools/axe/node_modules/axe-core/axe.min.js")
READ_COLUMNS = """
plot => {
  // The columns of pixels, from 0 to 1, in which the third color is drawn.
  const canvas = plot.querySelector("canvas"), over = plot.querySelector(".u-over");
  const ratio = canvas.width / canvas.clientWidth;
  const box = [over.offsetLeft, over.offsetTop, over.offsetWidth, over.offsetHeight]
    .map(each => Math.round(each * ratio));
  const pixels = canvas.getContext("2d").getImageData(...box).data;
  const drawn = new Set();
  for (let at = 0; at < pixels.length; at += 4) {
    const [red, green, blue, alpha] = pixels.slice(at, at + 4);
    // --phase-3 of the light style.
    if (alpha > 200 && Math.hypot(red - 31, green - 122, blue - 156) < 30)
      drawn.add((at / 4) % box[2]);
  }
  return [...drawn].sort((a, b) => a - b).map(each => each / box[2]);
}
"""

CHANGE = "document.dispatchEvent(new CustomEvent('headrace:change', {detail: null}))"


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Page]:
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield context.new_page()


@pytest.fixture
def query(node: InProcessNode) -> RunningQuery:
    """Return a query that had no driver from 200 to 100 minutes ago, and began 100 before."""
    query = RunningQuery(node)
    store = node.database
    make_older(store, query.id, 100)
    with store.write("test") as tx:
        stream_transitions.release(tx, query.session, actor="test", reason="driver_lost")
    make_older(store, query.id, 100)
    query.report(StreamState.RUNNING)
    make_older(store, query.id, 100)
    values = {"batches": 6, "input_rows": 3000, "milliseconds": 1500, "slowest_milliseconds": 700}
    add_minutes(store, query.id, *range(201, 300), add_batch=900, state_rows=5, **values)
    add_minutes(store, query.id, *range(1, 100), add_batch=900, state_rows=9, **values)
    return query


def open_page(page: Page, query: RunningQuery, link: str = "") -> list[str]:
    reports = watch(page)
    page.goto(f"{query.node.address}/ui/streams/{query.id}{link}")
    expect(page.locator(".history .uplot")).to_have_count(4)
    return reports


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "narrow"])
def test_the_last_hours_are_four_plots_on_one_axis(
    page: Page, query: RunningQuery, width: int, scheme: Any
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    reports = open_page(page, query)
    captions = page.locator(".history figcaption").all_inner_texts()
    assert [each.partition(" ")[0] for each in captions] == ["Rows", "Mean", "Lag:", "State:"]
    # The plots have the same axis, one below the other.
    boxes = [each.bounding_box() for each in page.locator(".history .u-over").all()]
    assert len({(box["x"], box["width"]) for box in boxes if box}) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [
        (each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]
    ] == []
    legends = page.locator(".history .u-legend")
    expect(legends.first).to_contain_text("arrived")
    assert reports == []


def test_a_line_breaks_where_the_query_had_no_driver_and_a_band_says_so(
    page: Page, query: RunningQuery
) -> None:
    open_page(page, query)
    bands = page.locator(".history .uplot").first.locator(".band")
    expect(bands.get_by_text("driver down")).to_have_count(1)
    # The time of the parts of a batch is an area, of which every column has many pixels.
    drawn = page.locator(".history .uplot").nth(1).evaluate(READ_COLUMNS)
    # The axis has 360 minutes: the outage lasts from 160 to 260.
    inside = [each for each in drawn if 165 / 360 < each < 255 / 360]
    before = [each for each in drawn if 65 / 360 < each < 155 / 360]
    after = [each for each in drawn if 265 / 360 < each < 355 / 360]
    assert inside == []
    assert len(before) > 200
    assert len(after) > 200
    expect(page.locator(".history .uplot").first.locator(".mark.run")).to_have_text("restart")


def test_new_minutes_come_into_the_plots_and_a_refresh_leaves_them(
    page: Page, query: RunningQuery
) -> None:
    page.clock.install()
    open_page(page, query)
    page.locator(".history .uplot").first.evaluate("plot => plot.dataset.kept = 'yes'")
    query.node.act_on_stream(query.id, "pause")
    query.report(StreamState.STOPPED)
    make_older(query.node.database, query.id, 80)
    page.clock.run_for(40_000)
    expect(page.locator(".summary")).to_contain_text("paused")
    first = page.locator(".history .uplot").first
    expect(first.locator(".band").get_by_text("paused")).to_have_count(1)
    assert first.get_attribute("data-kept") == "yes"


def test_a_picked_batch_stays_picked_while_the_page_is_refreshed(
    page: Page, query: RunningQuery
) -> None:
    page.clock.install()
    slow = make_batch(7).model_copy(
        update={"milliseconds": 9000, "parts": {"add_batch": 8000}, "at": "2026-01-01T00:00:07Z"}
    )
    batches = [make_batch(number, milliseconds=100) for number in range(7)]
    query.report(StreamState.RUNNING, last_batch=7, progress=[*batches, slow])
    open_page(page, query)
    page.get_by_role("link", name="Batch 7 at").click()
    expect(page.locator("#picked")).to_contain_text("Batch 7")
    expect(page.locator("#picked")).to_contain_text("add batch8 s")
    assert page.url.endswith("?batch=7#batches")
    page.mouse.move(0, 0)
    query.report(StreamState.RUNNING, last_batch=8, progress=[make_batch(8, milliseconds=110)])
    page.clock.run_for(20_000)
    expect(page.get_by_role("link", name="Batch 8 at")).to_have_count(1)
    expect(page.locator("#picked")).to_contain_text("add batch8 s")
    expect(page.locator(".bars a.picked")).to_have_attribute(
        "aria-label", re.compile("Batch 7.*slow")
    )


@pytest.fixture
def asked(page: Page) -> list[Request]:
    """Return the requests for the history."""
    requests: list[Request] = []

    def note(request: Request) -> None:
        if request.url.endswith("/history"):
            requests.append(request)

    page.on("request", note)
    page.clock.install()
    page.add_init_script("Math.random = () => 0.8")
    return requests


def await_answer(request: Request) -> None:
    """Wait until a page has the answer: it asks no further question before."""
    response = request.response()
    assert response is not None
    response.finished()


def open_until_followed(page: Page, query: RunningQuery) -> None:
    """Open a page, and let it ask again as it does when it begins to follow the events.

    Its time then passes by the calls of the test alone.
    """
    page.add_init_script(
        "document.addEventListener('headrace:change',"
        " () => document.documentElement.setAttribute('data-followed', ''))"
    )
    open_page(page, query)
    expect(page.locator("html[data-followed]")).to_have_count(1)
    pause_clock(page)
    page.evaluate(CHANGE)
    with page.expect_response("**/history") as answer:
        page.clock.run_for(20_000)
    answer.value.finished()


def test_plots_ask_in_turn_with_refreshes_and_not_all_at_the_same_time(
    page: Page, query: RunningQuery, asked: list[Request]
) -> None:
    open_until_followed(page, query)
    page.evaluate(CHANGE)
    with page.expect_response("**/history") as answer:
        page.clock.run_for(7_000)
    answer.value.finished()
    before = len(asked)
    page.clock.run_for(31_000)
    assert len(asked) == before
    with page.expect_request("**/history"):
        page.clock.run_for(12_000)
    # The header by which requests take a turn.
    assert {request.headers.get("hx-request") for request in asked} == {"true"}


def test_plots_ask_less_often_while_many_pages_are_open(
    page: Page, query: RunningQuery, asked: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "_PAUSE_PER_STREAM", 100)
    open_until_followed(page, query)
    # A refresh of the page has brought the pause, which acts from the next request on.
    expect(page.locator("#live")).to_have_attribute("data-live-seconds", re.compile("00"))
    before = len(asked)
    for _ in range(180):
        page.clock.run_for(1_000)
        if len(asked) > before:
            break
    else:
        pytest.fail("The plots asked for no history in 3 min.")
    await_answer(asked[-1])
    before = len(asked)
    page.evaluate(CHANGE)
    page.clock.run_for(75_000)
    assert len(asked) == before
    with page.expect_request("**/history"):
        page.clock.run_for(30_000)


def test_each_plot_has_its_numbers_as_text(page: Page, query: RunningQuery) -> None:
    open_page(page, query)
    plots = page.locator(".history canvas")
    expect(plots).to_have_count(4)
    for plot in plots.all():
        expect(plot).to_have_role("img")
    label = re.compile(
        r"^Rows per second, \d\d:\d\d to \d\d:\d\d UTC\. arrived: last [\d.]+/s, most 50/s; "
        r"while a batch ran: last 2,000/s, most 2,000/s\. Times without a run: 2\.$"
    )
    expect(plots.first).to_have_attribute("aria-label", label)


def test_the_cause_of_a_gap_is_shown_at_the_pointer(page: Page, query: RunningQuery) -> None:
    open_page(page, query)
    over = page.locator(".history .u-over").first
    box = over.bounding_box()
    assert box is not None
    # The outage lasts from 160 to 260 of 360 minutes.
    over.hover(position={"x": box["width"] * 210 / 360, "y": 20})
    expect(over).to_have_attribute("title", "driver down: driver_lost")
    expect(page.locator(".history .u-legend").first).to_contain_text("driver down: driver_lost")
    over.hover(position={"x": box["width"] * 300 / 360, "y": 20})
    expect(over).to_have_attribute("title", "")


def test_the_strip_of_batches_is_one_stop_of_the_tab_key(page: Page, query: RunningQuery) -> None:
    batches = [make_batch(number, milliseconds=100) for number in range(5)]
    query.report(StreamState.RUNNING, last_batch=4, progress=batches)
    open_page(page, query)
    strip = page.get_by_role("group", name="Duration of the last 5 batches")
    expect(strip.locator("a[tabindex='0']")).to_have_count(1)
    strip.locator("a[tabindex='0']").focus()
    focused = page.locator(".bars a:focus")
    expect(focused).to_have_attribute("id", "bar-4")
    for key, batch in (("ArrowRight", 4), ("ArrowLeft", 3), ("Home", 0), ("End", 4)):
        page.keyboard.press(key)
        expect(focused).to_have_attribute("id", f"bar-{batch}")
        expect(strip.locator("a[tabindex='0']")).to_have_attribute("id", f"bar-{batch}")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    expect(page.locator(".bars :focus")).to_have_count(0)
    page.keyboard.press("Shift+Tab")
    # The page may have been refreshed while the focus was elsewhere.
    expect(focused).to_have_count(1)
    page.keyboard.press("Home")
    expect(focused).to_have_attribute("id", "bar-0")
    page.keyboard.press("Enter")
    expect(page.locator("#picked")).to_contain_text("Batch 0")

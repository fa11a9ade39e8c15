"""The plots of a stream in a browser: gaps, bands, marks, and the batch that a user has picked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, expect
from tests.support.chromium import watch
from tests.support.in_process_node import InProcessNode
from tests.support.running_query import RunningQuery, make_batch
from tests.support.stream_minutes import add_minutes, make_older

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

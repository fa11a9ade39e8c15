"""The pages in Chromium: accessibility, the content policy, small screens, the keyboard."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect
from sqlalchemy import update
from tests.support.batch_jobs import BatchJob
from tests.support.chromium import watch
from tests.support.executions import make_execution, make_stage
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.made_results import inline_result
from tests.support.running_query import ERROR, RunningQuery
from tests.support.views import ViewWriter
from tests.support.webhooks import insert_message, insert_webhook

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState, StreamState
from headrace.model.run import RunRetries
from headrace.store.tables import statements as statement_table

pytestmark = pytest.mark.browser

AXE = Path(".tools/axe/node_modules/axe-core/axe.min.js")
LONG = "a_very_long_name_of_a_table_without_any_space_" * 5
HOSTILE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
WIDTHS = {"wide": 1280, "narrow": 390}


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Serve a node with one object of each kind, and return the links of its pages."""
    with serve_node(make_settings(tmp_path_factory.mktemp("web") / "home")) as node:
        yield {name: f"{node.address}/ui/{link}" for name, link in fill_node(node).items()}


def fill_node(node: InProcessNode) -> dict[str, str]:
    """Create objects with usual, long and hostile texts, and return the links of their pages."""
    # Its driver claims the one statement that waits.
    job_id, failed, backfill = fill_job(node)
    session, driver = node.start_session(name="etl")
    columns = [("id", "long"), (HOSTILE, "string"), (LONG, "string")]
    rows = [[number, None if number % 3 else HOSTILE, LONG] for number in range(50)]
    good = str(node.submit(f"SELECT id,\n  '{HOSTILE}',\n  {LONG}\nFROM t", session=session)["id"])
    driver.claim()
    driver.succeed(good, inline_result(columns, rows, truncated=True))
    bad = str(node.submit(f"SELECT a,\n  {LONG}", session=session)["id"])
    driver.claim()
    failure = Failure(code="statement_failed", message=f"{HOSTILE} {LONG}", line=2, column=3)
    driver.report_end(bad, StatementState.FAILED, failure=failure)
    running = str(node.submit("DROP TABLE a", session=session)["id"])
    driver.claim()
    waiting = str(node.submit("DROP TABLE b", session=session)["id"])
    query = RunningQuery(node)
    query.report(
        StreamState.BACKING_OFF, failures=2, delay_seconds=60.0, retry_seconds=60.0, error=ERROR
    )
    view = ViewWriter(node, properties="WITH (auto_refresh = true)").make()
    return {
        "statements": "statements",
        "no statements": "statements?state=cancelled",
        "success": f"statements/{good}",
        "failed": f"statements/{bad}",
        "running": f"statements/{running}",
        "waiting": f"statements/{waiting}",
        "sessions": "sessions",
        "session": f"sessions/{session}",
        "editor": f"editor?run={good}&run={bad}",
        "streams": "streams?state=all",
        "stream": f"streams/{query.id}",
        "jobs": "jobs",
        "batch job": f"jobs/{job_id}",
        "runs": f"runs?job={job_id}",
        "no runs": "runs?state=skipped",
        "failed run": f"runs/{failed}",
        "backfill": f"backfills/{backfill}",
        "views": "views",
        "view": f"views/{view.describe()['id']}",
        "webhooks": "webhooks",
        "webhook": f"webhooks/{fill_webhook(node)}",
        "catalog": "catalog",
        "table": "catalog/table?schema=default&table=planes",
        "nodes": "nodes",
        "drafts": "editor/drafts",
        "missing": "statements/st_unknown",
    }


def fill_job(node: InProcessNode) -> tuple[str, str, str]:
    """Create a job with a run that has failed, a gap and a backfill. Return their ids."""
    job = BatchJob(node, retries=RunRetries(max_attempts=0))
    run_id = str(job.call("jobs/load/runs", at="2026-01-05T01:00:00Z")["id"])
    job.next_statement()
    job.driver.fail(Failure(code="spark_error", message=f"{HOSTILE} {LONG}"))
    job.await_end(run_id)
    interval = {"from": "2026-01-05T05:00:00Z", "to": "2026-01-05T08:00:00Z"}
    backfill = str(job.call("jobs/load/backfills", **interval)["id"])
    return job.id, run_id, backfill


def fill_webhook(node: InProcessNode) -> str:
    """Create a webhook whose endpoint has refused a message. Return its id."""
    webhook = insert_webhook(node, "on-call", "https://hooks.example.com/")
    insert_message(node, webhook, "rn_0193f4a8c2d17b3e9f60a1b2c3d4e5f6", ("sent", 204, ""))
    insert_message(node, webhook, f"sq_{'0' * 32}/{LONG}", ("waiting", 503, f"{HOSTILE} {LONG}"))
    return webhook


PAGES = [
    *("statements", "no statements", "success", "failed", "running", "waiting"),
    *(
        "editor",
        "session",
        "sessions",
        "streams",
        "stream",
        "jobs",
        "batch job",
        "runs",
        "no runs",
        "failed run",
        "backfill",
        "views",
        "view",
        "webhooks",
        "webhook",
        "catalog",
        "table",
        "nodes",
        "drafts",
        "missing",
    ),
]
LISTS = (
    *("statements", "sessions", "streams", "runs", "backfill", "views", "nodes", "drafts"),
    *("webhooks", "webhook"),
)
OUTSIDE = """row => [...row.cells].filter(cell => cell.childNodes.length).map(cell => {
    const {left, right} = cell.getBoundingClientRect();
    const label = getComputedStyle(cell, "::before").content;
    const isShown = left >= 0 && right <= innerWidth && !["none", '""'].includes(label);
    return isShown ? "" : `${label} ${left} ${right} ${cell.outerHTML}`;
}).filter(Boolean)"""
"""Returns the cells of a row that are not within the screen, or have no label."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=list(WIDTHS))
def test_every_page_can_be_read_by_all(
    chromium: Chromium, links: dict[str, str], width: int, scheme: Any
) -> None:
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    with context:
        page = context.new_page()
        reports = watch(page)
        for name in PAGES:
            response = page.goto(links[name])
            assert response is not None
            assert response.ok == (name != "missing"), name
            assert "broken" not in page.title()
            overflow = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert overflow <= 0, f"{name} scrolls sideways by {overflow} pixels"
            page.evaluate(AXE.read_text())
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            problems = [
                (each["id"], [node["html"] for node in each["nodes"]])
                for each in found["violations"]
            ]
            assert problems == [], name
        # The browser writes the answer 404 of the missing page to its console.
        [missing] = reports
        assert "404" in missing


def test_a_row_of_a_list_is_a_card_on_a_phone(chromium: Chromium, links: dict[str, str]) -> None:
    with chromium.new_context(viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        for name in LISTS:
            page.goto(links[name])
            expect(page.locator("table.cards thead").first).not_to_be_in_viewport()
            rows = page.locator("table.cards tbody tr")
            assert rows.count() >= 1, name
            for row in rows.all():
                assert row.evaluate("row => getComputedStyle(row).display") == "block", name
                assert row.evaluate(OUTSIDE) == [], name
                assert row.locator(".state").count() == 1, name
                # A node has no page, and so nothing to do.
                assert row.locator("a").count() >= 1 or name == "nodes", name
            assert page.locator("table.cards tbody :is(time, [data-since])").count() or name in {
                "streams",
                "views",
            }


def test_states_are_told_by_word_and_shape_where_no_colour_is_seen(
    chromium: Chromium, links: dict[str, str]
) -> None:
    with chromium.new_context(forced_colors="active") as context:
        page = context.new_page()
        told: dict[str, tuple[str, str]] = {}
        for name in ("statements", "sessions", "streams", "runs", "views", "nodes"):
            page.goto(links[name])
            for state in page.locator("#live .state").all():
                shape, _, word = state.inner_text().partition(" ")
                told[str(state.get_attribute("class"))] = shape, word
            # The user's own colours replace those of the states.
            colours = page.evaluate(
                "[...document.querySelectorAll('#live .state')].map(e => getComputedStyle(e).color)"
            )
            assert len(set(colours)) == 1, name
        assert len(told) >= 6
        assert all(len(shape) == 1 and word for shape, word in told.values())
        assert len({word for _shape, word in told.values()}) == len(told)
        page.goto(links["success"])
        swatches = page.evaluate(
            "[...document.querySelectorAll('.phase-list .swatch')]"
            ".map(e => getComputedStyle(e).backgroundColor)"
        )
        assert len(swatches) == len(set(swatches)) >= 2


def test_phases_are_apart_for_those_who_see_no_colours(
    chromium: Chromium, start_node: StartNode
) -> None:
    node = start_node()
    session, driver = node.start_session()
    statement = node.submit("SELECT 1", session=session)["id"]
    driver.claim()
    driver.succeed(statement, inline_result([("n", "long")], [[1]]))
    stage = make_stage()
    assert stage.started_at is not None
    assert stage.ended_at is not None
    # Each of the five phases takes a while.
    begin, end = stage.started_at, stage.ended_at
    times = {
        "created_at": begin - timedelta(seconds=9),
        "launched_at": begin - timedelta(seconds=6),
        "started_at": begin - timedelta(seconds=3),
        "ended_at": end + timedelta(seconds=3),
    }
    with node.database.write("test") as tx:
        tx.execute(update(statement_table).values(**times))
    driver.report_executions({statement: make_execution(stages=[stage])})
    with chromium.new_context() as context:
        page = context.new_page()
        devtools = context.new_cdp_session(page)
        devtools.send("Emulation.setEmulatedVisionDeficiency", {"type": "achromatopsia"})
        page.goto(f"{node.address}/ui/statements/{statement}")
        expect(page.locator(".phase-list li")).to_have_text(
            [
                *("waiting: 3 s", "starting: 3 s", "analysis: 3 s", "Spark stages: 3 s"),
                "commit and result: 3 s",
            ]
        )
        picture = base64.b64encode(page.locator(".phases").screenshot()).decode()
        canvas = context.new_page()
        pixels = canvas.evaluate(READ_MIDDLE_ROW, picture)
    greys = [(red + green + blue) // 3 for red, green, blue in pixels]
    assert all(max(pixel) - min(pixel) <= 3 for pixel in pixels)
    # Four gaps as light as the page divide the five parts.
    is_gap = [grey > 235 for grey in greys[5:-5]]
    begins = [now for before, now in pairwise(is_gap) if now and not before]
    assert len(begins) == 4


READ_MIDDLE_ROW = """async picture => {
    const image = new Image();
    image.src = `data:image/png;base64,${picture}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const {data} = context.getImageData(0, image.height >> 1, image.width, 1);
    return Array.from({length: image.width}, (_, x) => [...data.slice(4 * x, 4 * x + 3)]);
}"""
"""Returns the colours of the pixels in the middle row of a picture."""


def test_the_keyboard_is_enough_to_sign_in_and_to_stop_a_statement(
    chromium: Chromium, start_node: StartNode
) -> None:
    node = start_node(token="secret")
    headers = {"Authorization": "Bearer secret"}
    body = {"statement": "SELECT 1"}
    submitted = node.http.post("/api/v1/statements", json=body, headers=headers).json()
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{node.address}/ui/statements/{submitted['id']}")
        page.get_by_label("Token").focus()
        page.keyboard.type("secret")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/statements/{submitted['id']}")
        page.get_by_role("button", name="Stop").focus()
        # The page that follows the statement may show its end before the answer has replaced it.
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.get_by_text("cancelled").first.wait_for()
        page.get_by_role("button", name="Sign out").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/sign-in")
        assert context.cookies() == []
        page.go_back()
        page.get_by_label("Token").wait_for()


def test_the_pages_need_no_script(chromium: Chromium, links: dict[str, str]) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(links["statements"])
        page.get_by_label("State").select_option("failed")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**state=failed**")
        rows = page.locator("tbody tr").all_inner_texts()
        assert rows
        assert all("failed" in row for row in rows)


def test_times_are_the_same_text_in_every_zone_of_a_browser(
    chromium: Chromium, start_node: StartNode
) -> None:
    node = start_node()
    session, driver = node.start_session()
    statement = node.submit("SELECT 1", session=session)["id"]
    driver.claim()
    columns = [("t", "timestamp"), ("n", "timestamp_ntz"), ("d", "date")]
    at = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    driver.succeed(statement, inline_result(columns, [[at, at.replace(tzinfo=None), at.date()]]))
    shown = set()
    for zone in ("Asia/Kathmandu", "America/St_Johns", "UTC"):
        with chromium.new_context(timezone_id=zone) as context:
            page = context.new_page()
            page.goto(f"{node.address}/ui/statements/{statement}")
            # The script of the page has run.
            page.locator("#pause").wait_for()
            cells = page.locator(".grid td").all_inner_texts()
            times = page.locator("#live time").all_inner_texts()
            assert all(each.endswith(" UTC") for each in times)
            shown.add((tuple(cells), tuple(times)))
    [(cells, _times)] = shown
    assert cells == ("2026-03-29T01:30:00.000000Z", "2026-03-29T01:30:00.000000", "2026-03-29")

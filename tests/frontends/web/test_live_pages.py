"""Pages that follow their objects: what they fetch, leave in place, and announce."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, expect
from tests.support.chromium import pause_clock, watch
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.running_query import RunningQuery, make_batch
from tests.support.scripted_driver import ScriptedDriver

from headrace.frontends.web import cluster_pages, rendering
from headrace.model.lifecycle import StreamState

pytestmark = pytest.mark.browser


@pytest.fixture
def context(chromium: Chromium) -> Iterator[BrowserContext]:
    with chromium.new_context() as context:
        yield context


@pytest.fixture
def session(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    return node.start_session()


def submit(node: InProcessNode, session: str, text: str = "SELECT 1") -> str:
    return str(node.submit(text, session=session)["id"])


def show(context: BrowserContext, node: InProcessNode, link: str) -> Page:
    page = context.new_page()
    page.goto(f"{node.address}/ui/{link}")
    return page


def show_until_followed(context: BrowserContext, node: InProcessNode, link: str) -> Page:
    """Open a page, and wait until it has asked again as it does when it follows the events."""
    page = context.new_page()
    with page.expect_response(lambda response: "hx-request" in response.request.headers):
        page.goto(f"{node.address}/ui/{link}")
    return page


def count_refreshes(page: Page) -> list[str]:
    """Return a list that grows by each request for a part of the page."""
    seen: list[str] = []

    def note(request: Any) -> None:
        if request.headers.get("hx-request"):
            seen.append(request.url)

    page.on("request", note)
    return seen


def test_a_statement_is_followed_to_its_end(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    first, second = submit(node, session_id), submit(node, session_id, "DROP TABLE t")
    page = context.new_page()
    reports = watch(page)
    page.goto(f"{node.address}/ui/statements/{second}")
    expect(page.locator(".summary")).to_contain_text("waiting")
    driver.claim()
    driver.succeed(first)
    driver.claim()
    expect(page.locator(".summary")).to_contain_text("launched")
    driver.succeed(second, inline_result([("n", "long")], [[42]]))
    expect(page.locator(".summary")).to_contain_text("success")
    expect(page.locator(".grid td")).to_have_text(["42"])
    assert reports == []


def test_a_list_keeps_its_rows_and_counts_those_that_are_new(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    first, second = submit(node, session_id), submit(node, session_id)
    page = show(context, node, "statements")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    third = submit(node, session_id)
    driver.claim()
    driver.succeed(first)
    expect(page.locator(f"#{first}")).to_contain_text("success")
    assert [row.get_attribute("id") for row in rows.all()] == [second, first]
    page.get_by_role("link", name="1 new statement: show").click()
    expect(rows).to_have_count(3)
    assert rows.first.get_attribute("id") == third


def test_what_the_user_has_opened_and_chosen_outlives_an_update(
    node: InProcessNode, context: BrowserContext
) -> None:
    query = RunningQuery(node)
    query.report(StreamState.RUNNING, last_batch=0, progress=[make_batch(0)])
    page = show(context, node, f"streams/{query.id}")
    page.get_by_text("Numbers", exact=True).click()
    page.get_by_role("button", name="Stop").focus()
    page.mouse.move(0, 0)
    for failures in range(1, 4):
        query.report(
            StreamState.BACKING_OFF, failures=failures, delay_seconds=60.0, retry_seconds=60.0
        )
        expect(page.locator(".summary")).to_contain_text(f"Retry {failures} ")
        query.report(StreamState.RUNNING, last_batch=1, progress=[make_batch(1)])
        expect(page.locator(".summary")).to_contain_text("running")
    expect(page.get_by_role("cell", name="100", exact=True)).to_be_visible()
    assert page.evaluate("document.activeElement.textContent") == "Stop"


def test_nothing_moves_while_the_user_presses_or_selects(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    statement = submit(node, session_id)
    page = show_until_followed(context, node, f"statements/{statement}")
    refreshes = count_refreshes(page)
    heading = page.get_by_role("heading", name="SQL")
    heading.hover()
    page.mouse.down()
    driver.claim()
    page.wait_for_timeout(2500)  # two times in which the page would be updated
    assert refreshes == []
    expect(page.locator(".summary")).to_contain_text("waiting")
    page.mouse.up()
    expect(page.locator(".summary")).to_contain_text("launched")

    page.evaluate("getSelection().selectAllChildren(document.querySelector('pre.sql'))")
    driver.succeed(statement)
    page.wait_for_timeout(2500)
    assert page.evaluate("getSelection().toString()").strip() == "SELECT 1"
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator(".summary")).to_contain_text("success")


def test_many_changes_cost_few_requests_and_none_while_the_page_is_hidden_or_paused(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    page = show(context, node, "statements")
    page.mouse.move(0, 0)
    refreshes = count_refreshes(page)

    def change(times: int) -> None:
        for _time in range(times):
            driver_statement = submit(node, session_id)
            driver.claim()
            driver.succeed(driver_statement)
            page.wait_for_timeout(100)

    began = time.monotonic()
    change(60)
    # At most one in three seconds, and one that had been due before.
    assert 1 <= len(refreshes) <= (time.monotonic() - began) / 3 + 2
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(500)
    seen = len(refreshes)
    change(35)
    assert len(refreshes) == seen
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_text("new statements: show")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    seen = len(refreshes)
    change(35)
    assert len(refreshes) == seen


def test_running_rows_cost_few_requests_in_a_minute(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    statements = [submit(node, session_id) for _number in range(50)]
    page = context.new_page()
    page.clock.install()
    page.goto(f"{node.address}/ui/statements")
    page.mouse.move(0, 0)
    expect(page.locator("[data-since]")).to_have_count(50)
    pause_clock(page)
    refreshes = count_refreshes(page)
    for second in range(60):
        if second % 3 == 0:
            driver.claim()
            driver.succeed(statements[second // 3])
        page.clock.run_for(1000)
    assert 2 <= len(refreshes) <= 20
    page.clock.resume()
    # The rows count their seconds themselves.
    expect(page.locator(f"#{statements[-1]} [data-since]")).to_contain_text("min")


def test_tabs_share_one_connection_for_events(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    statement = submit(node, session_id)
    connections: list[str] = []
    context.on(
        "request",
        lambda request: connections.append(request.url) if "/ui/events" in request.url else None,
    )
    # By HTTP/1.1, a browser has six connections to a host.
    pages = [show(context, node, f"statements/{statement}") for _number in range(10)]
    driver.claim()
    driver.succeed(statement)
    for page in pages:
        expect(page.locator(".summary")).to_contain_text("success")
    assert len(connections) == 1
    # Another tab takes over.
    second = submit(node, session_id)
    pages[0].close()
    pages[1].goto(f"{node.address}/ui/statements/{second}")
    driver.claim()
    driver.succeed(second)
    expect(pages[1].locator(".summary")).to_contain_text("success")


@pytest.mark.parametrize("cut", ["streams end", "streams are refused", "no locks"])
def test_a_page_without_a_lasting_connection_follows(
    node: InProcessNode,
    context: BrowserContext,
    session: tuple[str, ScriptedDriver],
    monkeypatch: pytest.MonkeyPatch,
    cut: str,
) -> None:
    session_id, driver = session
    statement = submit(node, session_id)
    if cut == "streams end":
        monkeypatch.setattr(cluster_pages, "_STREAM_SECONDS", 0.2)
    elif cut == "streams are refused":
        context.route("**/ui/events", lambda route: route.fulfill(status=503))
    else:
        context.add_init_script("Object.defineProperty(navigator, 'locks', {value: undefined})")
    page = show(context, node, f"statements/{statement}")
    page.wait_for_timeout(500)
    driver.claim()
    expect(page.locator(".summary")).to_contain_text("launched")
    driver.succeed(statement)
    expect(page.locator(".summary")).to_contain_text("success")


def test_a_page_says_that_the_node_is_silent_and_catches_up(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    statement = submit(node, session_id)
    page = show(context, node, f"statements/{statement}")
    expect(page.locator("#age")).to_have_text(re.compile(r"Updated [1-9]\d* s ago\."))
    context.set_offline(True)
    driver.claim()
    expect(page.get_by_role("alert")).to_contain_text("No answer since", timeout=60_000)
    context.set_offline(False)
    expect(page.locator(".summary")).to_contain_text("launched", timeout=60_000)
    expect(page.locator("#silence")).to_be_hidden()


def test_the_end_of_a_sign_in_leads_to_the_form_and_back(
    context: BrowserContext, start_node: StartNode
) -> None:
    node = start_node(token="secret")
    headers = {"Authorization": "Bearer secret"}
    body = {"statement": "SELECT 1"}
    statement = node.http.post("/api/v1/statements", json=body, headers=headers).json()["id"]
    page = show(context, node, f"statements/{statement}")
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/statements/{statement}")
    page.mouse.move(0, 0)
    context.clear_cookies()
    node.http.delete(f"/api/v1/statements/{statement}", headers=headers)
    page.get_by_label("Token").wait_for()
    assert page.locator("#live").count() == 0
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/statements/{statement}")


def test_every_page_that_follows_leads_to_the_sign_in_when_it_has_ended(
    context: BrowserContext, start_node: StartNode
) -> None:
    node = start_node(token="secret")
    node.http.headers["Authorization"] = "Bearer secret"
    query = RunningQuery(node)
    links = ["statements", "sessions", "streams?state=all", "jobs", "views", "nodes"]
    links += [f"statements/{query.statement}", f"sessions/{query.session}", f"streams/{query.id}"]
    page = show(context, node, "statements")

    def sign_in(link: str) -> None:
        page.get_by_label("Token").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{node.address}/ui/{link}")

    sign_in("statements")
    for link in links:
        page.goto(f"{node.address}/ui/{link}")
        page.locator("#live").wait_for()
        page.mouse.move(0, 0)
        context.clear_cookies()
        page.evaluate("document.getElementById('live').dispatchEvent(new Event('refresh'))")
        page.get_by_label("Token").wait_for()
        assert page.locator("#live, header nav").count() == 0, link
        sign_in(link)


def test_a_page_that_follows_does_not_extend_the_sign_in(
    context: BrowserContext, start_node: StartNode
) -> None:
    node = start_node(token="secret")
    node.http.headers["Authorization"] = "Bearer secret"
    page = show(context, node, "statements")
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/statements")
    cookies = context.cookies()

    def read_ends() -> list[str]:
        tokens = node.http.get("/api/v1/tokens").json()["items"]
        return [each["expires_at"] for each in tokens if each["name"].startswith("browser:")]

    ends = read_ends()
    assert len(ends) == 1
    page.wait_for_timeout(1100)  # the ends of sign-ins have seconds
    with page.expect_response(lambda response: "hx-request" in response.request.headers) as answer:
        node.submit("SELECT 1")
    assert "set-cookie" not in answer.value.headers
    assert context.cookies() == cookies
    assert read_ends() == ends


def test_rows_are_drawn_as_charts(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    columns = [("name", "string"), ("n", "long"), ("d", "decimal(10,2)"), ("t", "string")]
    rows = [[f"r{number}", number if number % 3 else None, None, "x"] for number in range(20)]
    statement = submit(node, session_id)
    driver.claim()
    driver.succeed(statement, inline_result(columns, rows))
    page = context.new_page()
    reports = watch(page)
    page.goto(f"{node.address}/ui/statements/{statement}")
    choice = page.get_by_label("Chart of these rows")
    for kind in ("bars", "lines", "points"):
        choice.select_option(kind)
        expect(page.locator("#chart canvas")).to_have_count(1)
        expect(page.locator("#chart .u-legend")).to_contain_text("n")
    choice.select_option("none")
    expect(page.locator("#chart canvas")).to_have_count(0)

    texts = submit(node, session_id)
    driver.claim()
    driver.succeed(texts, inline_result([("a", "string"), ("b", "string")], [["x", "y"]]))
    page.goto(f"{node.address}/ui/statements/{texts}")
    page.get_by_label("Chart of these rows").select_option("bars")
    expect(page.locator("#chart")).to_contain_text("No column behind the first has numbers.")
    assert reports == []


def test_a_page_announces_that_the_node_has_another_version(
    node: InProcessNode,
    context: BrowserContext,
    session: tuple[str, ScriptedDriver],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session_id, driver = session
    submit(node, session_id)
    page = show(context, node, "statements")
    monkeypatch.setattr(rendering, "__version__", "9.9.9")
    driver.claim()
    expect(page.locator("#new-version")).to_contain_text("The node has a new version.")


def test_a_refresh_that_changes_nothing_costs_no_body_and_no_swap(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    submit(node, session_id)
    driver.claim()
    context.clock.install()
    page = show_until_followed(context, node, f"statements?session={session_id}")
    page.mouse.move(0, 0)
    page.evaluate("document.querySelector('#live td').dataset.kept = 'kept'")
    page.clock.run_for(60_000)
    expect(page.locator("#age")).to_have_text(re.compile(r"Updated [4-9]\d s ago\."))
    # A statement that the filter of the page leaves out is no change.
    with page.expect_response(lambda response: "first=" in response.url) as answer:
        node.submit("SELECT 2", session=node.session())
    assert answer.value.status == 304
    assert answer.value.headers.get("content-length", "0") == "0"
    expect(page.locator("#age")).to_have_text(re.compile(r"Updated [1-3]?\d s ago\."))
    assert page.evaluate("document.querySelector('#live td').dataset.kept") == "kept"
    # The next change is shown.
    submit(node, session_id)
    expect(page.get_by_text("1 new statement: show")).to_be_visible()

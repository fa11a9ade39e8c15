"""Drafts of the editor in Chromium: they outlive a reload, a second tab and the sign-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, expect
from tests.support.chromium import watch
from tests.support.in_process_node import InProcessNode, StartNode

pytestmark = pytest.mark.browser


@pytest.fixture
def context(chromium: Chromium) -> Iterator[BrowserContext]:
    with chromium.new_context(viewport={"width": 1280, "height": 1200}) as context:
        yield context


def open_editor(context: BrowserContext, link: str) -> Page:
    page = context.new_page()
    page.goto(link)
    expect(page.locator(".cm-content")).to_be_visible()
    return page


def type_sql(page: Page, text: str) -> None:
    """Replace the text of the editor."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def expect_saved(page: Page) -> None:
    expect(page.locator("#draft-state")).to_have_text("Saved.")
    page.wait_for_url("**draft=dr_**")


def test_a_draft_outlives_a_reload_and_opens_in_another_browser(
    chromium: Chromium, context: BrowserContext, node: InProcessNode
) -> None:
    page = open_editor(context, f"{node.address}/ui/editor")
    reports = watch(page)
    type_sql(page, "SELECT 'kept'")
    expect_saved(page)
    # What is typed right before a reload is kept, too.
    page.keyboard.insert_text(" AS late")
    page.reload()
    expect(page.locator(".cm-content")).to_have_text("SELECT 'kept' AS late")
    with chromium.new_context() as other:
        second = open_editor(other, f"{node.address}/ui/editor")
        second.locator("#drawer summary").click()
        second.locator("#drawer a", has_text="SELECT 'kept'").click()
        expect(second.locator(".cm-content")).to_have_text("SELECT 'kept' AS late")
        second.locator("#drawer summary").click()
        delete = second.get_by_role("button", name="Delete the draft SELECT 'kept'")
        delete.click()
        second.get_by_role("link", name="No, keep it").click()
        delete.click()
        expect(second.locator("#drawer")).to_contain_text("SELECT 'kept' AS late")
        second.get_by_role("button", name="Delete the draft", exact=True).click()
        expect(second.locator("#drawer")).to_contain_text("You have no drafts.")
        expect(second.locator(".cm-content")).to_have_text("SELECT 'kept' AS late")
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0
    assert reports == []


def test_two_tabs_with_one_draft_keep_both_texts(
    context: BrowserContext, node: InProcessNode
) -> None:
    first = open_editor(context, f"{node.address}/ui/editor")
    type_sql(first, "SELECT 0")
    expect_saved(first)
    second = open_editor(context, first.url)
    type_sql(second, "SELECT 'second'")
    expect_saved(second)
    type_sql(first, "SELECT 'first'")
    expect(first.locator("#draft-state")).to_contain_text("Both texts are kept")
    assert first.url != second.url
    for page, text in ((first, "SELECT 'first'"), (second, "SELECT 'second'")):
        page.reload()
        expect(page.locator(".cm-content")).to_have_text(text)


def test_a_cookie_that_dies_costs_no_text_and_the_run_is_sent_once(
    context: BrowserContext, start_node: StartNode
) -> None:
    node = start_node(token="secret")
    page = context.new_page()
    page.goto(f"{node.address}/ui/editor")
    sign_in(page)
    type_sql(page, "SELECT 1")
    expect_saved(page)
    context.clear_cookies()
    page.keyboard.insert_text(" + 2")
    expect(page.locator("#signed-out")).to_be_visible()
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Home")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Sign in beside").click()
    sign_in(opened.value)
    expect(page.locator("#signed-out")).to_be_hidden()
    expect(page.locator("#runs li")).to_have_count(1)
    expect(page.locator("#draft-state")).to_have_text("Saved.")
    headers = {"Authorization": "Bearer secret"}
    [statement] = node.http.get("/api/v1/statements", headers=headers).json()["items"]
    assert statement["statement"] == "SELECT 1 + 2"
    # The cursor is where it was, at the begin of the line.
    page.locator(".cm-content").focus()
    page.keyboard.insert_text("-- ")
    expect(page.locator(".cm-content")).to_have_text("-- SELECT 1 + 2")


def test_a_run_that_waits_for_a_sign_in_can_be_stopped(
    context: BrowserContext, start_node: StartNode
) -> None:
    node = start_node(token="secret")
    page = context.new_page()
    page.goto(f"{node.address}/ui/editor")
    sign_in(page)
    type_sql(page, "SELECT 1")
    expect_saved(page)
    context.clear_cookies()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#signed-out")).to_be_visible()
    page.locator("#stop").click()
    expect(page.locator("#said")).to_contain_text("It was not sent")
    expect(page.locator("#stop")).to_be_hidden()
    headers = {"Authorization": "Bearer secret"}
    assert node.http.get("/api/v1/statements", headers=headers).json()["items"] == []


FAST = """
const later = window.setTimeout;
window.setTimeout = (call, milliseconds, ...rest) => later(call, milliseconds / 50, ...rest);
"""
"""Makes the pauses of the editor 50 times as short."""


def count_requests(page: Page, path: str) -> list[str]:
    """Return the methods of the requests of a page from now on whose link contains a text."""
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method) if path in request.url else None)
    return sent


@pytest.mark.parametrize(
    ("status", "code", "is_repeated"),
    [
        (403, "not_permitted", False),
        (403, "foreign_origin", False),
        (413, "body_too_large", False),
        (429, "too_many", True),
        (500, "internal", True),
    ],
)
def test_a_save_that_the_node_refuses_is_not_repeated(
    context: BrowserContext, node: InProcessNode, status: int, code: str, is_repeated: bool
) -> None:
    context.add_init_script(FAST)
    page = open_editor(context, f"{node.address}/ui/editor")
    body = {"code": code, "message": "For the test."}
    page.route("**/ui/editor/drafts/*", lambda route: route.fulfill(status=status, json=body))
    saves, pages = count_requests(page, "/drafts/dr_"), count_requests(page, "/editor/sql")
    type_sql(page, "SELECT 1")
    state = page.locator("#draft-state")
    expect(state).to_contain_text(f"Not saved: [{code}] For the test.")
    expect(state).to_contain_text("soon" if is_repeated else "when you change it")
    if is_repeated:
        page.wait_for_event("request", lambda request: "/drafts/dr_" in request.url)
    else:
        page.wait_for_timeout(1000)
        assert len(saves) == 1, saves
    # Only a form of another sign-in needs the page for a new token.
    assert len(pages) == (code == "foreign_origin"), pages
    page.unroute("**/ui/editor/drafts/*")
    page.keyboard.insert_text(" + 1")
    expect_saved(page)


def test_a_save_whose_answer_is_lost_makes_no_second_draft(
    context: BrowserContext, node: InProcessNode
) -> None:
    context.add_init_script(FAST)
    page = open_editor(context, f"{node.address}/ui/editor")
    type_sql(page, "SELECT 1")
    expect_saved(page)
    link, saved = page.url, list[str]()

    def lose(route: Any) -> None:
        if not saved:
            saved.append(route.fetch().text())
        route.fulfill(status=500, body="")

    page.route("**/ui/editor/drafts/*", lose)
    page.keyboard.insert_text(" + 2")
    expect(page.locator("#draft-state")).to_contain_text("Not saved")
    page.keyboard.insert_text(" + 3")
    page.unroute("**/ui/editor/drafts/*")
    expect_saved(page)
    assert page.url == link
    page.reload()
    expect(page.locator(".cm-content")).to_have_text("SELECT 1 + 2 + 3")
    page.locator("#drawer summary").click()
    expect(page.get_by_role("button", name="Delete the draft")).to_have_count(1)


def run_and_stop(page: Page) -> str:
    """Submit a statement, and return its connection."""
    page.bring_to_front()
    page.locator(".cm-content").click()
    with page.expect_response("**/ui/editor/run") as answer:
        page.keyboard.press("Control+Enter")
    connection: str = answer.value.json()["connection"]
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_be_hidden()
    return connection


def test_each_tab_of_a_draft_has_its_own_connection(
    context: BrowserContext, node: InProcessNode
) -> None:
    first = open_editor(context, f"{node.address}/ui/editor")
    type_sql(first, "SELECT 1")
    connection = run_and_stop(first)
    # The next save names the connection. The page still says that the last one is done.
    with first.expect_response(lambda answer: answer.request.method == "PUT"):
        type_sql(first, "SELECT 2")
    expect_saved(first)
    link = first.url.partition("&run=")[0]
    first.reload()
    expect(first.locator("#editor")).to_have_attribute("data-connection", connection)
    assert run_and_stop(first) == connection
    second = open_editor(context, link)
    expect(second.locator("#editor")).to_have_attribute("data-connection", connection)
    other = run_and_stop(second)
    assert other != connection
    expect(second.locator("#said")).to_contain_text("Another tab has this draft")
    assert run_and_stop(first) == connection
    assert run_and_stop(second) == other
    # No other tab has the connection when this tab is closed.
    first.close()
    third = open_editor(context, link)
    assert run_and_stop(third) == third.locator("#editor").get_attribute("data-connection")


def test_a_draft_that_cannot_be_deleted_says_so_in_the_drawer(
    context: BrowserContext, node: InProcessNode
) -> None:
    context.add_init_script(FAST)
    page = open_editor(context, f"{node.address}/ui/editor")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    type_sql(page, "SELECT 1")
    expect_saved(page)
    page.locator("#drawer summary").click()
    delete = page.get_by_role("button", name="Delete the draft SELECT 1")
    expect(delete).to_be_visible()
    page.route("**/delete", lambda route: route.fulfill(status=500, body=""))
    delete.click()
    alert = page.locator("#drawer [role=alert]")
    expect(alert).to_have_text("The node answers with the status 500.")
    page.unroute("**/delete")
    page.route("**/delete", lambda route: route.abort())
    delete.click()
    expect(alert).to_have_count(1)
    expect(alert).to_contain_text("fetch")
    expect(delete).to_be_visible()
    assert errors == []


def sign_in(page: Page) -> None:
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/editor**")

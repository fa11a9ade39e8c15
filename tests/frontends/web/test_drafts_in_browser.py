"""Drafts of the editor in Chromium: they outlive a reload, a second tab and the sign-in."""

from __future__ import annotations

from collections.abc import Iterator

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


def sign_in(page: Page) -> None:
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/editor**")

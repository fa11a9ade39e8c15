"""The editor in Chromium: what is run, what is shown, what survives."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, Route, expect
from tests.support.chromium import COMPLETION_DELAY, watch
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.pool_driver import PoolDriver
from tests.support.waiting import wait_until

from headrace.model.failure import Failure

pytestmark = pytest.mark.browser


@pytest.fixture
def context(chromium: Chromium) -> Iterator[BrowserContext]:
    with chromium.new_context(viewport={"width": 1280, "height": 1200}) as context:
        yield context


@pytest.fixture
def page(node: InProcessNode, context: BrowserContext) -> Page:
    page = context.new_page()
    page.goto(f"{node.address}/ui/editor")
    return page


class Driver(PoolDriver):
    """The driver in which the statements of editors run."""

    def claim_run(self, page: Page) -> str:
        """Claim the next statement, which the page submits, and return its text."""
        expect(page.locator("#runs .waiting, #runs .launched")).to_have_count(1)
        return self.claim()

    def answer(self, number: int) -> None:
        """Report a row with a number."""
        self.succeed(inline_result([("n", "long")], [[number]]))


@pytest.fixture
def driver(node: InProcessNode) -> Driver:
    return Driver(node)


def type_sql(page: Page, text: str) -> None:
    """Replace the text of the editor."""
    # The role of a text field is that of the field without scripts, too, until it is replaced.
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def test_the_statement_at_the_cursor_is_run_and_shown(page: Page, driver: Driver) -> None:
    reports = watch(page)
    type_sql(page, "SELECT ';' AS a; -- ; no end\nSELECT `b;`;\nSELECT 3")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Control+Enter")
    assert driver.claim_run(page) == "-- ; no end\nSELECT `b;`"
    driver.answer(42)
    expect(page.locator(".grid td")).to_have_text(["42"])
    expect(page.locator("#runs .state")).to_have_text(["success"])
    assert reports == []


def test_all_statements_run_one_after_the_other_until_one_fails(
    page: Page, driver: Driver, node: InProcessNode
) -> None:
    type_sql(page, "SELECT 1;\nSELECT 1;\nSELECT 3;")
    page.get_by_role("button", name="Run all").click()
    assert driver.claim_run(page) == "SELECT 1"
    driver.answer(1)
    expect(page.locator("#runs li")).to_have_count(2)
    driver.claim_run(page)
    failure = Failure(code="statement_failed", message="no 1 here", line=1, column=8)
    driver.fail(failure)
    expect(page.locator("#live .error")).to_contain_text("no 1 here")
    # The mark is in the second of two equal statements.
    mark = page.locator(".cm-lintRange-error, .cm-lintPoint-error")
    expect(mark).to_have_count(1)
    expect(page.locator(".cm-line").nth(1).locator(mark)).to_have_count(1)
    expect(page.locator("#runs .state")).to_have_text(["success", "failed"])
    assert len(node.http.get("/api/v1/statements").json()["items"]) == 2
    # The first result stays.
    page.locator("#runs li").first.click()
    expect(page.locator(".grid td")).to_have_text(["1"])


def test_a_change_of_all_rows_is_asked_for_once(page: Page, driver: Driver) -> None:
    type_sql(page, "SELECT 1; WITH x AS (SELECT 1) DELETE FROM sales.orders")
    page.get_by_role("button", name="Run all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("sales.orders")
    expect(dialog.get_by_role("button", name="No")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#runs li")).to_have_count(0)
    page.get_by_role("button", name="Run all").click()
    dialog.get_by_role("button", name="Run it").click()
    assert driver.claim_run(page) == "SELECT 1"
    driver.answer(1)
    expect(page.locator("#runs li")).to_have_count(2)
    page.locator("#stop").click()


def test_a_selection_is_run_alone(page: Page, driver: Driver) -> None:
    type_sql(page, "SELECT 1 + 2")
    page.keyboard.press("Home")
    for _character in range(len("SELECT 1")):
        page.keyboard.press("Shift+ArrowRight")
    page.get_by_role("button", name="Run", exact=True).click()
    assert driver.claim_run(page) == "SELECT 1"
    driver.answer(1)
    expect(page.locator("#runs .state")).to_have_text(["success"])


def test_stop_cancels_before_there_is_a_driver(page: Page, node: InProcessNode) -> None:
    type_sql(page, "SELECT 1; SELECT 2")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("#runs li")).to_have_count(1)
    page.locator("#stop").click()
    expect(page.locator("#runs .state")).to_have_text(["cancelled"])
    expect(page.locator("#stop")).to_be_hidden()
    [statement] = node.http.get("/api/v1/statements").json()["items"]
    assert statement["state"] == "cancelled"


def test_text_and_results_outlive_a_reload_and_a_link_opens_them(
    page: Page, driver: Driver, context: BrowserContext, node: InProcessNode
) -> None:
    type_sql(page, "SELECT 41; SELECT 42")
    page.keyboard.press("Control+Enter")
    driver.claim_run(page)
    driver.answer(42)
    expect(page.locator(".grid td")).to_have_text(["42"])
    page.reload()
    expect(page.locator(".grid td")).to_have_text(["42"])
    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT 41; SELECT 42")
    [run] = re.findall("run=st_[0-9a-f]+", page.url)
    other = context.new_page()
    other.goto(f"{node.address}/ui/editor?{run}")
    expect(other.locator(".grid td")).to_have_text(["42"])
    expect(other.get_by_role("textbox", name="SQL")).to_have_text("SELECT 42")


def test_an_answer_that_is_lost_submits_nothing_twice(
    page: Page, driver: Driver, node: InProcessNode, context: BrowserContext
) -> None:
    calls: list[str] = []

    def lose_first(route: object) -> None:
        calls.append("run")
        if len(calls) == 1:
            route.fetch()  # type: ignore[attr-defined]
            route.abort()  # type: ignore[attr-defined]
        else:
            route.continue_()  # type: ignore[attr-defined]

    context.route("**/ui/editor/run", lose_first)
    type_sql(page, "SELECT 1")
    page.keyboard.press("Control+Enter")
    driver.claim_run(page)
    driver.answer(1)
    expect(page.locator("#runs .state")).to_have_text(["success"])
    assert len(calls) == 2
    assert len(node.http.get("/api/v1/statements").json()["items"]) == 1


def test_no_sql_stays_in_the_browser(context: BrowserContext, start_node: StartNode) -> None:
    node = start_node(token="secret")
    page = context.new_page()
    page.goto(f"{node.address}/ui/editor")
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/editor**")
    type_sql(page, "SELECT 1")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#runs li")).to_have_count(1)
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_be_hidden()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/ui/sign-in**")
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0


def test_names_of_tables_are_completed_when_the_user_has_loaded_them(
    page: Page, driver: Driver, node: InProcessNode
) -> None:
    type_sql(page, "")
    page.get_by_role("button", name="Load names of tables").click()
    columns = [(name, "string") for name in ("catalog", "schema", "name", "type", "comment")]
    wait_until(
        lambda: node.http.get("/api/v1/statements").json()["items"], what="the list is submitted"
    )
    assert driver.claim() == "LIST TABLES"
    driver.succeed(inline_result(columns, [["spark_catalog", "default", "flights", "TABLE", None]]))
    expect(page.get_by_role("button", name="Load names again")).to_be_visible()
    page.locator(".cm-content").click()
    page.keyboard.type("SELECT * FROM fli")
    expect(page.locator(".cm-completionLabel", has_text="default.flights")).to_be_visible()
    page.wait_for_timeout(COMPLETION_DELAY)
    page.keyboard.press("Enter")
    expect(page.locator(".cm-content")).to_have_text("SELECT * FROM default.flights")


def test_many_names_are_searched_by_the_node_and_an_old_search_is_given_up(
    page: Page, driver: Driver, node: InProcessNode
) -> None:
    type_sql(page, "")
    page.get_by_role("button", name="Load names of tables").click()
    columns = [(name, "string") for name in ("catalog", "schema", "name", "type", "comment")]
    wait_until(
        lambda: node.http.get("/api/v1/statements").json()["items"], what="the list is submitted"
    )
    driver.claim()
    rows = [
        ["spark_catalog", "default", f"t_{number:05}", "TABLE", None] for number in range(20_000)
    ]
    driver.succeed(inline_result(columns, rows))
    expect(page.get_by_role("button", name="Load names again")).to_be_visible()
    page.locator(".cm-content").click()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/catalog/names?*prefix=t_1", hold)
    with page.expect_request(lambda request: request.url.endswith("prefix=t_1")):
        page.keyboard.type("SELECT * FROM t_1")
        page.keyboard.press("Control+Space")
    with page.expect_event("requestfailed") as failed:
        page.keyboard.type("23")
    assert "prefix=t_1" in failed.value.url
    assert held
    page.unroute_all(behavior="ignoreErrors")
    page.keyboard.press("Control+Space")
    options = page.locator(".cm-completionLabel")
    expect(options.filter(has_text="default.t_123").first).to_be_visible()
    assert options.count() <= 50


def test_the_editor_can_be_read_and_left_with_the_keyboard(page: Page) -> None:
    type_sql(page, "SELECT 1")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.locator("#run")).to_be_focused()

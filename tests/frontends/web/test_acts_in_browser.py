"""Clicks in Chromium: what is asked before them, how often they are sent, why they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, Request, Route, expect
from tests.support.deployed_job import DeployedJob
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedDriver
from tests.support.simulated_jobs import SimulatedJobs
from tests.support.webhook_receiver import SECRET, receive_webhooks
from tests.support.webhooks import insert_message, insert_webhook

pytestmark = pytest.mark.browser

PHONE: Any = {"viewport": {"width": 390, "height": 844}}
AXE = Path(".tools/axe/node_modules/axe-core/axe.min.js")


@pytest.fixture
def context(chromium: Chromium) -> Iterator[BrowserContext]:
    with chromium.new_context() as context:
        yield context


@pytest.fixture
def session(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    return node.start_session()


def submit(node: InProcessNode, session: str) -> str:
    return str(node.submit("SELECT 1", session=session)["id"])


def show(context: BrowserContext, node: InProcessNode, link: str) -> Page:
    page = context.new_page()
    page.goto(f"{node.address}/ui/{link}")
    return page


def test_an_update_between_press_and_click_closes_nothing(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, _driver = session
    submit(node, session_id)
    page = context.new_page()
    # The page asks once when it begins to follow the events: that is not the update of this test.
    with page.expect_response(lambda response: "hx-request" in response.request.headers):
        page.goto(f"{node.address}/ui/sessions/{session_id}")
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.headers.get("hx-request"):
            held.append(route)
        else:
            route.continue_()

    page.route(f"**/ui/sessions/{session_id}*", hold)
    with page.expect_request(lambda request: "hx-request" in request.headers):
        second = submit(node, session_id)
    page.get_by_role("button", name="Close, and cancel 1 statement").hover()
    page.mouse.down()
    # The update comes while the button is pressed.
    with page.expect_response(lambda response: "hx-request" in response.request.headers):
        held[0].continue_()
    expect(page.get_by_role("button", name="Close, and cancel 1 statement")).to_be_visible()
    page.mouse.up()
    # The server asks, and names the number of now.
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Close the session {session_id}?")
    expect(page.locator("main")).to_contain_text("2 statements of it will be cancelled.")
    expect(page.get_by_role("link", name="No, keep it")).to_be_focused()
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [each["id"] for each in found["violations"]] == []
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/ui/sessions/{session_id}")
    assert node.statement(second)["state"] == "waiting"
    assert node.session_state(session_id) == "running"


def test_a_click_is_one_request(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, _driver = session
    statement = submit(node, session_id)
    page = show(context, node, "statements")
    sent: list[str] = []

    def note(request: Request) -> None:
        # Those of a page that follows its objects are no answer to a click.
        is_own = "hx-request" in request.headers or "/ui/events" in request.url
        if not is_own and "/assets/" not in request.url:
            sent.append(f"{request.method} {request.url.partition('/ui/')[2]}")

    page.on("request", note)
    page.locator(f"#{statement} code").click()
    page.wait_for_url(f"**/statements/{statement}")
    assert sent == [f"GET statements/{statement}"]
    sent.clear()
    # The page that follows the statement may show its end before the answer has replaced it.
    with page.expect_navigation():
        page.get_by_role("button", name="Stop").click()
    expect(page.locator(".summary")).to_contain_text("cancelled")
    assert sent == [f"POST statements/{statement}/cancel", f"GET statements/{statement}"]


def test_a_row_keeps_its_place_while_others_change(
    node: InProcessNode, context: BrowserContext, session: tuple[str, ScriptedDriver]
) -> None:
    session_id, driver = session
    statements = [submit(node, session_id) for _number in range(7)]
    page = show(context, node, "statements")
    page.mouse.move(0, 0)
    row = page.locator(f"#{statements[-1]}")
    before = row.bounding_box()
    assert before is not None
    for statement in statements[:5]:
        driver.claim()
        driver.succeed(statement)
        expect(page.locator(f"#{statement}")).to_contain_text("success")
    assert row.bounding_box() == before


def test_an_error_stands_on_the_page_of_its_action_until_the_next_one(
    context: BrowserContext, tmp_path: Path
) -> None:
    drivers = SimulatedJobs()
    with serve_node(make_settings(tmp_path / "home"), drivers) as node:
        job = DeployedJob(node, drivers, tmp_path / "state")
        job.deploy()
        job.act("stop")
        page = show(context, node, f"jobs/{job.show()['id']}")
        page.get_by_role("button", name="Pause").click()
        job.act("start", clean=False)
        # The page does not know yet that it has started.
        page.get_by_role("button", name="Start from the latest state").click()
        alert = page.locator("#content").get_by_role("alert")
        expect(alert).to_be_visible()
        alert.locator("p").first.select_text()
        assert page.evaluate("getSelection().toString()") == alert.locator("p").first.inner_text()
        page.evaluate("getSelection().removeAllRanges()")
        # The page follows the job, and the error stays.
        expect(page.get_by_role("button", name="Take a savepoint")).to_be_visible()
        job.act("savepoint")
        expect(page.locator("#live")).not_to_contain_text("There is no savepoint yet")
        expect(alert).to_be_visible()
        expect(page.get_by_role("button", name="Take a savepoint")).to_be_visible()
        page.get_by_role("button", name="Take a savepoint").click()
        expect(alert).to_have_count(0)


def test_the_answer_to_a_test_of_a_webhook_stays_while_the_page_follows_its_messages(
    start_node: StartNode, chromium: Chromium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_hook", SECRET)
    node = start_node(
        secrets={"provider": "environment", "allowed": {"hook": ["*"]}},
        outbox={"private_networks": ["127.0.0.0/8"]},
        lease={"sweep": "1h"},
    )
    with receive_webhooks() as receiver, chromium.new_context(**PHONE) as context:
        webhook = insert_webhook(node, "on-call", receiver.url)
        page = show(context, node, f"webhooks/{webhook}")
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_role("status").filter(has_text="answered 200")).to_be_visible()
        assert len(receiver.messages) == 1
        page.evaluate(AXE.read_text())
        assert page.evaluate("axe.run(document)")["violations"] == []
        insert_message(node, webhook, "rn_1", ("waiting", 503, "the endpoint answered 503"))
        expect(page.locator("#live table")).to_contain_text("503")
        expect(page.get_by_role("status").filter(has_text="answered 200")).to_be_visible()
        # To follow the page sends no further test.
        assert len(receiver.messages) == 1
        page.get_by_role("button", name="Delete the webhook").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Delete the webhook on-call?")
        page.get_by_role("button", name="Delete the webhook").click()
        expect(page.locator(".empty")).to_contain_text("There are no webhooks yet.")

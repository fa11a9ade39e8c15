"""Lists in Chromium: what an empty one says, what its columns are, what one row tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, expect
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.errors import StatementFailed
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.statement import Progress

pytestmark = pytest.mark.browser


@pytest.fixture
def context(chromium: Chromium) -> Iterator[BrowserContext]:
    with chromium.new_context() as context:
        yield context


def show(context: BrowserContext, node: InProcessNode, link: str) -> Page:
    page = context.new_page()
    page.goto(f"{node.address}/ui/{link}")
    return page


def test_a_list_without_rows_says_why(node: InProcessNode, context: BrowserContext) -> None:
    page = show(context, node, "statements")
    expect(page.locator(".empty")).to_contain_text("There are no statements yet. Submit the first:")
    session = node.session()
    for _number in range(3):
        node.submit("SELECT 1", session=session)
    page.goto(f"{node.address}/ui/statements?state=failed")
    text = "No statement matches the filter, which hides 3 statements."
    expect(page.locator(".empty")).to_contain_text(text)
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.goto(f"{node.address}/ui/sessions?state=failed")
    expect(page.locator(".empty")).to_contain_text("which hides 1 session.")
    page.goto(f"{node.address}/ui/catalog")
    page.get_by_role("button", name="List the tables").click()
    expect(page.locator(".empty")).to_have_text(
        "Spark lists the tables. The page shows them when it has."
    )
    context.set_offline(True)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("No answer since", timeout=60_000)


def test_a_filter_that_hides_many_says_at_least_how_many(
    node: InProcessNode, context: BrowserContext
) -> None:
    session = node.session()
    for _number in range(101):
        node.submit("SELECT 1", session=session)
    page = show(context, node, "statements?state=failed")
    expect(page.locator(".empty")).to_contain_text("which hides at least 100 statements.")


def test_the_columns_follow_the_state(node: InProcessNode, context: BrowserContext) -> None:
    session, driver = node.start_session()
    failed = str(node.submit("SELECT nothing", session=session)["id"])
    driver.claim()
    failure = Failure.of(StatementFailed("There is no column."))
    driver.report_end(failed, StatementState.FAILED, failure=failure)
    running = str(node.submit("DROP TABLE a", session=session)["id"])
    waiting = str(node.submit("DROP TABLE b", session=session)["id"])
    driver.claim()
    driver.report_start(running)
    page = show(context, node, "statements?state=failed")

    def read_heads() -> list[str]:
        heads = page.locator("thead th").all_inner_texts()
        return [heads[2], *heads[6:]]

    assert read_heads() == ["Cause", "Failed after"]
    expect(page.locator(f"#{failed}")).to_contain_text("There is no column.")
    page.goto(f"{node.address}/ui/statements?state=running")
    assert read_heads() == ["Progress", "Running for"]
    page.goto(f"{node.address}/ui/statements?state=waiting")
    assert read_heads() == ["Blocked by", "Waiting for"]
    expect(page.locator(f"#{waiting} .lines")).not_to_be_empty()
    page.goto(f"{node.address}/ui/statements")
    assert read_heads() == ["Why, or cause", "Time", "Rows"]


def test_failed_and_waiting_statements_of_all_owners_are_a_link_away_for_operators(
    start_node: StartNode, chromium: Chromium
) -> None:
    node = start_node(token="secret")
    tokens = create_tokens(node.database, ["ada", "bob"])
    headers = {"Authorization": f"Bearer {tokens['ada']}"}
    body = {"statement": "SELECT 'of ada'"}
    statement = node.http.post("/api/v1/statements", json=body, headers=headers).json()["id"]
    for secret, is_operator in (("secret", True), (tokens["bob"], False)):
        with chromium.new_context() as context:
            page = show(context, node, "statements")
            page.get_by_label("Token").fill(secret)
            page.keyboard.press("Enter")
            # The list has the statements of the user.
            expect(page.locator(".empty")).to_contain_text("There are no statements yet.")
            link = page.get_by_role("link", name="Waiting, of all owners")
            expect(link).to_have_count(int(is_operator))
            if is_operator:
                link.click()
                expect(page.locator(f"#{statement}")).to_contain_text("ada")
                page.get_by_role("link", name="Failed, of all owners").click()
                expect(page.locator(".empty")).to_contain_text("which hides 1 statement.")


def test_a_session_names_its_owner_its_last_statement_and_its_end(
    node: InProcessNode, context: BrowserContext
) -> None:
    session = node.session(name="etl", idle_timeout="30m", ttl="1h")
    other = node.session()
    for text in ("SELECT 1", "SELECT 'the last'"):
        last = node.submit(text, session=session)
    page = show(context, node, "sessions")
    row = page.locator(f"#{session}")
    expect(row).to_contain_text(str(last["owner"]))
    expect(row).to_contain_text("its age")
    link = row.get_by_role("link", name="SELECT 'the last'")
    expect(link).to_have_attribute("href", f"./statements/{last['id']}")
    expect(page.locator(f"#{other} td.sql a")).to_have_count(0)


def test_the_page_of_a_statement_says_that_its_result_is_written(
    node: InProcessNode, context: BrowserContext
) -> None:
    session, driver = node.start_session()
    statement = str(node.submit("SELECT 1", session=session)["id"])
    driver.claim()
    driver.report_start(statement)
    counts = dict.fromkeys(Progress.model_fields, 0)
    done = counts | {"jobs": 1, "stages_done": 1, "stages_total": 1}
    running = Progress(**done | {"tasks_total": 4, "tasks_done": 3, "tasks_active": 1})
    driver.report_progress({statement: running})
    page = show(context, node, f"statements/{statement}")
    expect(page.locator(".summary")).to_contain_text("3 of 4 tasks done, 1 running.")
    driver.report_progress({statement: Progress(**done | {"tasks_total": 4, "tasks_done": 4})})
    text = "All of 4 tasks done: its driver is writing the result"
    expect(page.locator(".summary")).to_contain_text(text)

"""Pages in Chromium with names, stores, proxies and tabs that make work hard for them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import text
from tests.support.chromium import COMPLETION_DELAY, watch
from tests.support.executions import make_execution
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.pool_driver import PoolDriver
from tests.support.prefix_proxy import PrefixProxy, running_proxy
from tests.support.waiting import wait_until

from headrace.frontends.web import cluster_pages
from headrace.model.execution import MAX_OPERATORS, SparkOperator
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.store.tables import statements

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=\"document.title='broken'\">'\"`"
PREFIX = "/a/proxy/history/b"
MANY = 100_000


@pytest.fixture
def context(chromium: Chromium) -> Iterator[BrowserContext]:
    with chromium.new_context() as context:
        yield context


def submit(node: InProcessNode, session: str, sql: str = "SELECT 1") -> str:
    return str(node.submit(sql, session=session)["id"])


def expect_no_script(page: Page, reports: list[str]) -> None:
    assert "broken" not in page.title()
    assert page.locator("img").count() == 0
    assert reports == []


def test_a_hostile_name_is_text_in_legends_tooltips_and_titles(
    node: InProcessNode, context: BrowserContext
) -> None:
    session, driver = node.start_session()
    good, bad = submit(node, session), submit(node, session, f"DROP TABLE `{HOSTILE}`")
    driver.claim()
    columns = [(HOSTILE, "string"), (f"n {HOSTILE}", "long")]
    driver.succeed(good, inline_result(columns, [[HOSTILE, 1], ["b", 2]]))
    driver.claim()
    failure = Failure(code="statement_failed", message=HOSTILE, line=1, column=1)
    driver.report_end(bad, StatementState.FAILED, failure=failure)
    page = context.new_page()
    reports = watch(page)
    page.goto(f"{node.address}/ui/statements/{good}")
    for kind in ("bars", "lines", "points"):
        page.get_by_label("Chart of these rows").select_option(kind)
        expect(page.locator("#chart .u-legend")).to_contain_text(f"n {HOSTILE}")
        page.locator("#chart .u-over").hover()
        expect_no_script(page, reports)
    page.goto(f"{node.address}/ui/statements")
    page.locator(f"#{bad} .lines").hover()
    assert page.locator(f"#{bad} .lines").get_attribute("title") == HOSTILE
    expect_no_script(page, reports)
    page.goto(f"{node.address}/ui/statements/{bad}")
    expect(page.locator(".error pre")).to_have_text(HOSTILE)
    expect_no_script(page, reports)
    # The name of a file has nothing that users name.
    page.goto(f"{node.address}/ui/statements/{good}")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert download.value.suggested_filename == f"{good}.csv"


def test_a_hostile_name_of_a_table_is_completed_as_text(
    node: InProcessNode, context: BrowserContext
) -> None:
    driver, page = PoolDriver(node), context.new_page()
    reports = watch(page)
    page.goto(f"{node.address}/ui/editor")
    page.get_by_role("button", name="Load names of tables").click()
    wait_until(
        lambda: node.http.get("/api/v1/statements").json()["items"], what="the list is submitted"
    )
    driver.claim()
    columns = [(name, "string") for name in ("catalog", "schema", "name", "type", "comment")]
    row = ["spark_catalog", "default", f"evil{HOSTILE}", "TABLE", HOSTILE]
    driver.succeed(inline_result(columns, [row]))
    expect(page.get_by_role("button", name="Load names again")).to_be_visible()
    page.locator(".cm-content").click()
    page.keyboard.type("SELECT * FROM evil")
    quoted = f"default.`evil{HOSTILE.replace('`', '``')}`"
    expect(page.locator(".cm-completionLabel", has_text="evil")).to_have_text(quoted)
    expect_no_script(page, reports)
    page.wait_for_timeout(COMPLETION_DELAY)
    page.keyboard.press("Enter")
    expect(page.locator(".cm-content")).to_have_text(f"SELECT * FROM {quoted}")
    expect_no_script(page, reports)


@pytest.fixture
def proxy() -> Iterator[PrefixProxy]:
    with running_proxy(PREFIX) as proxy:
        yield proxy


def test_pages_below_the_path_of_a_proxy_that_cuts_their_events_follow_and_act(
    start_node: StartNode,
    proxy: PrefixProxy,
    context: BrowserContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The proxy keeps a stream back until it has ended: the page learns of it after each cut.
    monkeypatch.setattr(cluster_pages, "_STREAM_SECONDS", 0.5)
    node = start_node(http={"allowed_hosts": [urlsplit(proxy.url).netloc]})
    proxy.target = node.address
    paths: set[str] = set()
    context.on("request", lambda request: paths.add(urlsplit(request.url).path))
    session, driver = node.start_session()
    first, second = submit(node, session, "DROP TABLE a"), submit(node, session, "DROP TABLE b")
    page = context.new_page()
    reports = watch(page)
    page.goto(f"{proxy.url}/ui")
    page.get_by_role("link", name="DROP TABLE a").click()
    expect(page.locator(".summary")).to_contain_text("waiting")
    driver.claim()
    expect(page.locator(".summary")).to_contain_text("launched")
    driver.succeed(first)
    expect(page.locator(".summary")).to_contain_text("success")
    page.get_by_role("link", name="Statements", exact=True).click()
    page.get_by_role("link", name="DROP TABLE b").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".summary")).to_contain_text("cancelled")
    assert page.url == f"{proxy.url}/ui/statements/{second}"
    for name in ("Editor", "Catalog", "Sessions", "Streams", "Jobs", "Views", "Nodes"):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_url(f"**/ui/{name.lower()}**")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert {path for path in paths if not path.startswith(f"{PREFIX}/ui")} == set()
    assert f"{PREFIX}/ui/events" in paths
    # A page that is left ends its requests.
    assert [each for each in reports if "net::ERR_" not in each] == []


def test_two_tabs_that_act_on_one_object_show_how_it_ended(
    node: InProcessNode, context: BrowserContext
) -> None:
    session, driver = node.start_session()
    statement = submit(node, session)
    driver.claim()
    tabs = [context.new_page() for _number in range(2)]
    for tab in tabs:
        tab.goto(f"{node.address}/ui/statements/{statement}")
    # The second tab does not learn of what the first one does.
    tabs[1].get_by_role("button", name="Pause").click()
    tabs[0].get_by_role("button", name="Stop").click()
    expect(tabs[0].locator("#live")).to_contain_text("the driver has not confirmed the stop yet")
    tabs[1].get_by_role("button", name="Stop").click()
    expect(tabs[1].locator("#live")).to_contain_text("Cancel requested at")
    events = node.events(statement)
    assert sum(event["to"] == "cancelling" for event in events) == 1
    driver.report_end(statement, StatementState.CANCELLED)
    for tab in tabs:
        expect(tab.locator("#live")).to_contain_text("the driver has confirmed the stop")
        tab.goto(f"{node.address}/ui/sessions/{session}")
    tabs[1].get_by_role("button", name="Pause").click()
    for tab in tabs:
        tab.get_by_role("button", name="Close", exact=True).click()
        if tab is tabs[0]:
            tab.get_by_role("button", name="Close the session").click()
        expect(tab.locator(".summary")).to_contain_text("closing")
        expect(tab.locator("h1")).to_contain_text("Session")


def test_a_page_follows_a_store_with_many_statements_in_flat_memory(
    node: InProcessNode, context: BrowserContext
) -> None:
    session, driver = node.start_session()
    old = submit(node, session)
    driver.claim()
    driver.succeed(old, inline_result([("n", "long")], [[1]]))
    copy_statement(node, old)
    page = context.new_page()
    page.goto(f"{node.address}/ui/statements?state=all")
    page.mouse.move(0, 0)
    expect(page.locator("tbody tr")).to_have_count(50)
    sizes: list[int] = []
    for _round in range(3):
        statement = submit(node, session)
        driver.claim()
        driver.succeed(statement)
        expect(page.get_by_text(f"{len(sizes) + 1} new statement")).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(50)
        sizes.append(int(page.evaluate("document.getElementsByTagName('*').length")))
    assert max(sizes) - min(sizes) <= 10
    # The oldest pages answer, too.
    page.goto(f"{node.address}/ui/statements?before=st_{'0' * 29}040")
    expect(page.locator("tbody tr")).to_have_count(50)


def test_pages_of_rows_keep_the_memory_of_the_browser_flat(
    node: InProcessNode, context: BrowserContext
) -> None:
    session, driver = node.start_session()
    statement = submit(node, session)
    driver.claim()
    columns = [(f"c{number}", "string") for number in range(120)]
    rows = [[f"{number} {'x' * 8}"] * len(columns) for number in range(201)]
    driver.succeed(statement, inline_result(columns, rows))
    page = context.new_page()
    page.goto(f"{node.address}/ui/statements/{statement}")
    assert page.locator(".grid[data-rows] td").count() == 200 * 100
    long = submit(node, session)
    driver.claim()
    values = [[number, f"{number} {'x' * 200}"] for number in range(51 * 200)]
    driver.succeed(long, inline_result([("n", "long"), ("text", "string")], values))
    page.goto(f"{node.address}/ui/statements/{long}")
    devtools = context.new_cdp_session(page)
    sizes: list[float] = []
    for number in range(50):
        page.get_by_role("link", name="Next rows").click()
        expect(page.locator(".grid[data-rows] td").first).to_have_text(str(200 * (number + 1)))
        if number % 12 == 1:
            devtools.send("HeapProfiler.collectGarbage")
            sizes.append(devtools.send("Runtime.getHeapUsage")["usedSize"])
    assert max(sizes) <= 1.5 * sizes[0] + 2_000_000, sizes
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0


def test_a_large_plan_is_in_the_page_and_can_be_searched(
    node: InProcessNode, context: BrowserContext
) -> None:
    session, driver = node.start_session()
    statement = submit(node, session)
    driver.claim()
    driver.succeed(statement, inline_result([("n", "long")], [[1]]))
    operators = [
        SparkOperator(depth=number % 60, name=f"Operator{number}", metrics={"rows": str(number)})
        for number in range(MAX_OPERATORS)
    ]
    plan = "\n".join(f"{' ' * (number % 10)}+- Node{number}" for number in range(2000))
    execution = make_execution(plan, operators=operators, operators_omitted=1500)
    driver.report_executions({statement: execution})
    page = context.new_page()
    page.goto(f"{node.address}/ui/statements/{statement}")
    page.get_by_text("Operators with their metrics").click()
    expect(page.get_by_role("cell", name="Operator499", exact=False)).to_be_visible()
    expect(page.locator("#live")).to_contain_text("1,500 further operators were not kept.")
    page.get_by_text("Physical plan", exact=True).click()
    assert page.evaluate("window.find('+- Node1999')")
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0


def copy_statement(node: InProcessNode, statement: str) -> None:
    """Copy a statement to a past with many of them. SQLite makes them faster than the store."""
    new = {"id": "'st_' || printf('%032x', n)", "ordinal": "ordinal + n"}
    names = [column.name for column in statements.columns]
    values = ", ".join(new.get(name, f'"{name}"') for name in names)
    quoted = ", ".join(f'"{name}"' for name in names)
    copy = (
        f"INSERT INTO statements ({quoted}) WITH RECURSIVE numbers(n) AS "
        f"(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY}) "
        f"SELECT {values} FROM statements CROSS JOIN numbers WHERE id = '{statement}'"
    )
    with node.database.write("test") as tx:
        tx.execute(text(copy))
        tx.execute(text(f"UPDATE sessions SET next_ordinal = next_ordinal + {MANY}"))

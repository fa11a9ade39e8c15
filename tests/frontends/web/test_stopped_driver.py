"""Pages of a node whose driver is stopped or killed: no page waits, and the loss is shown."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, expect
from tests.support.node import NodeProcess
from tests.support.small_driver import write_small_driver
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser

BUDGET_SECONDS = 15.0
"""Time for one page on a machine with much other work. A wait for a driver takes 20 s or more."""
LEASE_SECONDS = 8.0
"""A driver must not lose its lease while the machine lets it wait for some seconds."""


@pytest.fixture
def lease_seconds() -> float:
    return LEASE_SECONDS


@pytest.fixture
def node(tmp_path: Path, lease_seconds: float) -> Iterator[NodeProcess]:
    """Yield a node whose statements run until their driver ends."""
    driver = write_small_driver(tmp_path / "driver", "null")
    node = NodeProcess(
        tmp_path / "home",
        PROFILES=json.dumps({"default": {"python": str(driver)}}),
        CATALOG__KIND="memory",
        HTTP__AUTH="false",
        LEASE__DURATION=f"{lease_seconds:g}s",
        LEASE__RENEW="500ms",
    )
    yield node
    node.close()


@pytest.fixture
def statement(node: NodeProcess) -> str:
    """Return a statement that runs, and cannot be retried."""
    statement = str(node.submit("INSERT INTO t VALUES (1)")["id"])
    wait_until(lambda: node.statement(statement)["state"] == "running", seconds=60, what="it runs")
    return statement


@pytest.fixture
def page(chromium: Chromium, node: NodeProcess, statement: str) -> Iterator[Page]:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{node.address}/ui/statements/{statement}")
        yield page


def find_driver(node: NodeProcess, statement: str) -> int:
    session = node.statement(statement)["session_id"]
    return int(node.describe_session(session)["driver"]["pid"])


@pytest.mark.parametrize("lease_seconds", [600.0], ids=["a long lease"])
def test_no_page_waits_for_a_driver_that_is_stopped(node: NodeProcess, statement: str) -> None:
    session = node.statement(statement)["session_id"]
    waiting = node.submit("SELECT 1", session)["id"]
    driver = find_driver(node, statement)
    os.kill(driver, signal.SIGSTOP)
    links = [
        *("statements", "statements?state=running", "editor", "sessions", "streams", "jobs"),
        *("views", "catalog", "catalog/table?schema=default&table=t", "nodes"),
        *(f"statements/{statement}", f"statements/{statement}/json", f"statements/{waiting}"),
        *(f"sessions/{session}", f"sessions/{session}/json", f"editor?run={statement}"),
    ]
    slow: dict[str, float] = {}
    for link in links:
        began = time.monotonic()
        answer = node.http.get(f"/ui/{link}", follow_redirects=True)
        seconds = time.monotonic() - began
        assert answer.status_code == 200, link
        if seconds > BUDGET_SECONDS:
            slow[link] = seconds
    os.kill(driver, signal.SIGCONT)
    assert slow == {}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_page_of_a_statement_says_that_its_driver_is_lost_and_its_clock_stops(
    node: NodeProcess, statement: str, page: Page, number: signal.Signals
) -> None:
    expect(page.locator(".summary")).to_contain_text("running")
    os.kill(find_driver(node, statement), number)
    # What is not reported is seen with the end of the lease.
    expect(page.locator("#live")).to_contain_text("driver_lost", timeout=60_000)
    expect(page.locator("#live [data-since]")).to_have_count(0)
    page.get_by_role("link", name="Statements", exact=True).click()
    expect(page.locator("tbody")).to_contain_text("failed")
    expect(page.locator("tbody [data-since]")).to_have_count(0)

"""A page behind nginx follows its statement while nodes are killed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect
from tests.support.balanced_nodes import HEADER, TOKEN, balanced_nodes
from tests.support.chromium import watch

pytestmark = [pytest.mark.browser, pytest.mark.postgres, pytest.mark.nginx]


def test_a_page_follows_its_statement_when_its_node_is_killed(
    chromium: Chromium, postgres_url: str, tmp_path: Path
) -> None:
    with (
        balanced_nodes(tmp_path, postgres_url, count=3) as nodes,
        chromium.new_context() as context,
    ):
        statement = nodes.second.submit("SELECT 1")["id"]
        page = context.new_page()
        page.goto(f"{nodes.url}/ui/statements/{statement}")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/statements/{statement}")
        expect(page.locator(".summary")).to_contain_text("waiting")
        reports = watch(page)
        # The footer names the node that has made the page.
        made_by = page.locator("footer").inner_text()
        [killed] = [node for node in nodes.nodes if f"{node.address}," in made_by]
        survivor = next(node for node in nodes.nodes if node is not killed)
        killed.kill()
        survivor.http.post(f"/api/v1/statements/{statement}/cancel", json={})
        expect(page.locator(".summary")).to_contain_text("cancelled", timeout=60_000)
        # The other pages answer, too, without a second sign-in.
        for name in ("Sessions", "Nodes", "Editor", "Statements"):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        # The browser reports connections that the death of the node has cut, and nothing else.
        assert [each for each in reports if "Failed to load resource" not in each] == []
        # The list of nodes says since when the killed node is silent.
        page.get_by_role("link", name="Nodes", exact=True).click()
        row = page.locator("tbody tr", has_text=killed.address)
        expect(row).to_contain_text(re.compile("silent since|ended"), timeout=120_000)
        page.goto(f"{nodes.url}/ui/statements/{statement}")
        shown = page.locator("#live").inner_text()
        for node in nodes.nodes:
            if node is not killed:
                node.kill()
        for node in nodes.nodes:
            node.start()
            node.http.headers.update(HEADER)
        # No node knows more than the store: the page is the same. Each node has a new port.
        page.goto(f"{nodes.first.address}/ui/statements/{statement}")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/ui/statements/{statement}")
        assert page.locator("#live").inner_text() == shown

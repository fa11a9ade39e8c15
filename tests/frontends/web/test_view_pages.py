"""The pages of materialized views."""

from __future__ import annotations

from tests.support.browsers import Browser
from tests.support.in_process_node import InProcessNode
from tests.support.views import ViewWriter


def test_a_view_shows_its_age_and_can_be_refreshed(node: InProcessNode, browser: Browser) -> None:
    assert "CREATE MATERIALIZED VIEW" in browser.open("views").text
    view = ViewWriter(node).make()
    described = view.describe()
    page = browser.open("views")
    assert f"spark_catalog.default.{view.name}" in page.text
    assert str(described["fresh_as_of"]) in page.text
    assert "active" in page.text
    link = f"views/{described['id']}"
    assert link in page.response.text
    page = browser.open(link)
    assert "by REFRESH MATERIALIZED VIEW" in page.text
    assert "AS SELECT 1 AS a" in page.text
    page = browser.submit(page, f"{link}/refresh")
    assert page.response.url.path.startswith("/ui/statements/st_")
    assert f"REFRESH MATERIALIZED VIEW `spark_catalog`.`default`.`{view.name}`" in page.text
    assert "refreshing" in browser.open("views").text
    # A second click leads to the view, which is being refreshed.
    again = browser.submit(browser.open(link), f"{link}/refresh")
    assert again.response.url.path == f"/ui/{link}"
    assert "refreshing" in again.text
    assert "Refresh now" not in again.text


def test_a_view_that_a_query_refreshes_leads_to_its_query(
    node: InProcessNode, browser: Browser
) -> None:
    view = ViewWriter(node, properties="WITH (auto_refresh = true)").make()
    page = browser.open(f"views/{view.describe()['id']}")
    assert "automatic" in page.text
    assert "Refresh now" not in page.text
    assert [link for link in page.links if link.startswith("../streams/sq_")]


def test_a_dropped_view_stays_readable_and_cannot_be_refreshed(
    node: InProcessNode, browser: Browser
) -> None:
    view = ViewWriter(node).make()
    link = f"views/{view.describe()['id']}"
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    assert view.name not in browser.open("views").text
    page = browser.open(link)
    assert "dropped" in page.text
    assert "Refresh now" not in page.text
    refused = browser.submit(page, f"{link}/refresh")
    assert refused.response.status_code == 404


def test_an_unknown_view_is_an_error_page(browser: Browser) -> None:
    for link in ("views/mv_unknown", f"views/{'x' * 99}"):
        assert browser.open(link).response.status_code == 404

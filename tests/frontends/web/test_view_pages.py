"""The pages of materialized views."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from tests.support.browsers import Browser
from tests.support.in_process_node import InProcessNode
from tests.support.running_query import make_batch
from tests.support.views import ViewWriter

from headrace.model.expectation import ExpectationCounts, Violations
from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import QueryReport

HOSTILE = "<script>alert('x')</script>"
_numbers = count()


def report_batch(view: ViewWriter, lag: dict[str, Any], **facts: Any) -> None:
    """Let the driver of a view report another batch of the query that refreshes it."""
    name = str(view.describe()["query"])
    query = view.node.stream(name)
    batch = make_batch(next(_numbers), milliseconds=500).model_copy(update={"lag": lag, **facts})
    report = QueryReport(
        id=query["id"],
        generation=1,
        state=StreamState.RUNNING,
        run_id="run",
        last_batch=batch.batch,
        progress=[batch],
    )
    assert view.driver.renew(streams=1, queries=[report]).applied


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
    assert "stale: its query does not run" in page.text
    assert "The query adhoc" in page.text
    assert "Refresh now" not in page.text
    assert [link for link in page.links if link.startswith("../streams/sq_")]


def test_a_view_shows_what_its_refresh_costs_and_what_its_sources_have(
    node: InProcessNode, browser: Browser
) -> None:
    view = ViewWriter(
        node, properties="WITH (auto_refresh = true, refresh_interval = '10m')"
    ).make()
    link = f"views/{view.describe()['id']}"
    report_batch(view, lag={})
    page = browser.open(link)
    assert "took 0.5 s, read 10 rows" in page.text
    assert "with the next rows of its sources, at most every 10 min" in page.text
    assert "do not say how much is not read yet" in page.text
    assert "stale" not in page.text
    report_batch(view, lag={HOSTILE: 7, "b": 0, "c": "many"})
    for link_ in (link, "views"):
        page = browser.open(link_)
        assert "stale: 7 records not read yet" in page.text
        assert page.find_unwanted_tags() == []
    assert browser.open(link).text.count("all read at the last batch") == 1
    # No driver measures at such a time.
    for at in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"):
        report_batch(view, lag={}, at=at)
        for link_ in (link, "views"):
            assert browser.open(link_).response.status_code == 200


def test_a_view_that_statements_refresh_says_what_is_not_known(
    node: InProcessNode, browser: Browser
) -> None:
    view = ViewWriter(node).make()
    page = browser.open(f"views/{view.describe()['id']}")
    assert "No query refreshes it" in page.text
    assert "The store does not know which tables the statement reads" in page.text
    assert re.search(r"Last begun .* UTC ?, took [\d.]+ s", page.text)
    assert "stale" not in page.text


def test_a_view_is_shown_as_describe_does(node: InProcessNode, browser: Browser) -> None:
    view = ViewWriter(node).make()
    described = view.describe()
    page = browser.open(f"views/{described['id']}")
    assert f"DESCRIBE MATERIALIZED VIEW `spark_catalog`.`default`.`{view.name}`" in page.text
    shown = browser.open(f"views/{described['id']}/json").response
    assert shown.headers["Content-Type"] == "application/json"
    assert shown.json() == described
    assert browser.open("views/mv_unknown/json").response.status_code == 404


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


def test_a_view_shows_what_its_last_refresh_has_counted(
    node: InProcessNode, browser: Browser
) -> None:
    constraints = "(CONSTRAINT positive EXPECT (a > 0) ON VIOLATION DROP ROW)"
    view = ViewWriter(node, constraints=constraints)
    view.statement = view.submit_create()
    violations = [Violations(name="positive", violations=3, nulls=1)]
    counts = ExpectationCounts(
        rows_in=1010, rows_dropped=3, rows_written=1007, expectations=violations
    )
    view.write(view.driver, view.statement, counts)
    link = f"views/{view.describe()['id']}"
    page = browser.open(link)

    for shown in ("positive: a > 0", "drop", "violated", "1,010"):
        assert shown in page.text, shown
    assert f"statements/{view.statement}" in page.response.text
    assert "drop: violated by 3 of 1,010 rows, 1 of them NULL" in browser.open(f"{link}/json").text

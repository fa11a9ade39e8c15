"""The pages of the catalog."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.browsers import Browser, Page
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.pool_driver import PoolDriver

from headrace.model.failure import Failure

TABLES = [(name, "string") for name in ("catalog", "schema", "name", "type", "comment")]
COLUMNS = [(name, "string") for name in ("catalog", "schema", "name", "columns")]
HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def lister(node: InProcessNode) -> PoolDriver:
    return PoolDriver(node)


def open_listing(browser: Browser, lister: PoolDriver, rows: Sequence[Sequence[Any]]) -> Page:
    page = browser.submit(browser.open("catalog"), "catalog/list")
    assert "Spark lists the tables." in page.text
    assert lister.claim() == "LIST TABLES"
    lister.succeed(inline_result(TABLES, rows))
    return browser.open(f"catalog?listing={lister.statement}")


def test_tables_are_listed_by_a_statement_and_searched_by_name(
    node: InProcessNode, browser: Browser, lister: PoolDriver
) -> None:
    with node.expect_no_changes():
        assert "List the tables" in browser.open("catalog").text
    rows = [["spark_catalog", "default", f"t_{number}", "TABLE", None] for number in range(50_000)]
    rows.append(["spark_catalog", HOSTILE, "Flights", "VIEW", HOSTILE])
    rows.append(["spark_catalog", None, "temporary", "VIEW", None])
    page = open_listing(browser, lister, rows)
    assert "50,002 tables. The page shows 50: refine the name." in page.text
    page = browser.open(f"catalog?listing={lister.statement}&search=flIGHTS")
    assert "1 table of 50,002." in page.text
    assert "Flights" in page.text
    assert page.find_unwanted_tags() == []
    assert "temporary" in browser.open(f"catalog?listing={lister.statement}&search=TEMP").text
    page = browser.open(f"catalog?listing={lister.statement}&search=%25")
    assert "the filter hides 50,002 tables" in page.text


def test_names_are_completed_from_a_list(
    node: InProcessNode, browser: Browser, lister: PoolDriver
) -> None:
    def complete(prefix: str) -> list[str]:
        query = {"listing": lister.statement, "prefix": prefix}
        return list(browser.http.get("catalog/names", params=query).json()["names"])

    browser.submit(browser.open("catalog"), "catalog/list")
    lister.claim()
    query = {"listing": lister.statement}
    early = browser.http.get("catalog/names", params=query).json()
    assert early == {"has_ended": False, "names": []}
    rows = [["spark_catalog", "default", f"t_{number}", "TABLE", None] for number in range(100)]
    rows += [["spark_catalog", "sales", "Odd `name`", "TABLE", None], ["c", None, "v", "V", None]]
    lister.succeed(inline_result(TABLES, rows))
    assert complete("T_9") == ["default.t_9", *(f"default.t_9{n}" for n in range(10))]
    assert len(complete("")) == 50
    assert complete("sales.o") == ["sales.`Odd ``name```"]
    assert complete("v") == ["v"]
    assert complete("nothing") == []
    other = str(node.submit("SELECT 1")["id"])
    answer = browser.http.get("catalog/names", params={"listing": other})
    assert answer.status_code == 400


def test_a_catalog_without_tables_leads_to_the_editor(browser: Browser, lister: PoolDriver) -> None:
    assert "Write the first in the editor" in open_listing(browser, lister, []).text


def test_a_listing_that_fails_says_why(browser: Browser, lister: PoolDriver) -> None:
    fields = {"catalog": "other"}
    page = browser.submit(browser.open("catalog"), "catalog/list", **fields)
    assert lister.claim() == "LIST TABLES IN CATALOG `other`"
    lister.fail(Failure(code="execution_error", message="The metastore is away."))
    page = browser.open(f"catalog?listing={lister.statement}")
    assert "The metastore is away." in page.text
    assert page.response.status_code == 200


def test_a_table_shows_its_columns(browser: Browser, lister: PoolDriver) -> None:
    names = {"catalog": "spark_catalog", "schema": "a_b", "table": "t%1"}
    link = "catalog/table?catalog=spark_catalog&schema=a_b&table=t%251"
    page = browser.open(link)
    assert "spark_catalog.a_b.t%1" in page.text
    assert "None of the last 200 atomic writes" in page.text
    page = browser.submit(page, "catalog/describe", **names)
    text = lister.claim()
    assert text.startswith("LIST COLUMNS IN CATALOG `spark_catalog` SCHEMA LIKE ")
    assert "a\\_b" in text
    assert "t\\%1" in text
    fields = [
        {"name": "n", "type": "decimal(10,2)", "nullable": False, "metadata": {}},
        {"name": HOSTILE, "type": "string", "nullable": True, "metadata": {}},
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    lister.succeed(inline_result(COLUMNS, [["spark_catalog", "a_b", "t%1", schema]]))
    page = browser.open(f"{link}&listing={lister.statement}")
    assert "n decimal(10,2) not allowed" in page.text.lower()
    assert page.find_unwanted_tags() == []


@pytest.mark.parametrize(
    "columns",
    [None, "no json", "[]", "{}", '{"fields": 1}', 100_000 * "["],
    ids=["null", "text", "list", "object", "number", "deep"],
)
def test_a_table_that_cannot_be_read_says_so(
    browser: Browser, lister: PoolDriver, columns: str | None
) -> None:
    browser.submit(browser.open("catalog/table?table=t"), "catalog/describe", table="t")
    lister.claim()
    lister.succeed(inline_result(COLUMNS, [["c", "s", "t", columns]]))
    page = browser.open(f"catalog/table?table=t&listing={lister.statement}")
    assert page.response.status_code == 200
    assert "Spark cannot read it" in page.text


def test_wrong_listings_are_refused(node: InProcessNode, browser: Browser) -> None:
    other = str(node.submit("SELECT 1")["id"])
    unknown = f"st_{0:032x}"
    for link, status in [
        (f"catalog?listing={other}", 400),
        (f"catalog/table?table=t&listing={other}", 400),
        (f"catalog?listing={unknown}", 404),
        ("catalog?listing=x", 400),
        ("catalog/table", 400),
        (f"catalog?search={'x' * 1001}", 400),
    ]:
        assert browser.open(link).response.status_code == status, link
    page = browser.submit(browser.open("catalog"), "catalog/describe")
    assert page.response.status_code == 400


def test_listings_of_others_are_not_shown(start_node: StartNode) -> None:
    node = start_node(token="of-the-node")
    tokens = create_tokens(node.database, ["ada", "bob"])
    headers = {"Authorization": f"Bearer {tokens['ada']}"}
    body = {"statement": "LIST TABLES"}
    listing = node.http.post("/api/v1/statements", json=body, headers=headers).json()["id"]
    with Browser(node) as browser:
        browser.sign_in(tokens["bob"])
        assert browser.open(f"catalog?listing={listing}").response.status_code == 404

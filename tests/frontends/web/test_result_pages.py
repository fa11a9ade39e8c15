"""The rows of a statement on its page and as files, and what a page offers to copy."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlalchemy import update
from tests.support.browsers import Browser, Page
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import Columns, inline_result, stored_result

from headrace.store.clock import clock
from headrace.store.tables import results as result_table

COLUMNS: Columns = [("name", "string"), ("-n", "long"), ("d", "decimal(10,2)")]
TEXTS = ["=1+1", "+1", "-1", "@x", "\tx", "plain", "", None, 'a"b,c\nd', "Grüße 雪"]


def run(
    node: InProcessNode,
    batches: Sequence[Sequence[Sequence[Any]]],
    *,
    columns: Columns = COLUMNS,
    truncated: bool = False,
    text: str = "SELECT 1",
) -> str:
    """Run a statement, whose result is stored if it has several batches, and return its id."""
    session, driver = node.start_session()
    if len(batches) == 1:
        statement = str(node.submit(text, session=session)["id"])
        driver.claim()
        driver.succeed(statement, inline_result(columns, batches[0], truncated=truncated))
        return statement
    statement = str(node.submit(text, session=session, result="stored")["id"])
    location = driver.claim().result_location
    assert location is not None
    driver.succeed(statement, stored_result(Path(location), columns, batches, chunk_limit=1))
    return statement


def expire_results(node: InProcessNode) -> None:
    with node.database.write("test") as tx:
        tx.execute(update(result_table).values(gone_at=clock(), gone_reason="expired", data=None))


def rows_on(page: Page) -> tuple[str, str]:
    """Return the first and the last cell of the grid."""
    html = page.response.text
    cells = html[html.index("<tbody>") : html.index("</tbody>")].split("<td>")[1:]
    return cells[0].partition("</td>")[0], cells[-1].partition("</td>")[0]


def test_a_stored_result_is_shown_in_pages_of_rows(node: InProcessNode, browser: Browser) -> None:
    batches = [[[number] for number in range(start, start + 150)] for start in (0, 150, 300)]
    link = f"statements/{run(node, batches, columns=[('n', 'long')])}"
    page = browser.open(link)
    assert rows_on(page) == ("0", "199")
    assert "Rows 1 to 200 of 450." in page.text
    assert f"../{link}?row=200" in page.links
    page = browser.open(f"{link}?row=200")
    assert rows_on(page) == ("200", "399")
    assert {f"../{link}?row=0", f"../{link}?row=400"} <= set(page.links)
    page = browser.open(f"{link}?row=400")
    assert rows_on(page) == ("400", "449")
    assert f"../{link}?row=450" not in page.links
    for wrong in ("-1", "x", str(2**64)):
        assert browser.open(f"{link}?row={wrong}").response.status_code == 400


def test_a_wide_result_is_shown_in_pages_of_columns(node: InProcessNode, browser: Browser) -> None:
    columns = [(f"c{number}", "integer") for number in range(2000)]
    rows = [[[number] * 2000 for number in range(300)]]
    link = f"statements/{run(node, rows, columns=columns)}"
    page = browser.open(link)
    assert "Rows 1 to 200 of 300." in page.text
    assert "Columns 1 to 100 of 2,000." in page.text
    assert page.response.text.count("<td>") == 200 * 100
    assert len(page.response.content) < 1024 * 1024
    assert f"../{link}?row=200" in page.links
    page = browser.open(f"{link}?row=200&column=1900")
    assert "c1999" in page.text
    assert "c1899" not in page.text
    assert {f"../{link}?row=0&column=1900", f"../{link}?row=200&column=1800"} <= set(page.links)
    # A part that does not exist is that at the begin.
    assert "c99" in browser.open(f"{link}?column=2000").text


def test_a_long_value_is_shown_in_part_and_opened_whole(
    node: InProcessNode, browser: Browser
) -> None:
    value = "<b>é" * (5 * 1024 * 1024 // 5)
    statement = run(node, [[["x", None], [value, ""]]], columns=[("a", "string"), ("b", "string")])
    page = browser.open(f"statements/{statement}")
    assert len(page.response.content) < 30_000
    whole = f"statements/{statement}/cell?row=1&column=0"
    assert f"../{whole}" in page.links
    opened = browser.http.get(whole)
    assert opened.text == value
    assert opened.headers["content-type"] == "text/plain; charset=utf-8"
    assert opened.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in opened.headers["content-security-policy"]
    assert browser.http.get(f"statements/{statement}/cell?column=1").text == ""
    for wrong, status in (("row=2", 404), ("column=2", 404), ("row=-1", 400), ("column=x", 400)):
        answer = browser.http.get(f"statements/{statement}/cell?{wrong}")
        assert answer.status_code == status, wrong
        assert "text/html" in answer.headers["content-type"]


def test_a_result_that_has_expired_leaves_columns_count_and_exact_sql(
    node: InProcessNode, browser: Browser
) -> None:
    text = "SELECT 'it''s'  AS \"a\",\n\t'<b>&amp;'"
    statement = run(node, [[["x", -1, None]]], text=text)
    expire_results(node)
    page = browser.open(f"statements/{statement}")
    assert "1 row. The rows are gone (expired)." in page.text
    assert "columns: name string , -n bigint , d decimal(10,2)" in page.text.lower()
    [shown] = [word for word in page.words if word.startswith("SELECT 'it")]
    assert shown.rstrip("\n") == text
    for link in ("rows.csv", "cell"):
        assert browser.open(f"statements/{statement}/{link}").response.status_code == 410


def test_csv_has_the_values_and_csv_for_excel_no_formulas(
    node: InProcessNode, browser: Browser
) -> None:
    rows = [[text, -number, Decimal(f"-{number}.50")] for number, text in enumerate(TEXTS)]
    statement = run(node, [rows])
    plain = browser.http.get(f"statements/{statement}/rows.csv")
    assert plain.headers["content-disposition"] == f'attachment; filename="{statement}.csv"'
    read = list(csv.reader(io.StringIO(plain.content.decode(), newline="")))
    assert read[0] == ["name", "-n", "d"]
    assert read[1:] == [[text or "", str(number), str(cost)] for text, number, cost in rows]
    excel = browser.http.get(f"statements/{statement}/rows.excel.csv")
    assert excel.content.startswith(b"\xef\xbb\xbf")
    read = list(csv.reader(io.StringIO(excel.content.decode("utf-8-sig"), newline="")))
    assert read[0] == ["name", "'-n", "d"]
    expected = [f"'{text}" if text and text[0] in "=+-@\t" else text or "" for text in TEXTS]
    assert [row[0] for row in read[1:]] == expected
    # A number below zero stays a number.
    assert [row[1:] for row in read[1:]] == [[str(number), str(cost)] for _, number, cost in rows]


def test_parquet_and_arrow_have_all_rows_of_a_stored_result(
    node: InProcessNode, browser: Browser
) -> None:
    batches = [[[number] for number in range(start, start + 1000)] for start in (0, 1000)]
    statement = run(node, batches, columns=[("n", "long")])
    content = browser.http.get(f"statements/{statement}/rows.parquet").content
    assert parquet.read_table(io.BytesIO(content))["n"].to_pylist() == list(range(2000))
    content = browser.http.get(f"statements/{statement}/rows.arrow").content
    assert pa.ipc.open_file(content).read_all()["n"].to_pylist() == list(range(2000))


def test_the_name_of_the_file_says_that_rows_are_missing(
    node: InProcessNode, browser: Browser
) -> None:
    statement = run(node, [[[1]]], columns=[("n", "long")], truncated=True)
    answer = browser.http.get(f"statements/{statement}/rows.csv")
    assert f"{statement}-truncated.csv" in answer.headers["content-disposition"]


def test_rows_that_cannot_be_downloaded_are_an_error_page(
    node: InProcessNode, browser: Browser
) -> None:
    statement = run(node, [[[1]]], columns=[("n", "long")])
    assert browser.open(f"statements/{statement}/rows.xls").response.status_code == 400
    waiting = str(node.submit("SELECT 1")["id"])
    assert browser.open(f"statements/{waiting}/rows.csv").response.status_code == 409
    expire_results(node)
    gone = browser.open(f"statements/{statement}/rows.csv")
    assert gone.response.status_code == 410
    assert "result_gone" in gone.text


def test_rows_of_others_are_for_those_who_may_read_them(start_node: StartNode) -> None:
    node = start_node(token="of-the-node")
    tokens = create_tokens(node.database, ["ada", "bob"])
    headers = {"Authorization": f"Bearer {tokens['ada']}"}
    answer = node.http.post("/api/v1/statements", json={"statement": "SELECT 1"}, headers=headers)
    with Browser(node) as browser:
        browser.sign_in(tokens["bob"])
        for link in ("", "/rows.csv", "/cell", "/json"):
            page = browser.open(f"statements/{answer.json()['id']}{link}")
            assert page.response.status_code == 404


def test_a_statement_is_shown_as_the_api_has_it(node: InProcessNode, browser: Browser) -> None:
    statement = run(node, [[[1]]], columns=[("n", "long")])
    shown = browser.http.get(f"statements/{statement}/json")
    assert shown.headers["content-type"] == "application/json"
    of_api = node.http.get(f"/api/v1/statements/{statement}").json()
    assert {**of_api, "queue_position": None} == {**json.loads(shown.text), "queue_position": None}


@pytest.mark.parametrize("text", ["SELECT 'it''s' AS \"a\"", "SELECT `$HOME`, '\\' -- !x\n"])
def test_a_copied_command_runs_the_same_text(
    node: InProcessNode, browser: Browser, text: str
) -> None:
    statement = run(node, [[[1]]], columns=[("n", "long")], text=text)
    page = browser.open(f"statements/{statement}")
    commands = [word.strip() for word in page.words if word.strip().startswith("headrace ")]
    assert ["headrace", "statement", "show", statement] in [shlex.split(each) for each in commands]
    assert ["headrace", "sql", text] in [shlex.split(each) for each in commands]


def test_a_text_with_a_secret_is_offered_to_no_copy(node: InProcessNode, browser: Browser) -> None:
    text = "CREATE TABLE t USING jdbc OPTIONS (password 'hunter2')"
    statement = str(node.submit(text)["id"])
    page = browser.open(f"statements/{statement}")
    assert "hunter2" not in page.response.text
    assert "headrace sql" not in page.text

"""Cells of a result in Chromium: selected with the mouse and the keyboard, and copied."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, expect
from tests.support.chromium import watch
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result

pytestmark = pytest.mark.browser

Row = list[str | None]
HOSTILE = '<img src=x onerror="document.title=1">'
TEXTS: list[str | None] = [
    *(None, "", "NULL", "a\tb", 'say "x"', "line\nnext", "line\r\nnext\r", "\n", " a ", "007"),
    *(HOSTILE, "&amp;", "=1+1", "é 雪", "\N{ZERO WIDTH SPACE}"),
]


@pytest.fixture
def page(chromium: Chromium, node: InProcessNode) -> Iterator[Page]:
    """Yield the page of a statement whose rows have the texts, and their positions."""
    session, driver = node.start_session()
    statement = node.submit("SELECT 1", session=session)["id"]
    driver.claim()
    rows = [[text, number] for number, text in enumerate(TEXTS)]
    driver.succeed(statement, inline_result([(HOSTILE, "string"), ("n", "long")], rows))
    with chromium.new_context() as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{node.address}/ui/statements/{statement}")
        yield page


class _Cells(HTMLParser):
    """Reads the cells of a table. NULL is None."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.text_cells = 0
        self.unwanted: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append(None if "data-null" in names else "")
            self.text_cells += "mso-number-format" in (names.get("style") or "")
        elif tag == "br":
            self.handle_data("\n")
        elif tag not in {"html", "head", "body", "meta", "table", "thead", "tbody", "span"}:
            self.unwanted.append(tag)

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] = f"{self.rows[-1][-1] or ''}{data}"


def parse_text(text: str) -> list[Row]:
    """Return the fields of a text with tabs, by the documented rules: only NULL has no quotes."""
    plain = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))
    marked = text.replace('\t""', '\t"\0"').replace('\n""', '\n"\0"')
    marked = f'"\0"{marked.removeprefix(chr(34) * 2)}' if marked.startswith('""') else marked
    with_empty = list(csv.reader(io.StringIO(marked, newline=""), delimiter="\t"))
    return [
        [None if mark == "" else field for field, mark in zip(fields, marks, strict=True)]
        for fields, marks in zip(plain, with_empty, strict=True)
    ]


def read_clipboard(page: Page, media_type: str) -> str:
    return str(
        page.evaluate(
            """async (type) => {
                // To clean the table, the browser would apply its styles to the page.
                const [item] = await navigator.clipboard.read({unsanitized: ["text/html"]});
                return (await item.getType(type)).text();
            }""",
            media_type,
        )
    )


def test_all_rows_are_copied_with_the_names_of_their_columns(page: Page) -> None:
    reports = watch(page)
    page.get_by_role("button", name="Copy", exact=True).first.click()
    expect(page.locator("[data-copied]")).to_have_text("Copied 15 rows of 2 columns.")
    expected = [[text, str(number)] for number, text in enumerate(TEXTS)]
    assert parse_text(read_clipboard(page, "text/plain")) == [[HOSTILE, "n"], *expected]
    table = _Cells(read_clipboard(page, "text/html"))
    # A table has one kind of end of line.
    lines = [
        [text and text.replace("\r\n", "\n").replace("\r", "\n"), number]
        for text, number in expected
    ]
    assert table.rows == [[HOSTILE, "n"], *lines]
    assert table.text_cells == len([text for text in TEXTS if text is not None])
    assert table.unwanted == []
    assert reports == []


def test_the_keyboard_selects_and_copies_cells(page: Page) -> None:
    grid = page.get_by_role("grid", name="Rows")
    grid.focus()
    for key in ("ArrowDown", "ArrowDown", "Shift+ArrowDown", "Shift+End"):
        page.keyboard.press(key)
    expect(page.locator("[aria-selected]")).to_have_text(["", "1", "NULL", "2"])
    page.keyboard.press("Control+C")
    assert parse_text(read_clipboard(page, "text/plain")) == [["", "1"], ["NULL", "2"]]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+Space")
    expect(page.locator("[aria-selected]")).to_have_text(["NULL", "2"])
    expect(grid).to_have_attribute("aria-activedescendant", "active-cell")
    page.keyboard.press("Escape")
    expect(page.locator("[aria-selected]")).to_have_count(0)
    expect(page.locator("#active-cell, [aria-activedescendant]")).to_have_count(0)
    # Keys of the browser stay its own, and Tab leads out of the grid.
    for key in ("Control+ArrowDown", "Alt+ArrowDown", "a"):
        page.keyboard.press(key)
    expect(page.locator("[aria-selected]")).to_have_count(0)
    page.keyboard.press("Tab")
    expect(grid).not_to_be_focused()


def test_the_mouse_selects_cells_and_parts_of_their_text(page: Page) -> None:
    first, last = page.locator("tbody").first.locator("tr").nth(2), page.get_by_text("a\tb")
    first.locator("td").nth(1).hover()
    page.mouse.down()
    last.hover()
    page.mouse.up()
    expect(page.locator("[aria-selected]")).to_have_text(["NULL", "2", "a\tb", "3"])
    page.keyboard.press("Control+C")
    assert read_clipboard(page, "text/plain") == 'NULL\t2\n"a\tb"\t3\n'
    # A text that is selected within a cell is copied as it is.
    page.get_by_text('say "x"').dblclick(position={"x": 8, "y": 10})
    page.keyboard.press("Control+C")
    assert read_clipboard(page, "text/plain").strip() == "say"
    page.get_by_role("heading", level=1).click()
    expect(page.locator("[aria-selected]")).to_have_count(0)


def test_a_value_that_is_cut_is_named_when_it_is_copied(
    chromium: Chromium, node: InProcessNode
) -> None:
    session, driver = node.start_session()
    statement = node.submit("SELECT 1", session=session)["id"]
    driver.claim()
    driver.succeed(statement, inline_result([("a", "string")], [["x" * 5_000_000], ["y"]]))
    with chromium.new_context() as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{node.address}/ui/statements/{statement}")
        page.get_by_role("button", name="Copy", exact=True).first.click()
        expect(page.locator("[data-copied]")).to_contain_text("1 value cut to the first 1,000")
        assert read_clipboard(page, "text/plain") == f"a\n{'x' * 1000}…\ny\n"
        page.get_by_role("link", name="whole value").click()
        page.wait_for_url("**/cell?*")
        assert len(page.locator("body").inner_text()) == 5_000_000

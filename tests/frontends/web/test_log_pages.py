"""The log of a driver as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.browsers import Browser
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.frontends.web.log_pages import MAX_LINE, PART, cut_part, find_errors

HOSTILE = "<script>alert(1)</script>&amp;"


def write_log(node: InProcessNode, content: str) -> tuple[str, Path]:
    """Write the log of a new session. Return its id and the file."""
    session = node.session()
    log = node.launcher.wait_for_request(session).log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(content)
    return session, log


def test_the_end_of_a_long_log_is_shown_at_once_and_older_parts_on_request(
    node: InProcessNode, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"line {number:06} {'x' * 80} end" for number in range(85_000)]
    session, log = write_log(node, "\n".join(lines) + "\n")
    assert log.stat().st_size > 8_000_000
    tails: list[int] = []
    read = node.node.session_logs.read_async

    async def note(caller: Any, session_id: str, size: int) -> Any:
        tails.append(size)
        return await read(caller, session_id, size)

    monkeypatch.setattr(node.node.session_logs, "read_async", note)
    page = browser.open(f"sessions/{session}/log")
    assert tails == [PART]
    assert len(page.response.content) < 2 * PART
    assert "line 084999" in page.text
    assert "line 084000" not in page.text
    assert f"../../sessions/{session}/log?before={PART}" in page.links
    second = browser.open(f"sessions/{session}/log?before={PART}")
    assert f"../../sessions/{session}/log?before={2 * PART}" in second.links
    # The two parts together have every line between them.
    shown = second.text.partition("line 08")[2] + page.text
    missing = [number for number in range(83_700, 85_000) if f"line {number:06}" not in shown]
    assert len(missing) <= 1, missing
    assert f"../sessions/{session}/log" in browser.open(f"sessions/{session}").links


def test_texts_of_logs_run_nowhere_and_a_long_line_is_cut_with_a_note(
    node: InProcessNode, browser: Browser
) -> None:
    session, _log = write_log(node, f"{HOSTILE}\nERROR {'y' * 1_000_000}\nlast\n")
    page = browser.open(f"sessions/{session}/log")
    assert page.find_unwanted_tags() == []
    assert "further characters of this line" in page.text
    assert "last" in page.text
    assert len(page.response.content) < 20_000
    page = browser.open(f"sessions/{session}/log?errors=1")
    assert page.find_unwanted_tags() == []
    assert "ERROR yyy" in page.text
    assert "998,006 further characters of this line" in page.text
    assert "last" not in page.text.partition("ERROR")[2]


def test_an_empty_log_a_wrong_part_and_a_lost_file_say_so(
    node: InProcessNode, browser: Browser
) -> None:
    session, log = write_log(node, "")
    assert "The log is empty" in browser.open(f"sessions/{session}/log").text
    log.write_text("fine\n")
    assert "names an error." in browser.open(f"sessions/{session}/log?errors=1").text
    assert "The log has no older lines." in browser.open(f"sessions/{session}/log?before=9000").text
    for before in ("-1", "x", str(10**9), str(10**30)):
        answer = browser.open(f"sessions/{session}/log?before={before}")
        assert answer.response.status_code == 400
    assert browser.open("sessions/nothing/log").response.status_code == 404
    log.unlink()
    log.mkdir()
    page = browser.open(f"sessions/{session}/log")
    assert page.response.status_code == 200
    assert "results_unavailable" in page.text


def test_the_log_of_others_is_not_shown(start_node: StartNode) -> None:
    node = start_node(token="of-the-node")
    tokens = create_tokens(node.database, ["ada", "bob"])
    headers = {"Authorization": f"Bearer {tokens['ada']}"}
    session = node.http.post("/api/v1/sessions", json={}, headers=headers).json()["id"]
    with Browser(node) as browser:
        browser.sign_in(tokens["bob"], "sessions")
        assert browser.open(f"sessions/{session}/log").response.status_code == 404


@pytest.mark.parametrize(
    ("size", "before", "lines", "older"),
    [
        (0, 0, 0, None),
        (10, 0, 5, 10),
        (PART, 0, PART // 2, PART),
        (PART + 10, PART, 5, PART + 10),
        (3 * PART, 2 * PART, PART // 2, 3 * PART),
        (PART, PART, 0, None),
        (256 * PART, 255 * PART, PART // 2, None),
    ],
    ids=["empty", "redacted", "full", "redacted in an older part", "a part", "behind", "the last"],
)
def test_a_part_ends_where_the_next_one_begins(
    size: int, before: int, lines: int, older: int | None
) -> None:
    text = "a\n" * (size // 2)
    page = cut_part(text, before, is_cut=True)
    assert (len(page.lines), page.older) == (lines, older)
    assert cut_part(text, before, is_cut=False).older is None


def test_a_log_in_which_much_is_redacted_has_older_parts(
    node: InProcessNode, browser: Browser
) -> None:
    lines = [f"{number:05} password='{'x' * 120}'" for number in range(3000)]
    session, _log = write_log(node, "\n".join(lines) + "\n")
    path, shown = f"sessions/{session}/log", ""
    for _part in range(30):
        page = browser.open(path)
        assert "xxx" not in page.text
        shown = page.text + shown
        older = [each for each in page.links if "log?before=" in each]
        if not older:
            break
        path = older[0].removeprefix("../../")
    missing = [line[:5] for line in lines if f"{line[:5]} password" not in shown]
    # A line that is cut stands in two parts.
    assert len(missing) <= 30, missing
    assert "00000 password" in shown


@pytest.mark.parametrize("is_last", [False, True])
def test_a_log_that_fits_on_the_page_has_no_older_part(
    node: InProcessNode, browser: Browser, is_last: bool
) -> None:
    session, _log = write_log(node, "x" * (PART if is_last else PART - 1))
    assert "log?before=" not in "".join(browser.open(f"sessions/{session}/log").links)


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("26/11/29 10:00:00 ERROR Executor: x", True),
        ("Caused by: java.io.IOException: x", True),
        ("Traceback (most recent call last):", True),
        ("ValueError: x", True),
        ("java.lang.OutOfMemoryError", True),
        ("26/11/29 10:00:00 INFO errors: 0", False),
        ("", False),
        (f"{'z' * MAX_LINE} ERROR", False),
    ],
    ids=["level", "cause", "Python", "class", "JVM", "no error", "empty", "far behind"],
)
def test_lines_that_name_an_error_are_found(line: str, is_error: bool) -> None:
    assert bool(find_errors(f"first\n{line}\nlast").lines) == is_error


def test_the_last_errors_are_shown_if_there_are_many() -> None:
    page = find_errors("\n".join(f"ERROR {number}" for number in range(700)))
    assert (page.omitted, page.lines[0].text, page.lines[-1].text) == (
        200,
        "ERROR 200",
        "ERROR 699",
    )

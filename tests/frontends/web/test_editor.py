"""The editor: what it submits, in which connection, and what it shows."""

from __future__ import annotations

import pytest
from tests.support.browsers import Browser, Page
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode


def submit(browser: Browser, **fields: str) -> tuple[int, dict[str, object]]:
    """Submit as the script of the editor does; return the status and the body."""
    page = browser.open("editor")
    headers = {"Accept": "application/json", "Origin": browser.address}
    answer = browser.http.post("editor/run", data={**page.hidden, **fields}, headers=headers)
    return answer.status_code, answer.json()


def test_a_form_without_scripts_leads_to_the_statement(browser: Browser) -> None:
    page = browser.submit(browser.open("editor"), "editor/run", text="SELECT 'it''s;'; -- one\n")
    assert page.response.status_code == 200
    assert page.response.url.path.startswith("/ui/statements/st_")
    assert "SELECT 'it''s;'" in page.text


def test_statements_of_one_editor_share_a_connection(node: InProcessNode, browser: Browser) -> None:
    status, first = submit(browser, text="SELECT 1")
    assert (status, first["is_new_connection"]) == (201, True)
    connection = str(first["connection"])
    status, second = submit(browser, text="SELECT 2", connection=connection)
    assert (status, second["is_new_connection"]) == (201, False)
    assert second["connection"] == connection
    assert node.http.delete(f"/api/v1/connections/{connection}").status_code in {200, 202, 204}
    _status, third = submit(browser, text="SELECT 3", connection=connection)
    assert third["is_new_connection"]
    assert third["connection"] != connection


def count_connections(node: InProcessNode) -> int:
    return len(node.http.get("/api/v1/connections").json()["items"])


def test_a_submit_that_comes_again_runs_once_in_its_connection(
    node: InProcessNode, browser: Browser
) -> None:
    _status, first = submit(browser, text="SELECT 1", key="k1")
    connection = str(first["connection"])
    # The answer to the first submit was lost: the editor does not know its connection.
    _status, again = submit(browser, text="SELECT 1", key="k1")
    assert (again["id"], again["connection"]) == (first["id"], connection)
    assert count_connections(node) == 1
    _status, again = submit(browser, text="SELECT 1", key="k1", connection=connection)
    assert again["id"] == first["id"]
    status, error = submit(browser, text="SELECT 2", key="k1", connection=connection)
    assert status in {409, 422}
    assert error["code"]


def test_a_refused_submit_leaves_no_connection(node: InProcessNode, browser: Browser) -> None:
    assert submit(browser, text="SAVE STREAM nonsense nonsense")[0] == 400
    assert browser.submit(browser.open("editor"), "editor/run", text="SELECT 1").text
    assert count_connections(node) == 0


def test_a_script_is_divided_as_the_shell_does(browser: Browser) -> None:
    text = "SELECT '𝄞;';\n-- ;\nBEGIN SELECT 1; SELECT 2; END;\n;SELECT `a;b`"
    page = browser.open("editor")
    headers = {"Accept": "application/json", "Origin": browser.address}
    data = {**page.hidden, "text": text}
    answer = browser.http.post("editor/split", data=data, headers=headers)
    pieces = answer.json()
    assert [piece["changes_all_of"] for piece in pieces] == [None, None, None]
    assert [piece["text"] for piece in pieces] == [
        "SELECT '𝄞;'",
        "-- ;\nBEGIN SELECT 1; SELECT 2; END",
        "SELECT `a;b`",
    ]
    for piece in pieces:
        assert text[piece["from"] :].startswith(piece["text"])
    data = {**page.hidden, "text": "x" * 5_000_000}
    assert browser.http.post("editor/split", data=data, headers=headers).status_code == 413


@pytest.mark.parametrize("text", ["", " -- nothing\n", ";;", "SELECT 1; SELECT 2"])
def test_a_text_without_exactly_one_statement_is_refused(browser: Browser, text: str) -> None:
    status, error = submit(browser, text=text)
    assert (status, error["code"]) == (400, "invalid_request")
    page = browser.submit(browser.open("editor"), "editor/run", text=text)
    assert page.response.status_code == 400
    assert "One is run at a time." in page.text


def test_a_long_statement_is_taken_and_a_longer_one_refused(browser: Browser) -> None:
    long = "SELECT '" + "x" * 2_000_000 + "'"
    assert submit(browser, text=long)[0] == 201
    status, error = submit(browser, text=long * 3)
    assert (status, error["code"]) == (413, "body_too_large")
    assert submit(browser, text="SELECT 1", key="k" * 101)[0] == 400


def test_an_error_of_the_grammar_has_its_place(browser: Browser) -> None:
    status, error = submit(browser, text="SAVE STREAM\n  nonsense nonsense")
    assert status == 400
    assert (error["line"], error["column"]) != (None, None)


def test_a_link_opens_its_statements_and_submits_nothing(
    node: InProcessNode, browser: Browser
) -> None:
    first, second = (str(node.submit(f"SELECT {number}")["id"]) for number in range(2))
    with node.expect_no_changes():
        page = browser.open(f"editor?run={first}&run={second}&run=st_unknown")
    assert {f"../statements/{first}", f"../statements/{second}"} <= set(page.links)
    assert "not kept any more" in page.text
    assert "SELECT 1" in page.text
    many = "&".join(f"run={first}" for _number in range(21))
    assert browser.open(f"editor?{many}").response.status_code == 400


def test_the_state_of_a_statement_is_told(node: InProcessNode, browser: Browser) -> None:
    session, driver = node.start_session()
    statement = str(node.submit("SELECT 1", session=session)["id"])
    state = browser.http.get(f"statements/{statement}/state").json()
    assert state == {"state": "waiting", "has_ended": False, "has_succeeded": False, "error": None}
    driver.claim()
    driver.succeed(statement)
    state = browser.http.get(f"statements/{statement}/state").json()
    assert (state["has_ended"], state["has_succeeded"]) == (True, True)


def test_statements_of_others_stay_out_of_an_editor(start_node: StartNode) -> None:
    node = start_node(token="of-the-node")
    tokens = create_tokens(node.database, ["ada", "bob"])
    headers = {"Authorization": f"Bearer {tokens['ada']}"}
    body = {"statement": "SELECT 'of ada'"}
    statement = node.http.post("/api/v1/statements", json=body, headers=headers).json()["id"]
    with Browser(node) as browser:
        page: Page = browser.sign_in(tokens["bob"], f"editor/sql?run={statement}")
        assert "of ada" not in page.text
        assert "are not yours" in page.text
        assert browser.http.get(f"statements/{statement}/state").status_code == 404

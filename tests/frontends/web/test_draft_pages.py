"""Drafts of the editor: saves, conflicts, and who may read them."""

from __future__ import annotations

import secrets
from typing import Any

import httpx
import pytest
from tests.support.browsers import Browser
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.control.identity.authenticator import make_token
from headrace.control.policy import Caller
from headrace.errors import DraftNotFound
from headrace.model.identity import Scope, group_owner
from headrace.model.ids import new_id
from headrace.store.identity import tokens as token_store
from headrace.store.identity import users

HOSTILE = "SELECT '</textarea><script>alert(1)</script>'"


def save(
    browser: Browser, text: str, link: str = "", revision: str | None = '"0"'
) -> httpx.Response:
    """Save a draft as the script of the editor does. Without a link, the draft is new."""
    page = browser.open("editor")
    link = link or f"/dr_{secrets.token_hex(16)}"
    headers = {"Accept": "application/json", "Origin": browser.address}
    if revision is not None:
        headers["If-Match"] = revision
    data = {**page.hidden, "text": text}
    return browser.http.put(f"editor/drafts{link}", data=data, headers=headers)


def read(browser: Browser, draft_id: str) -> dict[str, Any]:
    body: dict[str, Any] = browser.http.get(f"editor/drafts/{draft_id}").json()
    return body


def test_a_draft_is_kept_and_opened_by_its_link(browser: Browser) -> None:
    text = f"\n{HOSTILE};\r\nSELECT '𝄞 &amp; é'"
    answer = save(browser, text)
    assert answer.status_code == 201
    body = answer.json()
    assert body["revision"] == 1
    draft = body["id"]
    # The answer to the first save was lost.
    assert save(browser, text, f"/{draft}").json() == body
    answer = save(browser, f"{text} ", f"/{draft}", '"1"')
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert read(browser, draft) == {"id": draft, "revision": 2, "text": f"{text} "}
    page = browser.open(f"editor?draft={draft}")
    assert page.find_unwanted_tags() == []
    assert HOSTILE in page.text
    page = browser.open("editor/drafts")
    assert f"../editor/sql?draft={draft}" in page.links
    assert page.find_unwanted_tags() == []
    page = browser.submit(page, f"editor/drafts/{draft}/delete")
    assert HOSTILE in page.text
    assert page.find_unwanted_tags() == []
    assert read(browser, draft)["revision"] == 2
    page = browser.submit(page, f"editor/drafts/{draft}/delete")
    assert "You have no drafts." in page.text
    # A second tab shows the button still.
    assert browser.submit(page, f"editor/drafts/{draft}/delete").response.status_code == 200
    assert "is not kept any more" in browser.open(f"editor?draft={draft}").text


def test_a_conflict_keeps_both_texts(browser: Browser) -> None:
    draft = save(browser, "SELECT 1").json()["id"]
    assert save(browser, "SELECT 2", f"/{draft}", '"1"').json()["revision"] == 2
    answer = save(browser, "SELECT 3", f"/{draft}", '"1"')
    assert answer.status_code == 201
    copy = answer.json()
    assert copy["id"] != draft
    assert read(browser, draft)["text"] == "SELECT 2"
    assert read(browser, copy["id"])["text"] == "SELECT 3"
    # The answer to the save was lost.
    answer = save(browser, "SELECT 2", f"/{draft}", '"1"')
    assert (answer.status_code, answer.json()["revision"]) == (200, 2)
    browser.submit(browser.open("editor/drafts"), f"editor/drafts/{draft}/delete", confirmed="1")
    assert save(browser, "SELECT 2", f"/{draft}", '"2"').status_code == 201


@pytest.mark.parametrize(
    ("text", "revision", "status"),
    [
        ("SELECT 1", None, 400),
        ("SELECT 1", "1", 400),
        ("SELECT 1", "*", 400),
        ("SELECT 1", '"1", "2"', 400),
        ("SELECT 1", f'"{10**30}"', 400),
        ("SELECT '\0'", '"1"', 400),
        ("x" * 1_100_000, '"1"', 413),
        ("é" * 600_000, '"1"', 413),
        ("x" * 5_000_000, '"1"', 413),
    ],
    ids=[
        *("no revision", "no quotes", "any", "two", "long", "NUL"),
        *("a large text", "a large text of UTF-8", "a large form"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_changes_nothing(
    browser: Browser, text: str, revision: str | None, status: int
) -> None:
    draft = save(browser, "SELECT 1").json()["id"]
    answer = save(browser, text, f"/{draft}", revision)
    assert answer.status_code == status
    assert answer.json()["message"]
    assert read(browser, draft)["revision"] == 1


def test_wrong_links_and_forms_of_other_sites_save_nothing(browser: Browser) -> None:
    assert browser.http.get("editor/drafts/dr_x").status_code == 400
    assert browser.http.get(f"editor/drafts/dr_{0:032x}").status_code == 404
    assert browser.open("editor?draft=x").response.status_code == 400
    headers = {"Origin": "http://evil.test", "If-Match": '"0"'}
    link = f"editor/drafts/dr_{0:032x}"
    answer = browser.http.put(link, data={"text": "SELECT 1"}, headers=headers)
    assert answer.status_code == 403
    assert "You have no drafts." in browser.open("editor/drafts").text


def test_the_draft_with_the_oldest_save_gives_way(start_node: StartNode) -> None:
    node = start_node(web={"drafts_per_user": 2})
    with Browser(node) as browser:
        first, second, third = (
            save(browser, f"SELECT {number}").json()["id"] for number in range(3)
        )
        links = browser.open("editor/drafts").links
    assert [f"../editor/sql?draft={each}" in links for each in (first, second, third)] == [
        *(False, True, True)
    ]


def test_a_title_has_no_secret(browser: Browser) -> None:
    save(browser, "CREATE STREAM s FROM jdbc OPTIONS ('password' = 'hunter2')")
    page = browser.open("editor/drafts")
    assert "CREATE STREAM s" in page.text
    assert "hunter2" not in page.text


def test_drafts_of_others_are_not_found_by_any_role(start_node: StartNode) -> None:
    node: InProcessNode = start_node(token="of-the-node")
    tokens = create_tokens(node.database, ["ada", "bob"])
    with Browser(node) as browser:
        browser.sign_in(tokens["ada"], "editor")
        draft = save(browser, "SELECT 'of ada'").json()["id"]
        assert read(browser, draft)["text"] == "SELECT 'of ada'"
    for token in (tokens["bob"], "of-the-node"):
        with Browser(node) as browser:
            browser.sign_in(token, "editor")
            assert browser.http.get(f"editor/drafts/{draft}").status_code == 404
            assert "of ada" not in browser.open(f"editor?draft={draft}").text
            for revision in ('"0"', '"1"'):
                copy = save(browser, "SELECT 'of bob'", f"/{draft}", revision)
                assert copy.status_code == 201
                assert copy.json()["id"] != draft
            browser.submit(
                browser.open("editor/drafts"), f"editor/drafts/{draft}/delete", confirmed="1"
            )
    with Browser(node) as browser:
        browser.sign_in(tokens["ada"], "editor")
        assert read(browser, draft)["text"] == "SELECT 'of ada'"


def test_members_who_act_for_one_group_do_not_share_drafts(node: InProcessNode) -> None:
    ada, bob = (Caller(owner=group_owner("ldap", "team"), user=user) for user in ("ada", "bob"))
    drafts, draft_id = node.node.drafts, new_id("dr")
    drafts.save_draft(ada, draft_id, 0, title="", text="SELECT 'ada'", connection_id=None)
    assert drafts.open_draft(ada, draft_id).text == "SELECT 'ada'"
    assert drafts.list_drafts(bob) == []
    with pytest.raises(DraftNotFound):
        drafts.open_draft(bob, draft_id)
    saved = drafts.save_draft(bob, draft_id, 1, title="", text="SELECT 'bob'", connection_id=None)
    assert (saved.is_new, saved.id == draft_id) == (True, False)
    drafts.delete_draft(bob, draft_id)
    assert drafts.open_draft(ada, draft_id).text == "SELECT 'ada'"


def create_group_token(node: InProcessNode, member: str, group: str) -> str:
    """Sign a member of a group in, and return a token with which the member acts for the group."""
    new = make_token()
    with node.database.write("test") as tx:
        user = users.sign_in(tx, "corp", member, name=member, groups=("etl", "bi"))
        token = token_store.insert_token(
            tx,
            new.secret_hash,
            owner=group_owner("corp", group),
            name=f"{member}-{group}",
            scope=Scope.ADMIN,
            seconds=3600,
            created_by=user.id,
        )
    return new.text(token.id)


def test_the_editor_tells_the_members_of_a_group_and_their_groups_apart(
    start_node: StartNode,
) -> None:
    node = start_node(token="of-the-node")
    shown: dict[tuple[str, str], str] = {}
    draft = ""
    for member, group in (("ada", "etl"), ("bob", "etl"), ("ada", "bi")):
        with Browser(node) as browser:
            page = browser.sign_in(create_group_token(node, member, group), "editor")
            [form] = [values for _, values in page.tags if values.get("id") == "editor"]
            shown[member, group] = str(form["data-user"])
            if not draft:
                draft = save(browser, "SELECT 'of ada'").json()["id"]
            status = browser.http.get(f"editor/drafts/{draft}").status_code
            assert status == (200 if member == "ada" else 404)
    # A text or a statement that waits is sent only for whom it was written.
    assert len(set(shown.values())) == 3, shown


def test_the_history_of_the_editor_says_that_it_has_the_statements_of_groups(
    browser: Browser,
) -> None:
    assert "Last statements of you and your groups" in browser.open("editor/drafts").text

"""The pages of webhooks: whether messages arrive, why they do not, and the test of an endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.support.browsers import Browser
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.webhook_receiver import SECRET, WebhookReceiver, receive_webhooks
from tests.support.webhooks import Outcome, insert_message, insert_webhook

RUN = "rn_0193f4a8c2d17b3e9f60a1b2c3d4e5f6"
HOSTILE = "<script>alert(1)</script>"
PATH = "token-in-the-path"


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with receive_webhooks() as receiver:
        yield receiver


@pytest.fixture
def node(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> InProcessNode:
    """Return a node that sends nothing by itself."""
    monkeypatch.setenv("SECRET_hook", SECRET)
    return start_node(
        secrets={"provider": "environment", "allowed": {"hook": ["*"]}},
        outbox={"private_networks": ["127.0.0.0/8"]},
        lease={"sweep": "1h"},
    )


@pytest.fixture
def browser(node: InProcessNode) -> Iterator[Browser]:
    with Browser(node) as browser:
        yield browser


def test_the_list_says_which_endpoints_fail_and_why(node: InProcessNode, browser: Browser) -> None:
    assert "There are no webhooks yet." in browser.open("webhooks").text
    host = f"https://hooks.example.com/{PATH}"
    insert_webhook(node, "unused", host)
    histories: list[tuple[str, list[Outcome]]] = [
        ("arriving", [("failed", 500, "the endpoint answered 500"), ("sent", 204, "")]),
        ("failing", [("sent", 200, ""), ("waiting", 503, HOSTILE), ("failed", None, "refused")]),
    ]
    for name, outcomes in histories:
        webhook = insert_webhook(node, name, host)
        for number, outcome in enumerate(outcomes):
            insert_message(node, webhook, f"rn_{number}", outcome)
    page = browser.open("webhooks")
    rows = {
        name: (state, why, waiting, failed)
        for state, name, why, waiting, failed in re.findall(
            r"(?:[○●▲]) (\w+) (\w+) \S+ hooks\.example\.com run\. ?failed (.*?) ?"
            r"(?:\W|[\d: -]+UTC) (\d) (\d)",
            page.text,
        )
    }
    assert rows == {
        "unused": ("unused", "", "0", "0"),
        "arriving": ("arriving", "", "0", "1"),
        "failing": ("failing", "refused", "1", "1"),
    }
    assert page.find_unwanted_tags() == []
    assert PATH not in page.response.text
    for wrong in ("webhooks?before=x", "webhooks?before=rn_" + "0" * 32):
        assert browser.open(wrong).response.status_code == 400
    assert "There are no further webhooks." in browser.open("webhooks?before=wh_" + "0" * 32).text


def test_a_message_shows_its_attempts_status_error_and_next_attempt(
    node: InProcessNode, browser: Browser
) -> None:
    webhook = insert_webhook(node, "hook", f"https://hooks.example.com/{PATH}")
    assert "There are no messages to it yet." in browser.open("webhooks/hook").text
    insert_message(node, webhook, "alice/7", ("sent", 204, ""))
    insert_message(node, webhook, RUN, ("waiting", 503, HOSTILE))
    insert_message(node, webhook, "due")
    stream = f"sq_{'0' * 32}"
    insert_message(node, webhook, f"{stream}/12")
    page = browser.open("webhooks/hook")
    assert page.find_unwanted_tags() == []
    assert re.search(
        rf"○ waiting run\. ?failed {RUN} 1 503 {re.escape(HOSTILE)}"
        r" \S+ \S+ UTC \S+ \S+ UTC in 1?\d",
        page.text,
    )
    assert re.search(r"● sent run\. ?failed alice/7 1 204", page.text)
    assert re.search(r"○ waiting run\. ?failed due 0 \S+ \S+ UTC \S now", page.text)
    assert f"The last attempt to send a message has failed. {HOSTILE}" in page.text
    for link in (f"runs/{RUN}", f"streams/{stream}"):
        assert [each for each in page.links if each.endswith(link)]
    assert PATH not in page.response.text
    assert SECRET not in page.response.text
    shown = browser.open(f"webhooks/{webhook}/json").response.json()
    assert (shown["state"], shown["waiting"], shown["last_error"]) == ("failing", 3, HOSTILE)
    assert PATH not in str(shown)
    older = browser.open(f"webhooks/hook?before=dl_{'0' * 32}")
    assert "There are no further messages." in older.text
    assert browser.open("webhooks/hook?before=x").response.status_code == 400


def test_a_test_shows_the_answer_of_the_endpoint(
    node: InProcessNode, browser: Browser, receiver: WebhookReceiver
) -> None:
    webhook = insert_webhook(node, "hook", receiver.url)
    receiver.answers = [(200, {}, HOSTILE.encode()), (500, {}, b"down")]
    page = browser.submit(browser.open("webhooks/hook"), f"webhooks/{webhook}/test")
    assert "The endpoint answered 200 to the test after" in page.text
    assert HOSTILE in page.text
    assert page.find_unwanted_tags() == []
    failed = browser.submit(page, f"webhooks/{webhook}/test")
    assert "The test failed after" in failed.text
    assert "the endpoint answered 500." in failed.text
    assert len(receiver.messages) == 2
    # The address of the action can be opened, and sends nothing.
    assert "Webhook hook" in browser.open(f"webhooks/{webhook}/test").text
    assert len(receiver.messages) == 2


def test_a_webhook_is_deleted_after_a_question(node: InProcessNode, browser: Browser) -> None:
    webhook = insert_webhook(node, "hook", "https://hooks.example.com/")
    insert_message(node, webhook, RUN)
    asked = browser.submit(browser.open("webhooks/hook"), f"webhooks/{webhook}/delete")
    assert "Delete the webhook hook?" in asked.text
    assert "Messages that wait to be sent are lost." in asked.text
    assert browser.open("webhooks/hook").response.status_code == 200
    deleted = browser.submit(asked, f"webhooks/{webhook}/delete")
    assert "There are no webhooks yet." in deleted.text
    assert browser.submit(asked, f"webhooks/{webhook}/delete").response.status_code == 404


def test_pages_that_cannot_be_are_refused(node: InProcessNode, browser: Browser) -> None:
    webhook = insert_webhook(node, "hook", "https://hooks.example.com/")
    page = browser.open("webhooks/hook")
    assert browser.submit(page, f"webhooks/{webhook}/disable").response.status_code == 400
    for missing in ("webhooks/none", "webhooks/none/json", "webhooks/wh_" + "0" * 32):
        assert browser.open(missing).response.status_code == 404
    assert browser.open(f"webhooks/{'x' * 200}").response.status_code == 400


def test_webhooks_of_the_settings_are_shown_to_those_who_see_all_and_not_deleted(
    start_node: StartNode, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_hook", SECRET)
    declared = {"url": receiver.url, "secret": "${secret:hook}", "events": ["run.failed"]}
    node = start_node(
        token="operator",
        secrets={"provider": "environment"},
        outbox={"private_networks": ["127.0.0.0/8"]},
        webhooks={"all": {**declared, "owners": ["ada"]}},
    )
    secrets = create_tokens(node.database, ["ada", "bob"])
    own = insert_webhook(node, "own", "https://hooks.example.com/", owner="ada")
    with Browser(node) as browser:
        listed = browser.sign_in("operator", "webhooks?owner=all")
        assert "all (settings) 127.0.0.1" in listed.text
        assert [each for each in listed.links if each.endswith("webhooks/settings%2Fall")]
        page = browser.open("webhooks/settings%2Fall")
        assert "none: the settings of the nodes declare it" in page.text
        assert [each.rpartition("/")[2] for each in page.actions if "webhooks" in each] == ["test"]
        tested = browser.submit(page, "webhooks/settings%2Fall/test")
        assert "The endpoint answered 200" in tested.text
        refused = browser.submit(page, "webhooks/settings%2Fall/delete", confirmed="1")
        assert (refused.response.status_code, "Remove webhooks.all" in refused.text) == (400, True)
    with Browser(node) as browser:
        assert "There are no webhooks yet." in browser.sign_in(secrets["bob"], "webhooks").text
        for foreign in (own, "settings%2Fall"):
            assert browser.open(f"webhooks/{foreign}").response.status_code == 404
        page = browser.open("webhooks")
        assert browser.submit(page, f"webhooks/{own}/test").response.status_code == 404

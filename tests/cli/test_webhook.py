"""`headrace webhook`, with a node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.conftest import RunHeadrace
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.webhook_receiver import SECRET, WebhookReceiver, receive_webhooks


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with receive_webhooks() as receiver:
        yield receiver


@pytest.fixture
def server(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> InProcessNode:
    monkeypatch.setenv("SECRET_hook", SECRET)
    return start_node(
        secrets={"provider": "environment", "allowed": {"*": ["*"]}},
        outbox={"private_networks": ["127.0.0.0/8"]},
    )


@pytest.fixture
def environment(environment: dict[str, str], server: InProcessNode) -> dict[str, str]:
    return {**environment, "HEADRACE_SERVER": server.address}


def test_a_webhook_is_added_tested_listed_and_deleted(
    headrace: RunHeadrace, receiver: WebhookReceiver
) -> None:
    options = ("--url", receiver.url, "--secret", "${secret:hook}", "--event", "run.failed")
    added = headrace("webhook", "add", "on-call", *options, "--job", "daily-*")
    assert added.returncode == 0, added.stderr
    listed = headrace("webhook", "list").stdout
    assert "on-call" in listed
    assert "token-in-the-path" not in listed
    tested = headrace("webhook", "test", "on-call")
    assert (tested.returncode, tested.stdout) == (0, "ok\n"), tested.stderr
    assert "The endpoint answered 200" in tested.stderr
    receiver.answers = [(500, {}, b"down")]
    failed = headrace("webhook", "test", "on-call")
    assert (failed.returncode, failed.stdout) == (1, "down\n")
    assert "the endpoint answered 500" in failed.stderr
    assert headrace("webhook", "deliveries", "on-call").returncode == 0
    assert headrace("webhook", "delete", "on-call").returncode == 0
    missing = headrace("webhook", "deliveries", "on-call")
    assert "There is no webhook 'on-call'." in missing.stderr

"""Webhooks in the store of a node, and messages to them after attempts that a test has chosen."""

from __future__ import annotations

from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode

from headrace.model.delivery import NewDelivery, Webhook
from headrace.model.ids import new_id
from headrace.store import deliveries, webhooks

Outcome = tuple[str, int | None, str]
"""The state of a message after an attempt, its HTTP status, and the error."""


def insert_webhook(
    node: InProcessNode, name: str, url: str, owner: str = LOCAL_CALLER.owner
) -> str:
    webhook = Webhook(
        id=new_id("wh"),
        owner=owner,
        name=name,
        url=url,
        secret="${secret:hook}",
        events=["run.failed"],
    )
    with node.database.write("test") as tx:
        webhooks.insert_webhook(tx, webhook)
    return webhook.id


def insert_message(
    node: InProcessNode, webhook: str, subject: str, outcome: Outcome | None = None
) -> None:
    """Insert a message, and end an attempt to send it; None: it is due."""
    new = NewDelivery(
        endpoint=webhook, owner="ada", kind="run.failed", subject=subject, payload="{}"
    )
    with node.database.write("test") as tx:
        deliveries.insert_deliveries(tx, [new])
        if outcome is None:
            return
        state, status, error = outcome
        [claimed] = deliveries.claim_due(tx, 60, 1, without=())
        if state == "sent":
            deliveries.record_sent(tx, claimed, status=status)
        elif state == "failed":
            deliveries.record_failed(tx, claimed, error=error, status=status)
        else:
            deliveries.postpone(tx, claimed, 600, error=error, status=status)

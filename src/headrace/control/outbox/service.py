"""The service for webhooks: create, list, test and delete them, and list their messages."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.config.alert_events import AlertEvent
from headrace.config.outbox import check_endpoint_url, check_secret_reference
from headrace.control.context import NodeContext
from headrace.control.outbox.alerts import make_payload
from headrace.control.outbox.sender import MessagePost
from headrace.control.policy import (
    Action,
    Caller,
    check,
    find_named,
    listed_owners,
    require_creator,
    resolve_owner,
)
from headrace.errors import InvalidRequest, WebhookNotFound
from headrace.model.delivery import (
    CONFIGURED_PREFIX,
    MAX_JOBS,
    Delivery,
    RecentDeliveries,
    Webhook,
)
from headrace.model.ids import looks_like_id, new_id
from headrace.store import deliveries, webhooks
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.text.readable import format_utc

TEST_KIND = "webhook.test"
"""Type of the message that `test` sends."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_MOST_WEBHOOKS = 100
"""Webhooks of one owner. Each alert reads them."""
_BATCH = 1000
_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTest:
    """What the endpoint of a webhook has answered to a test."""

    message_id: str
    status: int | None
    """HTTP status; None: there was no response."""
    response: str
    """Begin of the response."""
    error: str | None
    """Why the test has failed; None: it has not."""
    seconds: float


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """A webhook, and what became of the last messages to it."""

    webhook: Webhook
    recent: RecentDeliveries

    @property
    def id(self) -> str:
        """Id of the webhook."""
        return self.webhook.id


class Webhooks:
    """Webhooks of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._configured = context.alerts.configured
        self._message_post = MessagePost(context)

    def create(
        self,
        caller: Caller,
        *,
        name: str,
        url: str,
        secret: str,
        events: Sequence[AlertEvent],
        jobs: Sequence[str] = (),
        owner: str | None = None,
    ) -> Webhook:
        """Create a webhook for the objects of the caller, or of one of its groups.

        Raises:
            NotPermitted: The caller may not act for the owner.
            InvalidRequest: The name, the URL, the secret or the number of webhooks is not allowed.
            SecretDenied, SecretNotFound, InvalidSecret, SecretUnavailable: The owner may not use
                the secret, or its value cannot be used.
            WebhookNameExists: The owner has a webhook with this name.
        """
        require_creator(caller, "webhooks")
        webhook = Webhook(
            id=new_id("wh"),
            owner=resolve_owner(caller, owner),
            name=name,
            url=url,
            secret=secret,
            events=list(dict.fromkeys(events)),
            jobs=list(jobs),
        )
        _check(webhook)
        self._message_post.find_key(webhook)
        with self._database.write("webhook.create") as tx:
            assert webhook.owner is not None
            if len(webhooks.list_of_owner(tx, webhook.owner)) >= _MOST_WEBHOOKS:
                raise InvalidRequest(f"An owner has at most {_MOST_WEBHOOKS} webhooks.")
            webhooks.insert_webhook(tx, webhook)
            created = webhooks.get(tx, webhook.id)
        assert created is not None
        return created

    def page(
        self, caller: Caller, *, before: str | None, limit: int, all_owners: bool = False
    ) -> list[WebhookStatus]:
        """Return at most `limit` webhooks of the owners that `caller` lists, newest first.

        Those of the settings come first, for a caller who lists the objects of all owners.
        """
        owners = listed_owners(caller, all_owners=all_owners)
        configured = self._configured if owners is None and before is None else ()
        with self._database.read() as tx:
            stored = webhooks.page(tx, owners=owners, before=before, limit=limit)
            listed = [*configured, *stored][:limit]
            recent = deliveries.read_recent(tx, [each.id for each in listed])
        return [WebhookStatus(each, recent[each.id]) for each in listed]

    def get(self, caller: Caller, name_or_id: str) -> WebhookStatus:
        """Return a webhook. Raise WebhookNotFound."""
        with self._database.read() as tx:
            webhook = self._find(tx, caller, name_or_id, Action.READ)
            recent = deliveries.read_recent(tx, [webhook.id])
        return WebhookStatus(webhook, recent[webhook.id])

    def delete(self, caller: Caller, name_or_id: str) -> Webhook:
        """Delete a webhook with its messages, and return it.

        Raises:
            WebhookNotFound: The caller may read no such webhook.
            NotPermitted: The caller may read it, but not delete it.
            InvalidRequest: The settings declare it.
        """
        with self._database.write("webhook.delete") as tx:
            webhook = self._find(tx, caller, name_or_id, Action.CHANGE)
            if webhook.owner is None:
                raise InvalidRequest(
                    f"The settings of the nodes declare the webhook {webhook.name}.",
                    hint=f"Remove webhooks.{webhook.name} from the settings.",
                )
            webhooks.delete_webhook(tx, webhook.id)
            # The retention deletes what is more.
            deliveries.delete_of_endpoint(tx, webhook.id, _BATCH)
        return webhook

    def test(self, caller: Caller, name_or_id: str) -> WebhookTest:
        """Send a test to a webhook now, and return what its endpoint answers.

        Raise WebhookNotFound and NotPermitted.
        """
        with self._database.read() as tx:
            webhook = self._find(tx, caller, name_or_id, Action.CHANGE)
            now = read_clock(tx.connection)
        message_id, start = new_id("dl"), time.monotonic()
        data = {"webhook": webhook.name, "by": caller.actor}
        payload = make_payload(TEST_KIND, data, format_utc(now))
        outcome = self._message_post.send_to(webhook, message_id, payload)
        return WebhookTest(
            message_id=message_id,
            status=outcome.status,
            response=outcome.body,
            error=outcome.error,
            seconds=time.monotonic() - start,
        )

    def deliveries(
        self, caller: Caller, name_or_id: str, *, before: str | None, limit: int
    ) -> list[Delivery]:
        """Return at most `limit` messages to a webhook, newest first. Raise WebhookNotFound."""
        with self._database.read() as tx:
            webhook = self._find(tx, caller, name_or_id, Action.READ)
            return deliveries.page(tx, webhook.id, before=before, limit=limit)

    def _find(self, tx: Tx, caller: Caller, name_or_id: str, action: Action) -> Webhook:
        missing = WebhookNotFound(f"There is no webhook {name_or_id[:_SHOWN]!r}.")
        if name_or_id.startswith(CONFIGURED_PREFIX):
            named = {each.id: each for each in self._configured}
            return check(caller, action, named.get(name_or_id), missing)
        if looks_like_id(name_or_id):
            return check(caller, action, webhooks.get(tx, name_or_id), missing)
        own = next(iter(webhooks.list_named(tx, [caller.owner], name_or_id)), None)
        webhook = find_named(
            caller, own, lambda owners: webhooks.list_named(tx, owners, name_or_id)
        )
        return check(caller, action, webhook, missing)


def _check(webhook: Webhook) -> None:
    """Raise InvalidRequest for a webhook that cannot be."""
    if looks_like_id(webhook.name) or _NAME.fullmatch(webhook.name) is None:
        raise InvalidRequest(
            f"{webhook.name[:_SHOWN]!r} cannot be the name of a webhook. Use a letter or a digit,"
            " then up to 99 letters, digits, '_', '.' or '-'."
        )
    if not webhook.events or len(webhook.jobs) > MAX_JOBS:
        raise InvalidRequest(
            f"A webhook has at least one event, and at most {MAX_JOBS} names of jobs."
        )
    try:
        check_endpoint_url(webhook.url)
        check_secret_reference(webhook.secret)
    except ValueError as error:
        raise InvalidRequest(f"The webhook {webhook.name}: {error}.") from None

"""Send the messages of the outbox: claim them, send them in threads, record what became of them.

A message is sent at least once: a node that ends while it sends leaves the lease of the message to
expire, and another node sends it again, with the same id.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.control.outbox.alerts import list_configured
from headrace.control.outbox.http_post import PostOutcome, post
from headrace.control.outbox.signing import parse_key, sign
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.worker_pool import WorkerPool
from headrace.errors import HeadraceError, StoreUnavailable
from headrace.grammar.secret_references import find_names
from headrace.model.delivery import (
    CONFIGURED_PREFIX,
    OPENLINEAGE,
    AttemptOutcome,
    Delivery,
    Webhook,
)
from headrace.store import deliveries, webhooks
from headrace.store.clock import read_clock
from headrace.store.notifications import WEBHOOKS
from headrace.text.readable import escape_controls

if TYPE_CHECKING:
    from headrace.control.context import NodeContext

_LOG = logging.getLogger("headrace.outbox")
_FIRST_DELAY = 5.0
_LONGEST_DELAY = 3600.0
_JITTER = (0.8, 1.2)
_LEASE_SPARE = 60.0
"""Seconds by which the lease of a message is longer than two attempts: names may resolve slowly."""
_USE_SECONDS = 30.0
"""Time after which a node looks again whether the outbox is used."""
_read_time = time.time
_STOP_SECONDS = 2.0
_MAX_ERROR = 500
_HEADERS = {"Content-Type": "application/json", "User-Agent": f"headrace/{__version__}"}


class MessagePost:
    """Sends single messages to their endpoints."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._secrets = context.secrets
        self._settings = context.settings.outbox
        self._openlineage = context.settings.openlineage
        self._configured = {each.id: each for each in list_configured(context.settings)}
        self._file_guard = threading.Lock()

    def send(self, delivery: Delivery) -> PostOutcome:
        """Send a message once, and return what it has led to."""
        if delivery.endpoint == OPENLINEAGE:
            return self._send_event(delivery)
        webhook = self._find(delivery.endpoint)
        if webhook is None:
            return PostOutcome(error="the node has no such webhook")
        return self.send_to(webhook, delivery.id, delivery.payload)

    def send_to(self, webhook: Webhook, message_id: str, payload: str) -> PostOutcome:
        """Send a signed message to a webhook. Each attempt has its own time and signature."""
        try:
            key = self.find_key(webhook)
        except StoreUnavailable:
            raise
        except HeadraceError as error:
            return PostOutcome(error=f"its secret cannot be used: {error.message}")
        body = payload.encode()
        return post(
            webhook.url,
            body,
            _HEADERS | sign(key, message_id, int(_read_time()), body),
            seconds=self._settings.timeout.total_seconds(),
            private_networks=self._settings.private_networks,
        )

    def find_key(self, webhook: Webhook) -> bytes:
        """Return the key of a webhook. Raise what `Secrets.find` raises."""
        owners = None
        if webhook.owner is not None:
            with self._database.read() as tx:
                owners = self._secrets.list_owners(tx, webhook.owner)
        [name] = find_names(webhook.secret)
        return parse_key(self._secrets.find([name], owners)[name])

    def _find(self, endpoint: str) -> Webhook | None:
        if endpoint.startswith(CONFIGURED_PREFIX):
            return self._configured.get(endpoint)
        with self._database.read() as tx:
            return webhooks.get(tx, endpoint)

    def _send_event(self, delivery: Delivery) -> PostOutcome:
        """Send an OpenLineage event to its URL, or append it to its file."""
        settings = self._openlineage
        if settings.file is not None:
            try:
                with self._file_guard, settings.file.open("a", encoding="utf-8") as file:
                    file.write(delivery.payload + "\n")
            except OSError as error:
                return PostOutcome(error=f"the file cannot be written: {error.strerror}")
            return PostOutcome()
        if settings.url is None:
            return PostOutcome(error="the node has no receiver of OpenLineage events")
        headers = dict(_HEADERS)
        if settings.api_key is not None:
            [name] = find_names(settings.api_key)
            try:
                headers["Authorization"] = f"Bearer {self._secrets.find([name], None)[name]}"
            except HeadraceError as error:
                return PostOutcome(error=f"its key cannot be used: {error.message}")
        return post(
            settings.url,
            delivery.payload.encode(),
            headers,
            seconds=self._settings.timeout.total_seconds(),
            private_networks=None,
        )


class OutboxUse:
    """Knows whether the outbox can have messages, for most sweeps without a read of the store."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._is_configured = (
            bool(context.alerts.configured) or context.settings.openlineage.is_enabled
        )
        self._is_used = False
        self._valid_until = 0.0
        """On the monotonic clock."""
        self._subscription = self._database.notifications.subscribe(WEBHOOKS, self._forget)

    def find(self) -> bool:
        """Return whether there is a receiver of messages, or a message that waits.

        A node without any looks again after a while, and at once when an owner has a new webhook.
        """
        if self._is_configured:
            return True
        if time.monotonic() >= self._valid_until:
            # Before the read: a webhook that is created during it counts.
            self._valid_until = time.monotonic() + _USE_SECONDS
            with self._database.read() as tx:
                self._is_used = webhooks.has_any(tx) or deliveries.has_waiting(tx)
        return self._is_used

    def close(self) -> None:
        """Stop listening for new webhooks."""
        self._subscription.close()

    def _forget(self) -> None:
        self._valid_until = 0.0


class Outbox:
    """Sends the messages that are due. Several nodes may do so at the same time."""

    def __init__(
        self, context: NodeContext, observe_attempt: Callable[[Delivery, AttemptOutcome], None]
    ) -> None:
        self._observe_attempt = observe_attempt
        self._database = context.database
        self._settings = context.settings.outbox
        self._use = OutboxUse(context)
        self._message_post = MessagePost(context)
        seconds = self._settings.timeout.total_seconds()
        self._lease_seconds = 2 * seconds + _LEASE_SPARE
        self._pool = WorkerPool(
            "outbox", threads=self._settings.parallelism, seconds=self._lease_seconds
        )
        self._claiming = threading.Lock()
        self._in_flight: Counter[str] = Counter()
        """Messages that this node sends, by endpoint."""
        self._changed = threading.Condition()
        """Guards `in_flight`."""
        self._is_stopping = False
        self._random = random.SystemRandom()

    def run(self) -> None:
        """Begin to send the messages that are due, as far as threads are free."""
        if not self._use.find():
            return
        # Another thread that claims at present sees the same messages.
        if not self._claiming.acquire(blocking=False):
            return
        try:
            while self._claim_some():
                continue
        finally:
            self._claiming.release()

    def stop(self) -> None:
        """Begin no further attempt, and wait a moment for those in progress."""
        self._use.close()
        with self._changed:
            self._is_stopping = True
            self._changed.wait_for(lambda: not self._in_flight, _STOP_SECONDS)

    def _claim_some(self) -> bool:
        """Claim messages of endpoints to which none is in flight. Return whether there were any.

        An endpoint that hangs therefore keeps few threads.
        """
        with self._changed:
            free = self._settings.parallelism - self._in_flight.total()
            busy = list(self._in_flight)
        if free <= 0 or self._is_stopping:
            return False
        with self._database.read() as tx:
            if not deliveries.has_due(tx, without=busy):
                return False
        most = min(free, max(self._settings.parallelism // 4, 1))
        with self._database.write("outbox.claim") as tx:
            claimed = deliveries.claim_due(tx, self._lease_seconds, most, without=busy)
        with self._changed:
            self._in_flight.update(each.endpoint for each in claimed)
        for delivery in claimed:
            self._pool.submit(partial(self._deliver, delivery))
        return bool(claimed)

    def _deliver(self, delivery: Delivery) -> None:
        try:
            with isolate_errors(f"the message {delivery.id} was not sent"):
                outcome = self._record(delivery, self._message_post.send(delivery))
                self._observe_attempt(delivery, outcome)
        except StoreUnavailable as error:
            # The lease expires, and a node sends it again.
            _LOG.warning("the outcome of message %s is not stored: %s", delivery.id, error.message)
        finally:
            with self._changed:
                self._in_flight -= Counter([delivery.endpoint])
                self._changed.notify_all()
        with suppress(StoreUnavailable):
            self.run()

    def _record(self, delivery: Delivery, outcome: PostOutcome) -> AttemptOutcome:
        with self._database.write("outbox.record") as tx:
            if outcome.error is None:
                deliveries.record_sent(tx, delivery, status=outcome.status)
                return AttemptOutcome.SENT
            error = escape_controls(outcome.error)[:_MAX_ERROR]
            age = (read_clock(tx.connection) - delivery.created_at).total_seconds()
            delay = self._choose_delay(delivery.attempts)
            if age + delay < self._settings.retry_for.total_seconds():
                deliveries.postpone(tx, delivery, delay, error=error, status=outcome.status)
                return AttemptOutcome.POSTPONED
            deliveries.record_failed(tx, delivery, error=error, status=outcome.status)
        _LOG.error("the message %s to %s has failed: %s", delivery.id, delivery.endpoint, error)
        return AttemptOutcome.FAILED

    def _choose_delay(self, attempts: int) -> float:
        delay = min(_FIRST_DELAY * 2.0 ** min(attempts - 1, 30), _LONGEST_DELAY)
        return delay * self._random.uniform(*_JITTER)
